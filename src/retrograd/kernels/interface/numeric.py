"""Reductions, scans, special functions, and formulas of single elements."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...specs.array_spec import Array, Spec
from .kernel import INT64, Axes, Pair, Three, declare

BOOL, INT32, FLOAT64 = np.dtype(np.bool_), np.dtype(np.int32), np.dtype(np.float64)


def _over(x: Spec, axes: Axes, keepdims: bool) -> Spec:
    """A reduction over axes."""
    sizes = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keepdims or axis not in axes]
    return x._replace(shape=(*sizes,))


def _broadcast(x: Spec, y: Spec) -> Spec:
    return Spec(np.broadcast_shapes(x.shape, y.shape), y.dtype)


def _truth(x: Spec, *others: Spec) -> Spec:
    """The boolean result of broadcast operands."""
    return Spec(np.broadcast_shapes(x.shape, *[each.shape for each in others]), BOOL)


def _index(x: Spec, axis: int | None, keepdims: bool) -> Spec:
    return _over(x, tuple(range(len(x.shape))) if axis is None else (axis,), keepdims)._replace(dtype=INT64)


def _difference_weights(distances: Spec, order: int, dtype: Any) -> tuple[Spec, ...]:
    count = distances.shape[0] - 1
    return tuple([Spec((each,), np.dtype(dtype)) for each in (count, count, count, 2 * order - 1, 2 * order - 1)])


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

    @declare(lambda x, axes, keepdims, dtype: _over(x, axes, keepdims)._replace(dtype=np.dtype(dtype)))
    def integer_sum(self, x: Array, axes: Axes, keepdims: bool, dtype: Any) -> Array:
        """The sum of integers or booleans over axes, in ``dtype``."""

    @declare(lambda x, axes, keepdims, dtype: _over(x, axes, keepdims)._replace(dtype=np.dtype(dtype)))
    def integer_prod(self, x: Array, axes: Axes, keepdims: bool, dtype: Any) -> Array:
        """The product of integers or booleans over axes, in ``dtype``."""

    @declare(_over)
    def integer_amax(self, x: Array, axes: Axes, keepdims: bool) -> Array:
        """The largest integer or boolean over axes."""

    @declare(_over)
    def integer_amin(self, x: Array, axes: Axes, keepdims: bool) -> Array:
        """The smallest integer or boolean over axes."""

    @declare(lambda x, axes, keepdims, dtype: _over(x, axes, keepdims)._replace(dtype=np.dtype(dtype)))
    def count_nonzero(self, x: Array, axes: Axes, keepdims: bool, dtype: Any) -> Array:
        """The number of elements over axes that are not 0, in ``dtype``."""

    @declare(lambda x, axes, keepdims: _over(x, axes, keepdims)._replace(dtype=BOOL))
    def all(self, x: Array, axes: Axes, keepdims: bool) -> Array:
        """Whether no element over axes is 0."""

    @declare(lambda x, axes, keepdims: _over(x, axes, keepdims)._replace(dtype=BOOL))
    def any(self, x: Array, axes: Axes, keepdims: bool) -> Array:
        """Whether some element over axes is not 0."""

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

    @declare(lambda x, axis, keepdims: _index(x, axis, keepdims))
    def argmax(self, x: Array, axis: int | None, keepdims: bool) -> Array:
        """The index of the first maximum along an axis, or in C order."""

    @declare(lambda x, axis, keepdims: _index(x, axis, keepdims))
    def argmin(self, x: Array, axis: int | None, keepdims: bool) -> Array:
        """The index of the first minimum along an axis, or in C order."""

    @declare(lambda x, axis: x)
    def one_hot_argmax(self, x: Array, axis: int) -> Array:
        """1 at the first maximum along an axis, 0 elsewhere."""

    @declare(lambda line, value, first, shape, order: Spec((), INT64))
    def first_equal(self, line: Array, value: Array, first: Array, shape: tuple[int, ...], order: Axes) -> Array:
        """The least index in C order of an element that equals a value."""

    @declare(lambda size, axes, smallest: _over(size, axes, True))
    def decisive(self, size: Array, axes: Axes, smallest: bool) -> Array:
        """The element over axes that dominates a norm: the largest, or the smallest that is positive."""

    @declare(lambda g, x: x)
    def signed(self, g: Array, x: Array) -> Array:
        """g times the sign of x."""

    @declare(lambda x, shape: x._replace(shape=shape))
    def spread(self, x: Array, shape: tuple[int, ...]) -> Array:
        """x repeated along the axes of extent 1."""

    @declare(lambda g, x, y: x)
    def ties(self, g: Array, x: Array, y: Array) -> Array:
        """g where x equals y, else 0."""

    @declare(lambda x, axis: x._replace(dtype=INT64))
    def integer_cumsum(self, x: Array, axis: int) -> Array:
        """Running sums of integers or booleans along an axis, in int64."""

    @declare(lambda x, axis: x._replace(dtype=INT64))
    def integer_cumprod(self, x: Array, axis: int) -> Array:
        """Running products of integers or booleans along an axis, in int64."""

    @declare(lambda x, axis: x)
    def logcumsumexp(self, x: Array, axis: int) -> Array:
        """log(exp(x[0]) + ... + exp(x[i])) along an axis."""

    @declare(lambda x, axis, smallest: (x, x._replace(dtype=INT64)))
    def cumulative_extreme(self, x: Array, axis: int, smallest: bool) -> Pair:
        """The largest or smallest element so far along an axis, and its last index."""

    @declare(lambda x, axis, step, fill: x)
    def shift(self, x: Array, axis: int, step: int, fill: float) -> Array:
        """x shifted by one position along an axis."""

    @declare(lambda x: Spec((x.shape[0] - 1,), FLOAT64))
    def differences(self, x: Array) -> Array:
        """x[i + 1] - x[i] of a vector."""

    @declare(_difference_weights)
    def difference_weights(self, distances: Array, order: int, dtype: Any) -> tuple[Array, ...]:
        """The finite-difference weights of a derivative."""

    @declare(lambda x, axis, reverse: x)
    def cumsum(self, x: Array, axis: int, reverse: bool) -> Array:
        """Running sums along an axis."""

    @declare(lambda x, axis: x)
    def cumprod(self, x: Array, axis: int) -> Array:
        """Running products along an axis."""

    @declare(lambda x, factor, axis, reverse: x)
    def linear_scan(self, x: Array, factor: Array, axis: int, reverse: bool) -> Array:
        """y[i] = x[i] + factor[i] y[i - 1] along an axis."""

    # ---- sequences of numbers

    @declare(lambda start, step, count: Spec((count,), np.result_type(start, step, INT64)))
    def progression(self, start: float, step: float, count: int) -> Array:
        """start, start + step, start + 2 step, ..."""

    @declare(lambda exponents, base, dtype: exponents._replace(dtype=np.dtype(dtype)))
    def powers_of_number(self, exponents: Array, base: float, dtype: Any) -> Array:
        """base**exponent, in ``dtype``."""

    @declare(lambda name, count, numbers: Spec((count,), FLOAT64))
    def window_function(self, name: str, count: int, numbers: tuple[float, ...]) -> Array:
        """A symmetric window, by its name."""

    # ---- comparisons and logic

    @declare(lambda x, y: _truth(x, y))
    def logical_and(self, x: Array, y: Array) -> Array:
        """Logical AND: True where x and y are both nonzero."""

    @declare(lambda x, y: _truth(x, y))
    def logical_or(self, x: Array, y: Array) -> Array:
        """Logical OR: True where x, y or both are nonzero."""

    @declare(lambda x, y: _truth(x, y))
    def logical_xor(self, x: Array, y: Array) -> Array:
        """Logical XOR: True where exactly one of x and y is nonzero."""

    @declare(_truth)
    def logical_not(self, x: Array) -> Array:
        """Logical NOT: True where x is 0."""

    @declare(lambda x: x)
    def at_zero(self, x: Array) -> Array:
        """1 where x is 0, else 0."""

    @declare(lambda x: (_truth(x), x))
    def unit_step(self, x: Array) -> Pair:
        """The mask x == 0, and the unit step: 1 where x > 0, else 0."""

    @declare(_truth)
    def signbit(self, x: Array) -> Array:
        """True where the sign bit of x is set."""

    @declare(lambda x, y, rtol, atol, equal_nan: _truth(x, y))
    def isclose(self, x: Array, y: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
        """True where |x - y| <= atol + rtol |y|."""

    @declare(lambda x, low, high: (_truth(x, low, high),) * 3)
    def clamp_masks(self, x: Array, low: Array, high: Array) -> Three:
        """Three masks: where the gradient of min(max(x, low), high) goes to x, to low and to high."""

    # ---- integers, and the binary form of floating-point numbers

    @declare(_broadcast)
    def bitwise_and(self, x: Array, y: Array) -> Array:
        """Bitwise AND."""

    @declare(_broadcast)
    def bitwise_or(self, x: Array, y: Array) -> Array:
        """Bitwise OR."""

    @declare(_broadcast)
    def bitwise_xor(self, x: Array, y: Array) -> Array:
        """Bitwise XOR."""

    @declare(lambda x: x)
    def bitwise_not(self, x: Array) -> Array:
        """Bitwise NOT."""

    @declare(_broadcast)
    def bitwise_left_shift(self, x: Array, y: Array) -> Array:
        """x 2**y, without the bits beyond the type."""

    @declare(_broadcast)
    def bitwise_right_shift(self, x: Array, y: Array) -> Array:
        """x / 2**y, rounded down."""

    @declare(_broadcast)
    def gcd(self, x: Array, y: Array) -> Array:
        """The greatest common divisor."""

    @declare(_broadcast)
    def lcm(self, x: Array, y: Array) -> Array:
        """The least common multiple."""

    @declare(_broadcast)
    def integer_powers(self, x: Array, y: Array) -> Array:
        """x**y of integers, also negative y, truncated."""

    @declare(lambda x: (x, x._replace(dtype=INT32)))
    def frexp(self, x: Array) -> Pair:
        """The mantissa and the exponent to the base 2."""

    @declare(lambda x, exponent: Spec(_truth(x, exponent).shape, x.dtype))
    def ldexp(self, x: Array, exponent: Array) -> Array:
        """x 2**exponent."""

    @declare(_broadcast)
    def nextafter(self, x: Array, y: Array) -> Array:
        """The next number after x towards y."""

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
