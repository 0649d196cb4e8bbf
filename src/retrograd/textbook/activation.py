"""Activations of every element, and their gradients."""

from __future__ import annotations

import numpy as np

from .ieee import ieee
from .transcendental import erf, sigmoid

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


def _along_channels(weight: np.ndarray, ndim: int) -> np.ndarray:
    """weight (C,) with as many axes as it takes to be broadcast along axis 1 (axis 0 of a vector)."""
    return weight.reshape(-1, *(1,) * (ndim - 2)) if ndim > 1 else weight if ndim else weight.reshape(())


@ieee
def relu(x: np.ndarray) -> np.ndarray:
    """max(x, 0); relu(NaN) = NaN"""
    return np.asarray(np.maximum(x, 0))


@ieee
def relu_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = 0 where y = relu(x) is 0, else g"""
    return np.asarray(np.where(y <= 0, 0, g), g.dtype)


@ieee
def leaky_relu(x: np.ndarray, slope: float) -> np.ndarray:
    """x where x > 0, slope x elsewhere"""
    return np.asarray(np.where(x > 0, x, x * slope), x.dtype)


@ieee
def leaky_relu_grad(g: np.ndarray, x: np.ndarray, slope: float) -> np.ndarray:
    """gx = g where x > 0, slope g elsewhere"""
    return np.asarray(np.where(x > 0, g, g * slope), x.dtype)


@ieee
def prelu(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x where x > 0, weight x elsewhere; weight (C,) belongs to axis 1 (to axis 0 of a vector), (1,) to all."""
    return np.asarray(np.where(x > 0, x, x * _along_channels(weight, x.ndim)))


@ieee
def prelu_grad(g: np.ndarray, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """gx = g where x > 0, weight g elsewhere"""
    return np.asarray(np.where(x > 0, g, g * _along_channels(weight, x.ndim)))


@ieee
def prelu_terms(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What the gradient of the weight is a sum of: 0 where x > 0, g x elsewhere."""
    return np.asarray(np.where(x > 0, 0, g * x), x.dtype)


@ieee
def elu(x: np.ndarray, alpha: float, scale: float, rate: float) -> np.ndarray:
    """scale x where x > 0, alpha (exp(rate x) - 1) elsewhere: elu, selu and celu"""
    return np.asarray(np.where(x > 0, scale * x, alpha * np.expm1(rate * np.minimum(x, 0))), x.dtype)


@ieee
def elu_grad(g: np.ndarray, x: np.ndarray, alpha: float, scale: float, rate: float) -> np.ndarray:
    """gx = alpha rate g exp(rate x) where x <= 0, scale g elsewhere"""
    return np.asarray(np.where(x <= 0, alpha * rate * g * np.exp(rate * np.minimum(x, 0)), scale * g), x.dtype)


@ieee
def threshold(x: np.ndarray, limit: float, value: float) -> np.ndarray:
    """value where x <= limit, x elsewhere"""
    return np.asarray(np.where(x <= limit, value, x), x.dtype)


@ieee
def hardshrink(x: np.ndarray, limit: float) -> np.ndarray:
    """0 where |x| <= limit, x elsewhere"""
    return np.asarray(np.where(np.abs(x) <= limit, 0, x), x.dtype)


@ieee
def softshrink(x: np.ndarray, limit: float) -> np.ndarray:
    """x drawn towards 0 by limit, at most to 0"""
    return np.asarray(x - np.clip(x, -limit, limit), x.dtype)


@ieee
def hardsigmoid(x: np.ndarray) -> np.ndarray:
    """min(max(x + 3, 0), 6) / 6"""
    return np.asarray(np.minimum(np.maximum(x + 3, 0), 6) / 6, x.dtype)


@ieee
def hardswish(x: np.ndarray) -> np.ndarray:
    """x hardsigmoid(x)"""
    return np.asarray(x * hardsigmoid(x))


@ieee
def hardswish_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = 0 up to -3, g (x / 3 + 1 / 2) between -3 and 3, g from there on"""
    return np.asarray(np.where(x <= -3, 0, np.where(x < 3, g * (x / 3 + 0.5), g)), x.dtype)


@ieee
def silu(x: np.ndarray) -> np.ndarray:
    """x sigmoid(x)"""
    return np.asarray(x * sigmoid(x))


@ieee
def silu_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g s (1 + x (1 - s)), with s = sigmoid(x)"""
    return np.asarray(g * sigmoid(x) * (1 + x * (1 - sigmoid(x))))


@ieee
def mish(x: np.ndarray) -> np.ndarray:
    """x tanh(log(1 + exp(x)))"""
    return np.asarray(x * np.tanh(np.logaddexp(x, 0)), x.dtype)


@ieee
def mish_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g (t + x sigmoid(x) (1 - t^2)), with t = tanh(log(1 + exp(x)))"""
    t = np.tanh(np.logaddexp(x, 0))
    return np.asarray(g * (t + np.minimum(x, 20) * sigmoid(x) * (1 - t * t)), x.dtype)  # 1 - t * t is 0 from 20 on


@ieee
def gelu(x: np.ndarray) -> np.ndarray:
    """x Phi(x), with the cumulative distribution of the normal one: Phi(x) = (1 + erf(x / sqrt(2))) / 2"""
    return np.asarray(x * (erf(x * 0.5**0.5) + 1) / 2, x.dtype)


@ieee
def gelu_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g (Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi))"""
    return np.asarray(g * ((erf(x * 0.5**0.5) + 1) / 2 + x * np.exp(-x * x / 2) * (2 * np.pi) ** -0.5), x.dtype)


@ieee
def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """x (1 + tanh(z)) / 2, with z = sqrt(2 / pi) (x + 0.044715 x^3)"""
    return np.asarray(x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x * x * x))) / 2, x.dtype)


@ieee
def gelu_tanh_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g (s + x s (1 - s) 2 z'), with s = (1 + tanh(z)) / 2 and the z of ``gelu_tanh``"""
    root = (2 / np.pi) ** 0.5
    s = sigmoid(2 * root * (x + 0.044715 * x * x * x))
    return np.asarray(g * (s + x * s * (1 - s) * 2 * root * (1 + 3 * 0.044715 * x * x)), x.dtype)


@ieee
def softplus(x: np.ndarray, beta: float, limit: float) -> np.ndarray:
    """log(1 + exp(beta x)) / beta, and x where beta x > limit"""
    return np.asarray(np.where(x * beta > limit, x, np.logaddexp(x * beta, 0) / beta), x.dtype)


@ieee
def softplus_grad(g: np.ndarray, x: np.ndarray, beta: float, limit: float) -> np.ndarray:
    """gx = g sigmoid(beta x), and g where beta x > limit"""
    return np.asarray(np.where(x * beta > limit, g, g * sigmoid(x * beta)), x.dtype)


@ieee
def log_sigmoid(x: np.ndarray) -> np.ndarray:
    """log(sigmoid(x)) = -log(1 + exp(-x))"""
    return np.asarray(-np.logaddexp(-x, 0), x.dtype)


@ieee
def log_sigmoid_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g sigmoid(-x)"""
    return np.asarray(g * sigmoid(-x))


@ieee
def softsign(x: np.ndarray) -> np.ndarray:
    """x / (1 + |x|)"""
    return np.asarray(x / (1 + np.abs(x)))


@ieee
def softsign_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g / (1 + |x|)^2"""
    return np.asarray(g / (1 + np.abs(x)) ** 2)


@ieee
def tanhshrink(x: np.ndarray) -> np.ndarray:
    """x - tanh(x)"""
    return np.asarray(x - np.tanh(x))


@ieee
def tanhshrink_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g tanh(x)^2"""
    return np.asarray(g * np.tanh(x) ** 2)


@ieee
def glu(x: np.ndarray, axis: int) -> np.ndarray:
    """a sigmoid(b) of the halves a and b of x along the axis"""
    a, b = np.split(x, 2, axis)
    return np.asarray(a * sigmoid(b))


@ieee
def glu_grad(g: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    """gx = (g s, g a s (1 - s)) for the halves (a, b) of x, with s = sigmoid(b)"""
    a, b = np.split(x, 2, axis)
    s = sigmoid(b)
    return np.concatenate((g * s, g * a * s * (1 - s)), axis)
