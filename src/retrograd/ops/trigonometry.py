"""Trigonometric and hyperbolic functions and their inverses."""

from __future__ import annotations

from typing import Any

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from .broadcasting import sum_to
from .kernel_set import kernels
from .operands import Binary, Gradients, binary, recording, summed, unary
from .piecewise import where
from .powers import rsqrt

__all__ = [
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "sin",
    "sinh",
    "tan",
    "tanh",
]


class Sin(Function):
    """sin(x)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.sin(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g * cos(x),)
        return (wrap(kernels.sin_grad(g.array, x.array)),)


class Cos(Function):
    """cos(x)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.cos(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (-g * sin(x),)
        return (wrap(kernels.cos_grad(g.array, x.array)),)


class Tan(Function):
    """tan(x)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = wrap(kernels.tan(x.array))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        if recording():
            return (g * (y * y + 1.0),)
        return (wrap(kernels.tan_grad(g.array, y.array)),)


class Asin(Function):
    """The angle whose sine is x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.asin(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g * rsqrt(1.0 - x * x),)
        return (wrap(kernels.over_root(g.array, x.array, 1.0, -1.0, 1.0)),)


class Acos(Function):
    """The angle whose cosine is x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.acos(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (-g * rsqrt(1.0 - x * x),)
        return (wrap(kernels.over_root(g.array, x.array, 1.0, -1.0, -1.0)),)


class Atan(Function):
    """The angle whose tangent is x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.atan(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g / (x * x + 1.0),)
        return (wrap(kernels.over_quadratic(g.array, x.array, 1.0, 1.0)),)


class Sinh(Function):
    """(exp(x) - exp(-x)) / 2"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.sinh(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g * cosh(x),)
        return (wrap(kernels.sinh_grad(g.array, x.array)),)


class Cosh(Function):
    """(exp(x) + exp(-x)) / 2"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.cosh(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g * sinh(x),)
        return (wrap(kernels.cosh_grad(g.array, x.array)),)


class Tanh(Function):
    """The hyperbolic tangent of x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = wrap(kernels.tanh(x.array))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        if recording():
            return (g * (1.0 - y * y),)
        return (wrap(kernels.tanh_grad(g.array, y.array)),)


class Asinh(Function):
    """log(x + sqrt(x*x + 1))"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.asinh(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g * rsqrt(x * x + 1.0),)
        return (wrap(kernels.over_root(g.array, x.array, 1.0, 1.0, 1.0)),)


class Acosh(Function):
    """log(x + sqrt(x*x - 1))"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.acosh(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g * rsqrt(x * x - 1.0),)
        return (wrap(kernels.over_root(g.array, x.array, -1.0, 1.0, 1.0)),)


class Atanh(Function):
    """log((1 + x) / (1 - x)) / 2"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.atanh(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g / (1.0 - x * x),)
        return (wrap(kernels.over_quadratic(g.array, x.array, 1.0, -1.0)),)


class Atan2(Binary):
    """The angle of the point with the coordinates y (abscissa) and x (ordinate)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return wrap(kernels.atan2(x.array, y.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (x, y) = ctx.needs_input_grad, ctx.saved_tensors
        sx, sy = x.array.shape, y.array.shape
        if not recording():
            return summed(kernels.atan2_grad(g.array, x.array, y.array, want_x, want_y), sx, sy)
        square = x * x + y * y
        square = where(square == 0, 1.0, square)
        return sum_to(g * (y / square), sx) if want_x else None, sum_to(g * (-x / square), sy) if want_y else None


def sin(input: Tensor) -> Tensor:
    """The sine of input, an angle in radians."""
    return unary(Sin, "sin", input)


def cos(input: Tensor) -> Tensor:
    """The cosine of input, an angle in radians."""
    return unary(Cos, "cos", input)


def tan(input: Tensor) -> Tensor:
    """The tangent of input, an angle in radians."""
    return unary(Tan, "tan", input)


def asin(input: Tensor) -> Tensor:
    """The angle from -pi/2 to pi/2 whose sine is input; NaN beyond -1 and 1."""
    return unary(Asin, "asin", input)


def acos(input: Tensor) -> Tensor:
    """The angle from 0 to pi whose cosine is input; NaN beyond -1 and 1."""
    return unary(Acos, "acos", input)


def atan(input: Tensor) -> Tensor:
    """The angle from -pi/2 to pi/2 whose tangent is input."""
    return unary(Atan, "atan", input)


def sinh(input: Tensor) -> Tensor:
    """(exp(input) - exp(-input)) / 2"""
    return unary(Sinh, "sinh", input)


def cosh(input: Tensor) -> Tensor:
    """(exp(input) + exp(-input)) / 2"""
    return unary(Cosh, "cosh", input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent of input."""
    return unary(Tanh, "tanh", input)


def asinh(input: Tensor) -> Tensor:
    """log(input + sqrt(input**2 + 1)), the inverse of sinh."""
    return unary(Asinh, "asinh", input)


def acosh(input: Tensor) -> Tensor:
    """log(input + sqrt(input**2 - 1)), the inverse of cosh; NaN below 1."""
    return unary(Acosh, "acosh", input)


def atanh(input: Tensor) -> Tensor:
    """log((1 + input) / (1 - input)) / 2, the inverse of tanh; NaN beyond -1 and 1."""
    return unary(Atanh, "atanh", input)


def atan2(input: Tensor | float, other: Tensor | float) -> Tensor:
    """The angle from -pi to pi of the point with abscissa ``other`` and ordinate ``input``; shapes broadcast."""
    return binary(Atan2, "atan2", input, other)


def arcsin(input: Tensor) -> Tensor:
    """``asin``"""
    return asin(input)


def arccos(input: Tensor) -> Tensor:
    """``acos``"""
    return acos(input)


def arctan(input: Tensor) -> Tensor:
    """``atan``"""
    return atan(input)


def arcsinh(input: Tensor) -> Tensor:
    """``asinh``"""
    return asinh(input)


def arccosh(input: Tensor) -> Tensor:
    """``acosh``"""
    return acosh(input)


def arctanh(input: Tensor) -> Tensor:
    """``atanh``"""
    return atanh(input)


def arctan2(input: Tensor, other: Tensor) -> Tensor:
    """``atan2``"""
    return atan2(input, other)
