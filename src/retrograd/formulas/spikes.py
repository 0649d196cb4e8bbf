"""The spike of a neuron, and the smooth slopes that stand for its derivative (surrogate gradients).

x is the potential minus the threshold. Every slope is 1 at x = 0; ``slope`` says how fast it falls. None of them
overflows.
"""

from __future__ import annotations

from .primitive import Operand, absolute, where
from .table import formula, gradients


@formula
def spike(x: Operand) -> Operand:
    """1 where x >= 0, 0 below; NaN stays; the gradient is ``fast_sigmoid_grad`` with slope 25"""
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
