"""Activation functions and the surrogate gradients of spikes."""

from __future__ import annotations

from .primitive import Operand, absolute, exp, exp_negative, expm1, log1p, normal_cdf, sigmoid, tanh, where
from .registry import formula, gradients

# ---- Activations, and their gradients in terms of the input x (of relu in terms of its result y) --------------------


@formula
def relu(x: Operand) -> Operand:
    """max(x, 0); NaN propagates"""
    return where(x < 0.0, 0.0, x)


@formula
def relu_grad(g: Operand, y: Operand) -> Operand:
    """0 where y = relu(x) is 0, else g, also at NaN"""
    return where(y <= 0.0, 0.0, g)


@formula
def leaky_relu(x: Operand, slope: float) -> Operand:
    """x where x > 0, slope x elsewhere"""
    return where(x > 0.0, x, x * slope)


@formula
def leaky_relu_grad(g: Operand, x: Operand, slope: float) -> Operand:
    """g where x > 0, slope g elsewhere"""
    return where(x > 0.0, g, g * slope)


@formula
def prelu(x: Operand, y: Operand) -> Operand:
    """x where x > 0, x y elsewhere; y is the weight"""
    return where(x > 0.0, x, x * y)


def prelu_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g where x > 0, g y elsewhere"""
    return where(x > 0.0, g, g * y)


def prelu_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """0 where x > 0, g x elsewhere"""
    return where(x > 0.0, 0.0, g * where(x > 0.0, 0.0, x))  # keep infinite x out of second derivatives


gradients("prelu", prelu_grad_x, prelu_grad_y)


@formula
def elu(x: Operand, alpha: float, scale: float, rate: float) -> Operand:
    """scale x where x > 0, alpha (exp(rate x) - 1) elsewhere: elu, selu and celu"""
    return where(x > 0.0, x * scale, expm1(where(x > 0.0, 0.0, x * rate)) * alpha)


@formula
def elu_grad(g: Operand, x: Operand, alpha: float, scale: float, rate: float) -> Operand:
    """alpha rate g exp(rate x) where x <= 0, scale g elsewhere"""
    slope = exp(where(x < 0.0, x * rate, 0.0))  # with derivative 0 at 0, as in PyTorch
    return where(x <= 0.0, g * (alpha * rate) * slope, g * scale)


@formula
def threshold(x: Operand, limit: float, value: float) -> Operand:
    """value where x <= limit, x elsewhere"""
    return where(x <= limit, value, x)


@formula
def threshold_grad(g: Operand, x: Operand, limit: float, value: float) -> Operand:
    """0 where x <= limit, g elsewhere, also at NaN"""
    return where(x <= limit, 0.0, g)


@formula
def hardshrink(x: Operand, limit: float) -> Operand:
    """0 where |x| <= limit, x elsewhere"""
    return where(absolute(x) <= limit, 0.0, x)


@formula
def hardshrink_grad(g: Operand, x: Operand, limit: float) -> Operand:
    """0 where |x| <= limit, g elsewhere, also at NaN"""
    return where(absolute(x) <= limit, 0.0, g)


@formula
def softshrink(x: Operand, limit: float) -> Operand:
    """x shrunk towards 0 by limit, at most to 0; NaN propagates"""
    return where(x > limit, x - limit, where(x < -limit, x + limit, where(x == x, 0.0, x)))


gradients("softshrink", hardshrink_grad)


@formula
def hardsigmoid(x: Operand) -> Operand:
    """min(max(x + 3, 0), 6) / 6"""
    y = x + 3.0
    y = where(y < 0.0, 0.0, y)
    return where(y > 6.0, 6.0, y) / 6.0


@formula
def hardsigmoid_grad(g: Operand, x: Operand) -> Operand:
    """g / 6 where -3 < x < 3, 0 elsewhere, also at NaN"""
    return where((x > -3.0) & (x < 3.0), g * (1.0 / 6.0), 0.0)


@formula
def hardswish(x: Operand) -> Operand:
    """x hardsigmoid(x)"""
    return x * hardsigmoid(x)


@formula
def hardswish_grad(g: Operand, x: Operand) -> Operand:
    """0 up to -3, g (x / 3 + 1 / 2) between -3 and 3, g from there on"""
    z = where(x < 3.0, where(x > -3.0, x, 0.0), 0.0)  # keep infinite x out of second derivatives
    return where(x <= -3.0, 0.0, where(x < 3.0, g * (z / 3.0 + 0.5), g))


@formula
def silu(x: Operand) -> Operand:
    """x sigmoid(x)"""
    return x * sigmoid(x)


@formula
def silu_grad(g: Operand, x: Operand) -> Operand:
    """g s (1 + x (1 - s)) with s = sigmoid(x)"""
    s = sigmoid(x)
    return g * s * (1.0 + x * (1.0 - s))


# tanh(softplus(x)) = w / (w + 2) with w = u**2 + 2 u and u = exp(x); from 20 on it is 1


@formula
def mish(x: Operand) -> Operand:
    """x tanh(log(1 + exp(x)))"""
    u = exp(where(x > 20.0, 20.0, x))
    w = u * (u + 2.0)
    return x * (w / (w + 2.0))


@formula
def mish_grad(g: Operand, x: Operand) -> Operand:
    """g (t + x s (1 - t**2)) with t = tanh(log(1 + exp(x))) and s = sigmoid(x)"""
    z = where(x > 20.0, 20.0, x)
    u = exp(z)
    w = u * (u + 2.0)
    d = 1.0 / (w + 2.0)
    return g * (w * d + where(x > 20.0, 0.0, z * (4.0 * (u * d) * ((u + 1.0) * d))))


@formula
def gelu(x: Operand) -> Operand:
    """x (1 + erf(x / sqrt(2))) / 2"""
    return x * normal_cdf(x)


@formula
def gelu_grad(g: Operand, x: Operand) -> Operand:
    """g (normal_cdf(x) + x exp(-x**2 / 2) / sqrt(2 pi))"""
    return g * (normal_cdf(x) + x * exp_negative(x * x * -0.5) * 0.3989422804014327)


# (1 + tanh(z)) / 2 = sigmoid(2 z) with z = sqrt(2 / pi) (x + 0.044715 x**3)


@formula
def gelu_tanh(x: Operand) -> Operand:
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2"""
    return x * sigmoid(x * (x * x * 0.07135481627260025 + 1.5957691216057308))


@formula
def gelu_tanh_grad(g: Operand, x: Operand) -> Operand:
    """g (s + x s (1 - s) dz/dx) with s = sigmoid(2 z)"""
    s = sigmoid(x * (x * x * 0.07135481627260025 + 1.5957691216057308))
    return g * (s + x * s * (1.0 - s) * (x * x * 0.21406444881780073 + 1.5957691216057308))


def gated(x: Operand, y: Operand) -> Operand:
    """x sigmoid(y): the gated linear unit of two halves"""
    return x * sigmoid(y)


def gated_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g s with s = sigmoid(y)"""
    return g * sigmoid(y)


def gated_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """g s x (1 - s) with s = sigmoid(y)"""
    s = sigmoid(y)
    return g * s * x * (1.0 - s)


@formula
def log1p_of_exp(x: Operand) -> Operand:
    """log(1 + exp(x)), without overflow"""
    return where(x > 0.0, x, 0.0) + log1p(exp_negative(where(x > 0.0, -x, x)))


@formula
def softplus(x: Operand, beta: float, limit: float) -> Operand:
    """log(1 + exp(beta x)) / beta, and x where beta x > limit"""
    z = x * beta
    return where(z > limit, x, log1p_of_exp(z) / beta)


@formula
def softplus_grad(g: Operand, x: Operand, beta: float, limit: float) -> Operand:
    """g sigmoid(beta x), and g where beta x > limit"""
    z = x * beta
    # the slope is constant also at the limit, as in PyTorch
    return where(z > limit, g, g * sigmoid(where(z >= limit, limit, z)))


@formula
def log_sigmoid(x: Operand) -> Operand:
    """log(sigmoid(x))"""
    return -log1p_of_exp(-x)


@formula
def log_sigmoid_grad(g: Operand, x: Operand) -> Operand:
    """g sigmoid(-x)"""
    return g * sigmoid(-x)


@formula
def softsign(x: Operand) -> Operand:
    """x / (1 + |x|)"""
    return x / (absolute(x) + 1.0)


@formula
def softsign_grad(g: Operand, x: Operand) -> Operand:
    """g / (1 + |x|)**2"""
    d = absolute(x) + 1.0
    return g / (d * d)


@formula
def tanhshrink(x: Operand) -> Operand:
    """x - tanh(x)"""
    return x - tanh(x)


@formula
def tanhshrink_grad(g: Operand, x: Operand) -> Operand:
    """g tanh(x)**2"""
    y = tanh(x)
    return g * (y * y)


# ---- Spiking neurons: the step function and its surrogate gradients --------------------------------------------------
# x is the potential minus the threshold. Every gradient is g at x = 0; ``slope`` determines how fast it decreases. None
# of them overflows.


@formula
def spike(x: Operand) -> Operand:
    """1 where x >= 0, 0 below; NaN propagates; the gradient is ``fast_sigmoid_grad`` with slope 25"""
    return where(x >= 0.0, 1.0, where(x < 0.0, 0.0, x))


@formula
def fast_sigmoid_grad(g: Operand, x: Operand, slope: float) -> Operand:
    """g / (1 + slope |x|)**2: the gradient of x / (1 + slope |x|)

    Source: F. Zenke, S. Ganguli, "SuperSpike", 2018 (arXiv:1705.11146).
    """
    a = 1.0 + slope * absolute(x)
    return g / (a * a)


@formula
def arctan_grad(g: Operand, x: Operand, slope: float) -> Operand:
    """g / (1 + (slope x)**2): the gradient of atan(slope x) / slope

    Source: W. Fang et al., "Incorporating Learnable Membrane Time Constant to Enhance Learning of Spiking Neural
    Networks", 2021 (arXiv:2007.05785), with slope = pi alpha / 2 and a factor 2 / alpha.
    """
    z = slope * x
    return g / (1.0 + z * z)


@formula
def triangle_grad(g: Operand, x: Operand, slope: float) -> Operand:
    """g max(0, 1 - slope |x|)

    Source: G. Bellec et al., "Long short-term memory and learning-to-learn in networks of spiking neurons", 2018
    (arXiv:1803.09574).
    """
    a = 1.0 - slope * absolute(x)
    return g * where(a > 0.0, a, 0.0)


def spike_grad(g: Operand, x: Operand) -> Operand:
    """``fast_sigmoid_grad`` with slope 25"""
    return fast_sigmoid_grad(g, x, 25.0)


gradients("spike", spike_grad)
