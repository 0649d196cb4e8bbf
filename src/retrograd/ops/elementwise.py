"""Arithmetic with broadcasting, exp, log, sqrt, powers, relu, sigmoid and tanh.

Each class holds a forward and its backward; the functions below them check operands once and apply the class.
A backward is made of operators, so it can be differentiated again; ``relu_grad``, ``sigmoid_grad`` and ``tanh_grad``
are fused kernels and therefore operators with a backward of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from .broadcasting import broadcast_shape, sum_to
from .dtype import cast, float32, is_number, promote, require_float
from .kernel_set import kernels

__all__ = ["add", "div", "exp", "log", "mul", "neg", "pow", "relu", "sigmoid", "sqrt", "sub", "tanh"]

Gradients = tuple[Tensor | None, ...]


class Binary(Function):
    """An operator of two broadcast operands; ``exact`` computes it for integers, which carry no gradient."""

    exact: ClassVar[Callable[..., Any]]


class Add(Binary):
    """x + y"""

    exact = np.add

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.shapes = x.data.shape, y.data.shape
        return wrap(kernels.add(x.data, y.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (sx, sy) = ctx.needs_input_grad, ctx.shapes
        return sum_to(g, sx) if want_x else None, sum_to(g, sy) if want_y else None


class Sub(Binary):
    """x - y"""

    exact = np.subtract

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.shapes = x.data.shape, y.data.shape
        return wrap(kernels.sub(x.data, y.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (sx, sy) = ctx.needs_input_grad, ctx.shapes
        return sum_to(g, sx) if want_x else None, sum_to(-g, sy) if want_y else None


class Mul(Binary):
    """x * y"""

    exact = np.multiply

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return wrap(kernels.mul(x.data, y.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (x, y) = ctx.needs_input_grad, ctx.saved_tensors
        gx = sum_to(g * y, x.data.shape) if want_x else None
        gy = sum_to(g * x, y.data.shape) if want_y else None
        return gx, gy


class Div(Binary):
    """x / y"""

    exact = np.divide

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return wrap(kernels.div(x.data, y.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (x, y) = ctx.needs_input_grad, ctx.saved_tensors
        gx = g / y
        gy = sum_to(-gx * (x / y), y.data.shape) if want_y else None
        return sum_to(gx, x.data.shape) if want_x else None, gy


class Scale(Function):
    """x * factor for a Python number"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return wrap(kernels.scale(x.data, factor))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return g * ctx.factor, None


class Neg(Function):
    """-x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return wrap(kernels.neg(x.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return (-g,)


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
        return (g / y * 0.5,)


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
            return g, None
        slope = x * n if n == 2 else x ** (n - 1) * n
        return g * slope, None


class Relu(Function):
    """max(x, 0); NaN stays NaN; the gradient at 0 is 0"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = kernels.relu(x.data)
        ctx.save_for_backward(y)
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        return (ReluGrad.apply(g, y),)


class ReluGrad(Function):
    """g where y > 0, otherwise 0: linear in g; y only says where, so it is an array and has no gradient"""

    @staticmethod
    def forward(ctx: Any, g: Tensor, y: np.ndarray) -> Tensor:
        ctx.save_for_backward(y)
        return wrap(kernels.relu_grad(g.data, y))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        return ReluGrad.apply(v, y), None


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
        return (SigmoidGrad.apply(g, y),)


class SigmoidGrad(Function):
    """g * y * (1 - y)"""

    @staticmethod
    def forward(ctx: Any, g: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(g, y)
        return wrap(kernels.sigmoid_grad(g.data, y.data))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (want_g, want_y), (g, y) = ctx.needs_input_grad, ctx.saved_tensors
        gg = SigmoidGrad.apply(v, y) if want_g else None
        gy = v * g * (1.0 - y * 2.0) if want_y else None
        return gg, gy


class Tanh(Function):
    """The hyperbolic tangent of x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = wrap(kernels.tanh(x.data))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        return (TanhGrad.apply(g, y),)


class TanhGrad(Function):
    """g * (1 - y*y)"""

    @staticmethod
    def forward(ctx: Any, g: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(g, y)
        return wrap(kernels.tanh_grad(g.data, y.data))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (want_g, want_y), (g, y) = ctx.needs_input_grad, ctx.saved_tensors
        gg = TanhGrad.apply(v, y) if want_g else None
        gy = v * g * y * -2.0 if want_y else None
        return gg, gy


def add(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input + other; shapes broadcast, types promote as in PyTorch, a Python number takes the tensor's type.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: an operand is neither a Tensor nor a number.
    """
    return _binary(Add, "add", input, other)


def sub(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input - other; as ``add``."""
    return _binary(Sub, "sub", input, other)


def mul(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input * other; as ``add``."""
    return _binary(Mul, "mul", input, other)


def div(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input / other; as ``add``, and integers divide to float32."""
    return _binary(Div, "div", input, other)


def scale(input: Tensor, factor: float) -> Tensor:
    """input * factor in input's floating-point type."""
    return Scale.apply(input, factor)


def neg(input: Tensor) -> Tensor:
    """-input"""
    if isinstance(input, Tensor) and input.data.dtype.kind == "i":
        return wrap(np.asarray(np.negative(input.data)))
    return _unary(Neg, "neg", input)


def exp(input: Tensor) -> Tensor:
    """e**input"""
    return _unary(Exp, "exp", input)


def log(input: Tensor) -> Tensor:
    """The natural logarithm of input: -inf at 0, NaN below."""
    return _unary(Log, "log", input)


def sqrt(input: Tensor) -> Tensor:
    """The square root of input: NaN below 0."""
    return _unary(Sqrt, "sqrt", input)


def relu(input: Tensor) -> Tensor:
    """max(input, 0)"""
    return _unary(Relu, "relu", input)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input))"""
    return _unary(Sigmoid, "sigmoid", input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent of input."""
    return _unary(Tanh, "tanh", input)


def pow(input: Tensor, exponent: float) -> Tensor:
    """input**exponent for a number.

    Raises:
        TypeError: input is not a floating-point Tensor, or the exponent is no number.
    """
    require_float("pow", input)
    if not is_number(exponent):
        raise TypeError(
            f"pow: exponent is {type(exponent).__name__}, needs a number; "
            f"input**other of tensors is exp(other * log(input)) for input > 0"
        )
    return Pow.apply(input, float(exponent))


def _unary(operator: type[Function], name: str, x: Tensor) -> Tensor:
    if isinstance(x, Tensor) and x.data.dtype.kind == "f":
        return operator.apply(x)
    require_float(name, x)
    raise AssertionError("unreachable: require_float refuses what is no floating-point Tensor")


def _binary(operator: type[Binary], name: str, x: Any, y: Any) -> Tensor:
    if isinstance(x, Tensor):
        dtype = x.data.dtype
        if isinstance(y, Tensor) and y.data.dtype is dtype and dtype.kind == "f":
            if x.data.shape != y.data.shape:
                broadcast_shape(name, x.data.shape, y.data.shape)
            return operator.apply(x, y)
        if operator is Mul and dtype.kind == "f" and is_number(y):
            return Scale.apply(x, float(y))
    elif operator is Mul and isinstance(y, Tensor) and y.data.dtype.kind == "f" and is_number(x):
        return Scale.apply(y, float(x))
    x, y = promote(name, x, y)
    if operator is Div and x.data.dtype.kind != "f":
        x, y = cast(x, float32), cast(y, float32)
    broadcast_shape(name, x.data.shape, y.data.shape)
    return operator.apply(x, y) if x.data.dtype.kind == "f" else Tensor(np.asarray(operator.exact(x.data, y.data)))
