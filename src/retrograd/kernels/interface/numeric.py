"""Reductions, scans, special functions, and formulas of single elements."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .kernel import INT64, Array, Axes, Pair, Spec, declare


def _over(x: Spec, axes: Axes, keepdims: bool) -> Spec:
    """A reduction over axes."""
    sizes = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keepdims or axis not in axes]
    return x._replace(shape=(*sizes,))


def _broadcast(x: Spec, y: Spec) -> Spec:
    return Spec(np.broadcast_shapes(x.shape, y.shape), y.dtype)


class Numeric:
    """Reductions, scans, special functions, and formulas of single elements."""

    # ---- reductions and scans

    @declare(_over)
    def sum(self, x: Array, axes: Axes, keepdims: bool) -> Array:
        """The sum over axes."""

    @declare(_over)
    def mean(self, x: Array, axes: Axes, keepdims: bool) -> Array:
        """The mean over axes."""

    @declare(_over)
    def prod(self, x: Array, axes: Axes, keepdims: bool) -> Array:
        """The product over axes."""

    @declare(_over)
    def amax(self, x: Array, axes: Axes, keepdims: bool) -> Array:
        """The largest number over axes."""

    @declare(_over)
    def amin(self, x: Array, axes: Axes, keepdims: bool) -> Array:
        """The smallest number over axes."""

    @declare(lambda x, order, axes, keepdims: _over(x, axes, keepdims))
    def norm(self, x: Array, order: int, axes: Axes, keepdims: bool) -> Array:
        """sum |x| (order 1) or sqrt(sum x**2) (order 2) over axes."""

    @declare(lambda x, axis: (_over(x, (axis,), False), _over(x, (axis,), False)._replace(dtype=INT64)))
    def max(self, x: Array, axis: int) -> Pair:
        """The maximum along an axis, and its index."""

    @declare(lambda x, axis: (_over(x, (axis,), False), _over(x, (axis,), False)._replace(dtype=INT64)))
    def min(self, x: Array, axis: int) -> Pair:
        """The minimum along an axis, and its index."""

    @declare(lambda x, axes, factor=1.0: (_over(x, axes, True),) * 2)
    def moments(self, x: Array, axes: Axes, factor: float = 1.0) -> Pair:
        """The mean over axes, and the sum of squares about it times a factor."""

    @declare(lambda g, x, mean: x)
    def moments_grad(self, g: Array, x: Array, mean: Array) -> Array:
        """g (x - mean)."""

    @declare(lambda x, axes: _over(x, axes, True))
    def logsumexp(self, x: Array, axes: Axes) -> Array:
        """log sum exp(x) over axes."""

    @declare(lambda g, x, y: x)
    def logsumexp_grad(self, g: Array, x: Array, y: Array) -> Array:
        """g exp(x - y)."""

    @declare(lambda g, x: x)
    def signed(self, g: Array, x: Array) -> Array:
        """g times the sign of x."""

    @declare(lambda x, shape: x._replace(shape=shape))
    def spread(self, x: Array, shape: tuple[int, ...]) -> Array:
        """x repeated along the axes of extent 1."""

    @declare(lambda g, x, y: x)
    def ties(self, g: Array, x: Array, y: Array) -> Array:
        """g where x equals y, else 0."""

    @declare(lambda x, axis, reverse: x)
    def cumsum(self, x: Array, axis: int, reverse: bool) -> Array:
        """Running sums along an axis."""

    @declare(lambda x, axis: x)
    def cumprod(self, x: Array, axis: int) -> Array:
        """Running products along an axis."""

    @declare(lambda x, factor, axis, reverse: x)
    def linear_scan(self, x: Array, factor: Array, axis: int, reverse: bool) -> Array:
        """y[i] = x[i] + factor[i] y[i - 1] along an axis."""

    # ---- special functions of single elements

    @declare(lambda x: x)
    def log_gamma(self, x: Array) -> Array:
        """log |gamma(x)|."""

    @declare(lambda x, n: x)
    def polygamma(self, x: Array, n: int) -> Array:
        """The derivative of order n + 1 of the logarithm of the gamma function."""

    @declare(lambda a, x, upper: _broadcast(a, x))
    def igamma(self, a: Array, x: Array, upper: bool) -> Array:
        """The regularized lower, or upper, incomplete gamma function."""

    @declare(lambda a, x: _broadcast(a, x))
    def gamma_density(self, a: Array, x: Array) -> Array:
        """x**(a - 1) exp(-x) / gamma(a)."""

    @declare(lambda s, q: _broadcast(s, q))
    def zeta(self, s: Array, q: Array) -> Array:
        """The sum of (q + k)**-s over k from 0 on."""

    @declare(lambda x: x)
    def i0(self, x: Array) -> Array:
        """The modified Bessel function of order 0."""

    @declare(lambda x: x)
    def i0e(self, x: Array) -> Array:
        """exp(-|x|) i0(x)."""

    @declare(lambda x: x)
    def i1(self, x: Array) -> Array:
        """The modified Bessel function of order 1."""

    @declare(lambda x: x)
    def i1e(self, x: Array) -> Array:
        """exp(-|x|) i1(x)."""

    @declare(lambda x: x)
    def bessel_gap(self, x: Array) -> Array:
        """i0e(x) - i1e(|x|)."""

    @declare(lambda x: x)
    def erfinv(self, x: Array) -> Array:
        """The inverse of the error function."""

    @declare(lambda x: x)
    def ndtri(self, x: Array) -> Array:
        """The x-quantile of the standard normal distribution."""

    @declare(lambda x: x)
    def log_ndtr(self, x: Array) -> Array:
        """The logarithm of the standard normal distribution function."""

    @declare(lambda x: x)
    def hazard(self, x: Array) -> Array:
        """The derivative of ``log_ndtr``."""

    @declare(lambda x: x)
    def hazard_excess(self, x: Array) -> Array:
        """x + hazard(x)."""

    @declare(lambda x: x)
    def entr(self, x: Array) -> Array:
        """-x log(x)."""

    # ---- a user's formulas
    @declare(None, host="it makes a kernel of a formula")
    def formula_kernel(self, formula: Callable[..., Any]) -> Callable[..., Any]:
        """The kernel of a formula that a user wrote."""
