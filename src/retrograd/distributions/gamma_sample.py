"""Standard gamma variables with a gradient to their concentration."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.once import once_differentiable
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from .utils import drawn

_LARGE = 1000.0  # from here on, the distribution is nearly that of the cube of a normal variable
_NODES, _WEIGHTS = np.polynomial.laguerre.laggauss(64)


class StandardGamma(Function):
    """A random value y of the gamma distribution with concentration a and rate 1.

    Its gradient is implicit, -(dP(a, y) / da) / p(y) with the distribution function P and the density p: that of the
    value with the same quantile. Source: M. Figurnov et al., "Implicit reparameterization gradients", 2018.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        y = drawn(lambda generator: generator.standard_gamma(a.array.astype(np.float64)), a)
        y = wrap(np.asarray(np.maximum(y.array, np.finfo(y.array.dtype).tiny)))
        ctx.save_for_backward(a, y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        a, y = ctx.saved_tensors
        slope = gamma_slope(a.array.astype(np.float64), y.array.astype(np.float64))
        return g * wrap(np.asarray(slope, y.array.dtype))


def standard_gamma(concentration: Tensor) -> Tensor:
    """Random values, one for each element of ``concentration``."""
    return StandardGamma.apply(concentration)


def gamma_slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """-(dP(a, x) / da) / p(x) of the regularised lower incomplete gamma function P and its derivative p by x."""
    with np.errstate(all="ignore"):
        return _slope(a, x)


def _slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    large = a > _LARGE
    tail = ~large & (x > 15) & (x > 2 * a)
    small = ~large & ~tail
    inside = _by_series(np.where(small, a, 1), np.where(small, x, 1))
    far = _by_tail(np.where(tail, a, 1), np.where(tail, x, 16))
    # E. Wilson, M. Hilferty, 1931: (x / a)**(1/3) is nearly normal, with mean 1 - 1/(9 a) and deviation 1 / (3 sqrt(a))
    b = np.where(large, a, 1)
    root = np.cbrt(np.where(large, x, 1) / b)
    z = (root - 1 + 1 / (9 * b)) * 3 * np.sqrt(b)
    near = root**3 + 3 * b * root**2 * (1 / (9 * b**2) - z / (6 * b**1.5))
    return np.where(large, near, np.where(tail, far, inside))


def _by_series(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The sum of x**(n + 1) gamma(a) / gamma(a + n + 1) (digamma(a + n + 1) - log(x)), n from 0 on"""
    term, inner = x / a, kernels.polygamma(a + 1, 0) - np.log(x)
    total = term * inner
    for n in range(1, 20000):
        term = term * x / (a + n)
        inner = inner + 1 / (a + n)
        total = total + term * inner
        if (term * abs(inner) <= 1e-17 * abs(total)).all():
            break
    return total


def _by_tail(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The integral of (log(x + u) - digamma(a)) (1 + u / x)**(a - 1) exp(-u) over u > 0, by Gauss and Laguerre"""
    b, y = a[..., np.newaxis], x[..., np.newaxis]
    values = (np.log(y + _NODES) - kernels.polygamma(b, 0)) * (1 + _NODES / y) ** (b - 1)
    found: np.ndarray = (values * _WEIGHTS).sum(-1)
    return found
