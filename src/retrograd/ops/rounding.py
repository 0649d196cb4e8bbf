"""Absolute value, sign, rounding, and the division with a remainder."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from .broadcasting import sum_to
from .dtype import promote, require_float
from .kernel_set import kernels
from .operands import Binary, Gradients, binary, nothing, recording, unary_exact, unary_float
from .pointwise import pointwise

__all__ = [
    "abs",
    "absolute",
    "ceil",
    "fix",
    "floor",
    "floor_divide",
    "fmod",
    "frac",
    "remainder",
    "round",
    "sgn",
    "sign",
    "trunc",
]


Abs = pointwise("abs")


class Sign(Function):
    """-1, 0 or 1; the gradient is 0"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return wrap(kernels.sign(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return (nothing(g),)


class Ceil(Function):
    """The least integer that is not below x; the gradient is 0"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return wrap(kernels.ceil(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return (nothing(g),)


class Floor(Function):
    """The largest integer that is not above x; the gradient is 0"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return wrap(kernels.floor(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return (nothing(g),)


class Trunc(Function):
    """The integer next to x towards 0; the gradient is 0"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return wrap(kernels.trunc(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return (nothing(g),)


class Round(Function):
    """x rounded to so many decimals, halves to the even digit; the gradient is 0"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, decimals: int) -> Tensor:
        if not decimals:
            return wrap(kernels.round(x.array))
        factor = np.array(10.0 ** max(decimals, -decimals), x.array.dtype)
        there, back = (kernels.mul, kernels.div) if decimals > 0 else (kernels.div, kernels.mul)
        return wrap(back(kernels.round(there(x.array, factor)), factor))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return nothing(g), None


class Frac(Function):
    """x - trunc(x)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return wrap(kernels.frac(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return (g,)


class Fmod(Binary):
    """x - y * trunc(x / y), with the sign of x"""

    exact = np.fmod

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return wrap(kernels.fmod(x.array, y.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (x, y) = ctx.needs_input_grad, ctx.saved_tensors
        gx, gy = sum_to(g, x.array.shape) if want_x else None, None
        if want_y and recording():
            gy = sum_to(-g * TruncDivide.apply(x, y), y.array.shape)
        elif want_y:
            gy = sum_to(wrap(kernels.fmod_grad(g.array, x.array, y.array)), y.array.shape)
        return gx, gy


class Remainder(Binary):
    """x - y * floor(x / y), with the sign of y"""

    exact = np.remainder

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return wrap(kernels.remainder(x.array, y.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (x, y) = ctx.needs_input_grad, ctx.saved_tensors
        gx, gy = sum_to(g, x.array.shape) if want_x else None, None
        if want_y and recording():
            gy = sum_to(-g * floor_divide(x, y), y.array.shape)
        elif want_y:
            gy = sum_to(wrap(kernels.remainder_grad(g.array, x.array, y.array)), y.array.shape)
        return gx, gy


class FloorDivide(Binary):
    """floor(x / y); the gradient is 0"""

    exact = np.floor_divide

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.shapes = x.array.shape, y.array.shape
        return wrap(kernels.floor_divide(x.array, y.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (sx, sy) = ctx.needs_input_grad, ctx.shapes
        zeros = [wrap(np.zeros(shape, g.array.dtype)) if want else None for want, shape in ((want_x, sx), (want_y, sy))]
        return tuple(zeros)


def _towards_0(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    down = np.floor_divide(x, y)  # towards 0 it is one more where that was negative and not exact
    return np.asarray(down + ((down < 0) & (down * y != x)))


class TruncDivide(Binary):
    """trunc(x / y); the gradient is 0"""

    exact = _towards_0

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.shapes = x.array.shape, y.array.shape
        return wrap(kernels.trunc(kernels.div(x.array, y.array)))

    backward = FloorDivide.backward


def abs(input: Tensor) -> Tensor:
    """|input|; the gradient at 0 is 0."""
    return unary_exact(Abs, "abs", np.abs, input)


def absolute(input: Tensor) -> Tensor:
    """``abs``"""
    return abs(input)


def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1, and 0 for NaN; the gradient is 0. Truth values are their own sign."""
    if isinstance(input, Tensor) and input.array.dtype.kind == "b":
        return wrap(input.array.copy())
    return unary_exact(Sign, "sign", np.sign, input)


def sgn(input: Tensor) -> Tensor:
    """``sign``"""
    return sign(input)


def ceil(input: Tensor) -> Tensor:
    """The least integer that is not below input; the gradient is 0."""
    return unary_exact(Ceil, "ceil", np.positive, input)


def floor(input: Tensor) -> Tensor:
    """The largest integer that is not above input; the gradient is 0."""
    return unary_exact(Floor, "floor", np.positive, input)


def trunc(input: Tensor) -> Tensor:
    """The integer next to input towards 0; the gradient is 0."""
    return unary_exact(Trunc, "trunc", np.positive, input)


def fix(input: Tensor) -> Tensor:
    """``trunc``"""
    return trunc(input)


def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """input rounded to ``decimals`` places behind the point (before it, if negative), halves to the even digit.

    The gradient is 0.

    Raises:
        TypeError: input is neither floating-point nor int64, or an int64 with decimals.
    """
    if isinstance(input, Tensor) and input.array.dtype.kind == "i" and not decimals:
        return wrap(input.array.copy())
    require_float("round", input)
    return Round.apply(input, decimals)


def frac(input: Tensor) -> Tensor:
    """input - trunc(input)"""
    return unary_float(Frac, "frac", input)


def fmod(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input - other * trunc(input / other), with the sign of input; shapes broadcast.

    Raises:
        ZeroDivisionError: integers are divided by 0.
    """
    return _divided(Fmod, "fmod", input, other)


def remainder(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input - other * floor(input / other), with the sign of other, as Python's %; shapes broadcast.

    Raises:
        ZeroDivisionError: integers are divided by 0.
    """
    return _divided(Remainder, "remainder", input, other)


def floor_divide(input: Tensor | float, other: Tensor | float) -> Tensor:
    """floor(input / other), as Python's //; shapes broadcast; the gradient is 0.

    Raises:
        ZeroDivisionError: integers are divided by 0.
    """
    return _divided(FloorDivide, "floor_divide", input, other)


def trunc_divide(input: Tensor | float, other: Tensor | float) -> Tensor:
    """trunc(input / other): ``div`` with rounding_mode="trunc"."""
    return _divided(TruncDivide, "div", input, other)


def _divided(operator: type[Binary], name: str, x: Any, y: Any) -> Tensor:
    x, y = promote(name, x, y)
    if x.array.dtype.kind == "b":
        raise TypeError(f"{name}: input and other are bool, needs numbers; convert one with .long()")
    if x.array.dtype.kind == "i" and not y.array.all():
        raise ZeroDivisionError(f"{name}: other contains 0, which divides no integer; convert input with input.float()")
    return binary(operator, name, x, y)
