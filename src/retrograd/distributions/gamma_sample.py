"""Standard gamma variables with a gradient to their concentration."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import from_host, to_host
from ..engine.function import Function
from ..engine.once import once_differentiable
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from .utils import drawn

_FLOAT64 = np.dtype(np.float64)


class StandardGamma(Function):
    """A random value y of the gamma distribution with concentration a and rate 1.

    Its gradient is implicit, -(dP(a, y) / da) / p(y) with the distribution function P and the density p: that of the
    value with the same quantile. Source: M. Figurnov et al., "Implicit reparameterization gradients", 2018.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        shapes = to_host(kernels.cast(a.array, _FLOAT64), "the parameters of random numbers")
        found, dtype = drawn(lambda generator: generator.standard_gamma(shapes), a).array, a.array.dtype
        y = wrap(kernels.maximum(found, from_host(np.finfo(dtype).tiny, dtype)))
        ctx.save_for_backward(a, y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        a, y = ctx.saved_tensors
        slope = gamma_slope(kernels.cast(a.array, _FLOAT64), kernels.cast(y.array, _FLOAT64))
        return g * wrap(kernels.cast(slope, y.array.dtype))


def standard_gamma(concentration: Tensor) -> Tensor:
    """Random values, one for each element of ``concentration``."""
    return StandardGamma.apply(concentration)


def gamma_slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """-(dP(a, x) / da) / p(x) of the regularised lower incomplete gamma function P and its derivative p by x."""
    series, integral = kernels.gamma_slope_arguments(a, x)
    found: np.ndarray
    found = kernels.gamma_slope(a, x, kernels.polygamma(series, 0), kernels.polygamma(integral, 0))
    return found
