"""Activations of every element, and their gradients."""

from __future__ import annotations

from math import prod

import numpy as np

from .arrays import around, dense, like, memory_axes, tasks, transposition
from .launch import kernel
from .maps import broadcast, map_one, map_one_numbers, map_two, map_two_numbers

__all__ = [
    "elu",
    "elu_grad",
    "gelu",
    "gelu_grad",
    "gelu_tanh",
    "gelu_tanh_grad",
    "glu",
    "glu_grad",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardswish_grad",
    "leaky_relu",
    "leaky_relu_grad",
    "log_sigmoid",
    "log_sigmoid_grad",
    "mish",
    "mish_grad",
    "prelu",
    "prelu_grad",
    "prelu_terms",
    "relu",
    "relu_grad",
    "silu",
    "silu_grad",
    "softplus",
    "softplus_grad",
    "softshrink",
    "softsign",
    "softsign_grad",
    "tanhshrink",
    "tanhshrink_grad",
    "threshold",
]

_RELU, _RELU_GRAD = kernel("activation.relu"), kernel("activation.relu_grad")
_LEAKY_RELU, _LEAKY_RELU_GRAD = kernel("activation.leaky_relu"), kernel("activation.leaky_relu_grad")
_PRELU, _PRELU_GRAD = kernel("activation.prelu"), kernel("activation.prelu_grad")
_PRELU_TERMS, _ELU = kernel("activation.prelu_terms"), kernel("activation.elu")
_ELU_GRAD, _THRESHOLD = kernel("activation.elu_grad"), kernel("activation.threshold")
_HARDSHRINK, _SOFTSHRINK = kernel("activation.hardshrink"), kernel("activation.softshrink")
_HARDSIGMOID, _HARDSWISH = kernel("activation.hardsigmoid"), kernel("activation.hardswish")
_HARDSWISH_GRAD, _SILU = kernel("activation.hardswish_grad"), kernel("activation.silu")
_SILU_GRAD, _MISH = kernel("activation.silu_grad"), kernel("activation.mish")
_MISH_GRAD, _GELU = kernel("activation.mish_grad"), kernel("activation.gelu")
_GELU_GRAD, _GELU_TANH = kernel("activation.gelu_grad"), kernel("activation.gelu_tanh")
_GELU_TANH_GRAD, _SOFTPLUS = kernel("activation.gelu_tanh_grad"), kernel("activation.softplus")
_SOFTPLUS_GRAD, _LOG_SIGMOID = kernel("activation.softplus_grad"), kernel("activation.log_sigmoid")
_LOG_SIGMOID_GRAD, _SOFTSIGN = kernel("activation.log_sigmoid_grad"), kernel("activation.softsign")
_SOFTSIGN_GRAD, _TANHSHRINK = kernel("activation.softsign_grad"), kernel("activation.tanhshrink")
_TANHSHRINK_GRAD, _GLU = kernel("activation.tanhshrink_grad"), kernel("activation.glu")
_GLU_GRAD = kernel("activation.glu_grad")

_LONG = 256  # weights in a row: enough to fill registers


def _along_channels(weight: np.ndarray, ndim: int) -> np.ndarray:
    """weight (C,) with as many axes as it takes to be broadcast along axis 1 (axis 0 of a vector)."""
    return weight.reshape(-1, *(1,) * (ndim - 2)) if ndim > 1 else weight if ndim else weight.reshape(())


def relu(x: np.ndarray) -> np.ndarray:
    """max(x, 0); relu(NaN) = NaN"""
    return map_one(_RELU, x)


def relu_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g where y = relu(x) is above 0, else 0"""
    return map_two(_RELU_GRAD, g, y)


def leaky_relu(x: np.ndarray, slope: float) -> np.ndarray:
    """x where x > 0, slope x elsewhere"""
    return map_one_numbers(_LEAKY_RELU, x, slope)


def leaky_relu_grad(g: np.ndarray, x: np.ndarray, slope: float) -> np.ndarray:
    """gx = g where x > 0, slope g elsewhere"""
    return map_two_numbers(_LEAKY_RELU_GRAD, g, x, slope)


def prelu(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x where x > 0, weight x elsewhere; weight (C,) belongs to axis 1 (to axis 0 of a vector), (1,) to all."""
    return broadcast(None, _PRELU, x, _along_channels(weight, x.ndim))


def prelu_grad(g: np.ndarray, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """gx = g where x > 0, weight g elsewhere"""
    y = np.empty_like(x)
    inner, channels = max(1, x.size), 1
    if weight.size > 1:
        order = memory_axes(y.shape, y.strides)
        place = order.index(min(1, x.ndim - 1))
        inner, channels = prod(x.shape[a] for a in order[place + 1 :]) or 1, weight.size
    weight = np.ascontiguousarray(weight)
    if inner == 1:  # a weight for each element of a row, which is repeated if it is short
        weight = np.tile(weight, _LONG // channels or 1)
        channels = weight.size
    _PRELU_GRAD[x.dtype.char](tasks(x.size), like(g, y), like(x, y), weight, y, x.size, inner, channels)
    return y


def prelu_terms(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What the gradient of the weight is a sum of: 0 where x > 0, g x elsewhere."""
    return map_two(_PRELU_TERMS, g, x)


def elu(x: np.ndarray, alpha: float, scale: float, rate: float) -> np.ndarray:
    """scale x where x > 0, alpha (exp(rate x) - 1) elsewhere: elu, selu and celu"""
    return map_one_numbers(_ELU, x, alpha, scale, rate)


def elu_grad(g: np.ndarray, x: np.ndarray, alpha: float, scale: float, rate: float) -> np.ndarray:
    """gx = scale g where x > 0, alpha rate g exp(rate x) elsewhere"""
    return map_two_numbers(_ELU_GRAD, g, x, alpha, scale, rate)


def threshold(x: np.ndarray, limit: float, value: float) -> np.ndarray:
    """value where x <= limit, x elsewhere"""
    return map_one_numbers(_THRESHOLD, x, limit, value)


def hardshrink(x: np.ndarray, limit: float) -> np.ndarray:
    """0 where |x| <= limit, x elsewhere"""
    return map_one_numbers(_HARDSHRINK, x, limit)


def softshrink(x: np.ndarray, limit: float) -> np.ndarray:
    """x drawn towards 0 by limit, at most to 0"""
    return map_one_numbers(_SOFTSHRINK, x, limit)


def hardsigmoid(x: np.ndarray) -> np.ndarray:
    """min(max(x + 3, 0), 6) / 6"""
    return map_one(_HARDSIGMOID, x)


def hardswish(x: np.ndarray) -> np.ndarray:
    """x hardsigmoid(x)"""
    return map_one(_HARDSWISH, x)


def hardswish_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = 0 up to -3, g (x / 3 + 1 / 2) between -3 and 3, g from there on"""
    return map_two(_HARDSWISH_GRAD, g, x)


def silu(x: np.ndarray) -> np.ndarray:
    """x sigmoid(x)"""
    return map_one(_SILU, x)


def silu_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g s (1 + x (1 - s)), with s = sigmoid(x)"""
    return map_two(_SILU_GRAD, g, x)


def mish(x: np.ndarray) -> np.ndarray:
    """x tanh(log(1 + exp(x)))"""
    return map_one(_MISH, x)


def mish_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g (t + x sigmoid(x) (1 - t^2)), with t = tanh(log(1 + exp(x)))"""
    return map_two(_MISH_GRAD, g, x)


def gelu(x: np.ndarray) -> np.ndarray:
    """x Phi(x), with the cumulative distribution of the normal one: Phi(x) = (1 + erf(x / sqrt(2))) / 2"""
    return map_one(_GELU, x)


def gelu_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g (Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi))"""
    return map_two(_GELU_GRAD, g, x)


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """x (1 + tanh(z)) / 2, with z = sqrt(2 / pi) (x + 0.044715 x^3)"""
    return map_one(_GELU_TANH, x)


def gelu_tanh_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g (s + x s (1 - s) 2 z'), with s = (1 + tanh(z)) / 2 and the z of ``gelu_tanh``"""
    return map_two(_GELU_TANH_GRAD, g, x)


def softplus(x: np.ndarray, beta: float, limit: float) -> np.ndarray:
    """log(1 + exp(beta x)) / beta, and x where beta x > limit"""
    return map_one_numbers(_SOFTPLUS, x, beta, limit)


def softplus_grad(g: np.ndarray, x: np.ndarray, beta: float, limit: float) -> np.ndarray:
    """gx = g sigmoid(beta x), and g where beta x > limit"""
    return map_two_numbers(_SOFTPLUS_GRAD, g, x, beta, limit)


def log_sigmoid(x: np.ndarray) -> np.ndarray:
    """log(sigmoid(x)) = -log(1 + exp(-x))"""
    return map_one(_LOG_SIGMOID, x)


def log_sigmoid_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g sigmoid(-x)"""
    return map_two(_LOG_SIGMOID_GRAD, g, x)


def softsign(x: np.ndarray) -> np.ndarray:
    """x / (1 + |x|)"""
    return map_one(_SOFTSIGN, x)


def softsign_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g / (1 + |x|)^2"""
    return map_two(_SOFTSIGN_GRAD, g, x)


def tanhshrink(x: np.ndarray) -> np.ndarray:
    """x - tanh(x)"""
    return map_one(_TANHSHRINK, x)


def tanhshrink_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g tanh(x)^2"""
    return map_two(_TANHSHRINK_GRAD, g, x)


def glu(x: np.ndarray, axis: int) -> np.ndarray:
    """a sigmoid(b) of the halves a and b of x along the axis"""
    _, extent, inner = around(x.shape, x.strides, axis) if (x := dense(x)).size else (0, 2, 1)
    half = extent // 2 * inner
    shape = tuple(n // 2 if a == axis else n for a, n in enumerate(x.shape))
    order = memory_axes(x.shape, x.strides)
    y = np.empty([shape[a] for a in order], x.dtype)
    _GLU[x.dtype.char](tasks(y.size), x, y, y.size, half or 1)
    back = transposition(order)
    return y.transpose(back) if back else y


def glu_grad(g: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    """gx = (g s, g a s (1 - s)) for the halves (a, b) of x, with s = sigmoid(b)"""
    _, extent, inner = around(x.shape, x.strides, axis) if (x := dense(x)).size else (0, 2, 1)
    half = extent // 2 * inner
    order = memory_axes(x.shape, x.strides)
    y = np.empty_like(x)
    g = np.ascontiguousarray(g.transpose(order))
    _GLU_GRAD[x.dtype.char](tasks(g.size), g, x, y, g.size, half or 1)
    return y
