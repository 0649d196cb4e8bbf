"""Powers and roots."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from .broadcasting import sum_to
from .dtype import as_real, is_number, promote
from .kernel_set import kernels
from .operands import Binary, Gradients, binary, recording, summed, unary
from .piecewise import where

__all__ = [
    "hypot",
    "pow",
    "reciprocal",
    "rsqrt",
    "sqrt",
    "square",
]


class Sqrt(Function):
    """The square root of x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = wrap(kernels.sqrt(x.data))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        if recording():
            return (g / y * 0.5,)
        return (wrap(kernels.scaled_div(g.data, y.data, 0.5)),)


class Pow(Function):
    """x**exponent for a Python number"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, exponent: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.exponent = exponent
        return wrap(kernels.power(x.data, exponent))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,), n = ctx.saved_tensors, ctx.exponent
        if n == 0:  # 0 * x**-1 would be NaN at 0
            return wrap(np.zeros_like(g.data)), None
        if n == 1:
            return g * x**0 if recording() else g, None
        if n == 2 and not recording():
            return wrap(kernels.scaled_mul(g.data, x.data, 2.0)), None
        slope = x * n if n == 2 else x ** (n - 1) * n
        return g * slope, None


class Rsqrt(Function):
    """1 / sqrt(x)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = wrap(kernels.rsqrt(x.data))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        if recording():
            return (g * y**3 * -0.5,)
        return (wrap(kernels.rsqrt_grad(g.data, y.data)),)


class Reciprocal(Function):
    """1 / x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = wrap(kernels.reciprocal(x.data))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        if recording():
            return (-g * y * y,)
        return (wrap(kernels.reciprocal_grad(g.data, y.data)),)


class PowTensors(Binary):
    """x**y; the gradient to x is 0 where y is 0, the one to y is 0 where x is 0 and y is not negative"""

    exact = np.power

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return wrap(kernels.pow(x.data, y.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (x, y) = ctx.needs_input_grad, ctx.saved_tensors
        sx, sy = x.data.shape, y.data.shape
        if not recording():
            return summed(kernels.pow_grad(g.data, x.data, y.data, want_x, want_y), sx, sy)
        gx = gy = None
        if want_x:
            one = wrap(np.ones((), y.data.dtype))
            gx = sum_to(g * where(y == 0, 0.0, y * pow(x, where(y == 0, one, y) - 1.0)), sx)
        if want_y:
            zero = wrap(np.asarray((x.data == 0) & (y.data >= 0)))
            gy = sum_to(g * where(zero, 0.0, pow(x, y) * where(zero, 1.0, x).log()), sy)
        return gx, gy


class PowOfNumber(Function):
    """base**y for a Python number"""

    @staticmethod
    def forward(ctx: Any, base: float, y: Tensor) -> Tensor:
        z = wrap(kernels.pow(np.array(base, y.data.dtype), y.data))
        ctx.save_for_backward(z)
        ctx.factor = math.log(base)
        return z

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (z,) = ctx.saved_tensors
        if recording():
            return None, g * z * ctx.factor
        return None, wrap(kernels.scaled_mul(g.data, z.data, ctx.factor))


class Hypot(Binary):
    """sqrt(x*x + y*y) without overflow between"""

    integers = False

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        z = wrap(kernels.hypot(x.data, y.data))
        ctx.save_for_backward(x, y, z)
        return z

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (x, y, z) = ctx.needs_input_grad, ctx.saved_tensors
        sx, sy = x.data.shape, y.data.shape
        if not recording():
            return summed(kernels.hypot_grad(g.data, x.data, y.data, want_x, want_y), sx, sy)
        return sum_to(g * (x / z), sx) if want_x else None, sum_to(g * (y / z), sy) if want_y else None


def sqrt(input: Tensor) -> Tensor:
    """The square root of input: NaN below 0."""
    return unary(Sqrt, "sqrt", input)


def rsqrt(input: Tensor) -> Tensor:
    """1 / sqrt(input)"""
    return unary(Rsqrt, "rsqrt", input)


def reciprocal(input: Tensor) -> Tensor:
    """1 / input"""
    return unary(Reciprocal, "reciprocal", input)


def square(input: Tensor) -> Tensor:
    """input**2"""
    return pow(input, 2)


def pow(input: Tensor | float, exponent: Tensor | float) -> Tensor:
    """input**exponent; one of them may be a number. The gradient to input is 0 where the exponent is 0.

    Integers have integer powers; 0**0 is 1; the root of a negative number is NaN. Where an exponent in a Tensor of
    integers is negative, 1 and -1 have powers of 1 and -1, and all other integers 0.

    Raises:
        TypeError: an operand is neither a Tensor nor a number, or both hold truth values.
        ValueError: the shapes do not broadcast, or integers have a negative integer as exponent.
    """
    if isinstance(input, Tensor) and input.data.dtype.kind == "f" and is_number(exponent):
        return Pow.apply(input, as_real("pow", "exponent", exponent))
    if isinstance(exponent, Tensor) and exponent.data.dtype.kind == "f" and is_number(input) and input > 0:
        return PowOfNumber.apply(as_real("pow", "input", input), exponent)
    x, y = promote("pow", input, exponent, "exponent")
    if x.data.dtype.kind == "b":
        raise TypeError("pow: input and exponent are bool, needs numbers; convert one with .long()")
    if x.data.dtype.kind == "i" and (y.data < 0).any():
        if not isinstance(exponent, Tensor):
            raise ValueError("pow: an integer has no negative integer power; convert input with input.float()")
        return _integer_powers(x, y)
    return binary(PowTensors, "pow", x, y)


def _integer_powers(x: Tensor, y: Tensor) -> Tensor:
    """x**y, cut to integers: where y < 0, what is left of 1 / x**-y; 0 there is 0, too."""
    powers = binary(PowTensors, "pow", x, wrap(np.maximum(y.data, 0))).data
    odd = np.where(y.data & 1, x.data, 1)  # of 1 and -1
    return wrap(np.where(y.data < 0, np.where(np.abs(x.data) == 1, odd, 0), powers))


def hypot(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(input**2 + other**2), without overflow between; as ``add``, but one operand must be floating-point.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: neither operand is floating-point, or one is neither a Tensor nor a number.
    """
    return binary(Hypot, "hypot", input, other)
