"""Exponentials and logarithms, the sigmoid and the error function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from .broadcasting import sum_to
from .dtype import as_float
from .kernel_set import kernels
from .operands import Binary, Gradients, binary, recording, summed, unary
from .piecewise import where

__all__ = [
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logit",
    "sigmoid",
    "xlogy",
]

_LN2, _LN10 = math.log(2.0), math.log(10.0)
_ERF = 2.0 / math.sqrt(math.pi)


class Exp(Function):
    """e**x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = wrap(kernels.exp(x.data))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        return (g * y,)


class Exp2(Function):
    """2**x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = wrap(kernels.exp2(x.data))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        if recording():
            return (g * y * _LN2,)
        return (wrap(kernels.scaled_mul(g.data, y.data, _LN2)),)


class Expm1(Function):
    """e**x - 1"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = wrap(kernels.expm1(x.data))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        if recording():
            return (g * (y + 1.0),)
        return (wrap(kernels.expm1_grad(g.data, y.data)),)


class Log(Function):
    """The natural logarithm of x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.log(x.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        return (g / x,)


class Log2(Function):
    """The logarithm of x to the base 2"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.log2(x.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g / x * (1 / _LN2),)
        return (wrap(kernels.scaled_div(g.data, x.data, 1 / _LN2)),)


class Log10(Function):
    """The logarithm of x to the base 10"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.log10(x.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g / x * (1 / _LN10),)
        return (wrap(kernels.scaled_div(g.data, x.data, 1 / _LN10)),)


class Log1p(Function):
    """log(1 + x)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.log1p(x.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g / (x + 1.0),)
        return (wrap(kernels.log1p_grad(g.data, x.data)),)


class Sigmoid(Function):
    """1 / (1 + exp(-x))"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = wrap(kernels.sigmoid(x.data))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        if recording():
            return (g * y * (1.0 - y),)
        return (wrap(kernels.sigmoid_grad(g.data, y.data)),)


class Logit(Function):
    """log(z / (1 - z)) with z = x between low and high; the gradient is 0 outside"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, low: float, high: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.limits = low, high
        return wrap(kernels.logit(x.data, low, high))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,), (low, high) = ctx.saved_tensors, ctx.limits
        if not recording():
            return wrap(kernels.logit_grad(g.data, x.data, low, high)), None, None
        inside = wrap(np.asarray(~((x.data < low) | (x.data > high))))
        z = where(inside, x, 0.5)
        slope = z * (1.0 - z)
        undefined = slope.data < 0.0  # there is no logit below 0 or above 1
        gx = where(inside, g / slope, 0.0)
        return where(wrap(np.asarray(undefined)), math.nan, gx) if undefined.any() else gx, None, None


class Erf(Function):
    """2 / sqrt(pi) times the integral of exp(-t*t) from 0 to x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.erf(x.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g * exp(-x * x) * _ERF,)
        return (wrap(kernels.gaussian(g.data, x.data, _ERF)),)


class Erfc(Function):
    """1 - erf(x)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.erfc(x.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g * exp(-x * x) * -_ERF,)
        return (wrap(kernels.gaussian(g.data, x.data, -_ERF)),)


class Logaddexp(Binary):
    """log(exp(x) + exp(y))"""

    integers = False

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return wrap(kernels.logaddexp(x.data, y.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (x, y) = ctx.needs_input_grad, ctx.saved_tensors
        sx, sy = x.data.shape, y.data.shape
        if not recording():
            return summed(kernels.logaddexp_grad(g.data, x.data, y.data, want_x, want_y), sx, sy)
        return sum_to(g * sigmoid(x - y), sx) if want_x else None, sum_to(g * sigmoid(y - x), sy) if want_y else None


class Xlogy(Binary):
    """x * log(y), and 0 where x is 0"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return wrap(kernels.xlogy(x.data, y.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (x, y) = ctx.needs_input_grad, ctx.saved_tensors
        sx, sy = x.data.shape, y.data.shape
        if not recording():
            return summed(kernels.xlogy_grad(g.data, x.data, y.data, want_x, want_y), sx, sy)
        zero = wrap(np.asarray((x.data == 0) & (y.data <= 0)))
        gx = sum_to(g * where(zero, 0.0, where(zero, 1.0, y).log()), sx) if want_x else None
        return gx, sum_to(g * (x / y), sy) if want_y else None


def exp(input: Tensor) -> Tensor:
    """e**input"""
    return unary(Exp, "exp", input)


def exp2(input: Tensor) -> Tensor:
    """2**input"""
    return unary(Exp2, "exp2", input)


def expm1(input: Tensor) -> Tensor:
    """e**input - 1, accurate for small input, too"""
    return unary(Expm1, "expm1", input)


def log(input: Tensor) -> Tensor:
    """The natural logarithm of input: -inf at 0, NaN below."""
    return unary(Log, "log", input)


def log2(input: Tensor) -> Tensor:
    """The logarithm of input to the base 2: -inf at 0, NaN below."""
    return unary(Log2, "log2", input)


def log10(input: Tensor) -> Tensor:
    """The logarithm of input to the base 10: -inf at 0, NaN below."""
    return unary(Log10, "log10", input)


def log1p(input: Tensor) -> Tensor:
    """log(1 + input), accurate for small input, too"""
    return unary(Log1p, "log1p", input)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input))"""
    return unary(Sigmoid, "sigmoid", input)


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(z / (1 - z)), the inverse of the sigmoid, with z = input clamped to [eps, 1 - eps] if eps is given.

    Without eps: -inf at 0, inf at 1, NaN outside.

    Raises:
        TypeError: input is no Tensor.
    """
    input = as_float("logit", input)
    low, high = (-math.inf, math.inf) if eps is None else (float(eps), 1.0 - eps)
    return Logit.apply(input, low, high)


def erf(input: Tensor) -> Tensor:
    """The error function of input, from -1 to 1."""
    return unary(Erf, "erf", input)


def erfc(input: Tensor) -> Tensor:
    """1 - erf(input), accurate for large input, too"""
    return unary(Erfc, "erfc", input)


def logaddexp(input: Tensor | float, other: Tensor | float) -> Tensor:
    """log(exp(input) + exp(other)) without overflow; shapes broadcast, and one operand must be floating-point.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: neither operand is floating-point, or one is neither a Tensor nor a number.
    """
    return binary(Logaddexp, "logaddexp", input, other)


def xlogy(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input * log(other), and 0 where input is 0 and other is not NaN; shapes broadcast."""
    return binary(Xlogy, "xlogy", input, other)
