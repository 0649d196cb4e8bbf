"""Activations that are smooth, or are made of an exponential.

A fused kernel computes each gradient; what stands behind ``recording()`` is the same made of operators.
"""

from __future__ import annotations

import math
from typing import Any

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from .dtype import as_flag, require_float, require_number
from .inplace import in_place
from .kernel_set import kernels
from .operands import Gradients, recording, unary, unary_float
from .piecewise import clamp, where
from .rounding import abs
from .transcendental import erf, exp, sigmoid
from .trigonometry import tanh

__all__ = [
    "celu",
    "elu",
    "gelu",
    "logsigmoid",
    "mish",
    "selu",
    "silu",
    "softplus",
    "softsign",
    "tanhshrink",
]

_ROOT_HALF, _DENSITY = math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi)
_GELU = math.sqrt(2.0 / math.pi)
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


class Silu(Function):
    """x * sigmoid(x)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.silu(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g * _silu_slope(x),)
        return (wrap(kernels.silu_grad(g.array, x.array)),)


class Mish(Function):
    """x * tanh(log(1 + exp(x)))"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.mish(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g * _mish_slope(x),)
        return (wrap(kernels.mish_grad(g.array, x.array)),)


class Gelu(Function):
    """x * (1 + erf(x / sqrt(2))) / 2"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.gelu(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g * (erf(x * _ROOT_HALF) * 0.5 + 0.5 + x * exp(x * x * -0.5) * _DENSITY),)
        return (wrap(kernels.gelu_grad(g.array, x.array)),)


class GeluTanh(Function):
    """x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.gelu_tanh(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g * _gelu_tanh_slope(x),)
        return (wrap(kernels.gelu_tanh_grad(g.array, x.array)),)


class Softplus(Function):
    """log(1 + exp(beta * x)) / beta, and x where beta * x > limit"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, beta: float, limit: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.numbers = beta, limit
        return wrap(kernels.softplus(x.array, beta, limit))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            beta, limit = ctx.numbers
            z = x * beta
            # at the limit itself the slope is constant, too
            return where(z > limit, g, g * sigmoid(where(z >= limit, limit, z))), None, None
        return wrap(kernels.softplus_grad(g.array, x.array, *ctx.numbers)), None, None


class LogSigmoid(Function):
    """log(sigmoid(x))"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.log_sigmoid(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g * sigmoid(-x),)
        return (wrap(kernels.log_sigmoid_grad(g.array, x.array)),)


class Softsign(Function):
    """x / (1 + |x|)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.softsign(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g / (abs(x) + 1.0) ** 2,)
        return (wrap(kernels.softsign_grad(g.array, x.array)),)


class Tanhshrink(Function):
    """x - tanh(x)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.tanhshrink(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            return (g * tanh(x) ** 2,)
        return (wrap(kernels.tanhshrink_grad(g.array, x.array)),)


class Elu(Function):
    """scale * x where x > 0, alpha * (exp(rate * x) - 1) elsewhere"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: float, scale: float, rate: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.numbers = alpha, scale, rate
        return wrap(kernels.elu(x.array, alpha, scale, rate))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        if recording():
            alpha, scale, rate = ctx.numbers
            slope = exp(where(x < 0, x * rate, 0.0))  # its derivative at 0 is 0
            return where(x <= 0, g * (alpha * rate) * slope, g * scale), None, None, None
        return wrap(kernels.elu_grad(g.array, x.array, *ctx.numbers)), None, None, None


def _silu_slope(x: Tensor) -> Tensor:
    """The derivative of silu: s + x * s * (1 - s) with s = sigmoid(x)."""
    s = sigmoid(x)
    return s * (1.0 + x * (1.0 - s))


def _mish_slope(x: Tensor) -> Tensor:
    t = tanh(softplus(x))
    return t + clamp(x, None, 20.0) * sigmoid(x) * (1.0 - t * t)  # the last factor is 0 from 20 on, also at infinity


def _gelu_tanh_slope(x: Tensor) -> Tensor:
    s = sigmoid((x + x**3 * 0.044715) * (2.0 * _GELU))
    return s + x * s * (1.0 - s) * (x * x * (3.0 * 0.044715) + 1.0) * (2.0 * _GELU)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """input * sigmoid(input), also called swish.

    Raises:
        TypeError: input is no floating-point Tensor.
    """
    if inplace is not False and as_flag("silu", "inplace", inplace):
        return in_place(silu)(input)
    return unary_float(Silu, "silu", input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * tanh(softplus(input)).

    Source: D. Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019.

    Raises:
        TypeError: input is no floating-point Tensor.
    """
    if inplace is not False and as_flag("mish", "inplace", inplace):
        return in_place(mish)(input)
    return unary_float(Mish, "mish", input)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """input * P(X <= input) for a normal X: input * (1 + erf(input / sqrt(2))) / 2.

    approximate: "tanh" takes input * (1 + tanh(sqrt(2 / pi) * (input + 0.044715 * input**3))) / 2 instead.

    Raises:
        TypeError: input is no floating-point Tensor.
        ValueError: ``approximate`` is neither "none" nor "tanh".

    Source: D. Hendrycks and K. Gimpel, "Gaussian Error Linear Units", 2016.
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate={approximate!r}; choose 'none' or 'tanh'")
    return unary_float(GeluTanh if approximate == "tanh" else Gelu, "gelu", input)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * input)) / beta, and input itself where beta * input > threshold.

    Raises:
        TypeError: input is no floating-point Tensor.
    """
    require_float("softplus", input)
    return Softplus.apply(input, float(beta), float(threshold))


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(input)), computed without overflow.

    Raises:
        TypeError: input is no floating-point Tensor.
    """
    return unary_float(LogSigmoid, "logsigmoid", input)


def softsign(input: Tensor) -> Tensor:
    """input / (1 + |input|).

    Raises:
        TypeError: input is no Tensor of numbers.
    """
    require_number("softsign", input)
    return unary(Softsign, "softsign", input)


def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input).

    Raises:
        TypeError: input is no Tensor of numbers.
    """
    require_number("tanhshrink", input)
    return unary(Tanhshrink, "tanhshrink", input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is above 0, alpha * (exp(input) - 1) elsewhere.

    Source: D. Clevert et al., "Fast and Accurate Deep Network Learning by Exponential Linear Units", 2015.

    Raises:
        TypeError: input is no floating-point Tensor.
    """
    if inplace is not False and as_flag("elu", "inplace", inplace):
        return in_place(elu)(input, alpha)
    require_float("elu", input)
    return Elu.apply(input, float(alpha), 1.0, 1.0)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """scale * elu(input, alpha) with the fixed alpha = 1.6733 and scale = 1.0507.

    Raises:
        TypeError: input is no floating-point Tensor.

    Source: G. Klambauer et al., "Self-Normalizing Neural Networks", 2017.
    """
    if inplace is not False and as_flag("selu", "inplace", inplace):
        return in_place(selu)(input)
    require_float("selu", input)
    return Elu.apply(input, _SELU_ALPHA * _SELU_SCALE, _SELU_SCALE, 1.0)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is above 0, alpha * (exp(input / alpha) - 1) elsewhere.

    Raises:
        TypeError: input is no floating-point Tensor.
        ValueError: alpha is 0.

    Source: J. Barron, "Continuously Differentiable Exponential Linear Units", 2017.
    """
    if inplace is not False and as_flag("celu", "inplace", inplace):
        return in_place(celu)(input, alpha)
    require_float("celu", input)
    if alpha == 0:
        raise ValueError("celu: alpha=0 divides the input; choose another number")
    return Elu.apply(input, float(alpha), 1.0, 1.0 / alpha)
