"""The gamma distribution and its relatives: chi-squared, exponential, beta and Dirichlet."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from ..arrays import from_host, to_host
from ..engine.function import Function, once_differentiable
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from ..ops.argument_checks import require_float
from ..ops.pointwise.piecewise import where
from ..ops.special import digamma, igamma, lgamma
from . import constraints
from .distribution import Distribution, broadcast_all, draw_numpy, uniform

__all__ = ["Beta", "Chi2", "Dirichlet", "Exponential", "Gamma"]


# ---- Standard gamma variables, differentiable with respect to their concentration -----------------------------------

_FLOAT64 = np.dtype(np.float64)


class StandardGamma(Function):
    """A random value y of the gamma distribution with concentration a and rate 1.

    Its gradient keeps the quantile of y fixed. By implicit differentiation it is -(dP(a, y) / da) / p(y), with the
    distribution function P and the density p.

    Source: M. Figurnov et al., "Implicit reparameterization gradients", 2018.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        shapes = to_host(kernels.cast(a.array, _FLOAT64), "the parameters of random numbers")
        found, dtype = draw_numpy(lambda generator: generator.standard_gamma(shapes), a).array, a.array.dtype
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
    """Draw a standard gamma variable for each element of ``concentration``."""
    return StandardGamma.apply(concentration)


def gamma_slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """-(dP(a, x) / da) / p(x), with the regularized lower incomplete gamma function P and p = dP / dx."""
    series, integral = kernels.gamma_slope_arguments(a, x)
    found: np.ndarray
    found = kernels.gamma_slope(a, x, kernels.polygamma(series, 0), kernels.polygamma(integral, 0))
    return found


# ---- The gamma distribution -----------------------------------------------------------------------------------------


class Gamma(Distribution):
    """The gamma distribution with the density rate**a x**(a - 1) exp(-rate x) / gamma(a), a the ``concentration``.

    Samples are differentiable with respect to both parameters; ``cdf`` is not with respect to the concentration.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: a parameter is not positive, or the shapes do not broadcast.
    """

    concentration: Tensor
    rate: Tensor

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.rate.array.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """concentration / rate"""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """(concentration - 1) / rate, at least 0"""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """concentration / rate**2"""
        return self.concentration / (self.rate * self.rate)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """A standard gamma variable, divided by rate."""
        return standard_gamma(self.concentration.expand(self._extended_shape(sample_shape))) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """a log(rate) + (a - 1) log(value) - rate value - lgamma(a), a the concentration"""
        self._validate_sample(value)
        a = self.concentration
        return a * self.rate.log() + (a - 1).xlogy(value) - self.rate * value - lgamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        """igamma(concentration, rate value)"""
        self._validate_sample(value)
        return igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        """a - log(rate) + lgamma(a) + (1 - a) digamma(a), a the concentration"""
        a = self.concentration
        return a - self.rate.log() + lgamma(a) + (1 - a) * digamma(a)


# ---- The chi-squared distribution -----------------------------------------------------------------------------------


class Chi2(Gamma):
    """The chi-squared distribution with ``df`` degrees of freedom: Gamma(df / 2, 1/2).

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: df is not positive.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (freedom,) = broadcast_all(df)
        super().__init__(freedom * 0.5, 0.5, validate_args)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2

    def _expanded(self) -> Any:
        return "concentration", "rate"


# ---- The exponential distribution -----------------------------------------------------------------------------------


class Exponential(Distribution):
    """The exponential distribution with the rate ``rate``: the density is rate exp(-rate x), for x >= 0.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: rate is not positive.
    """

    rate: Tensor

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.array.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """1 / rate"""
        return 1 / self.rate

    @property
    def mode(self) -> Tensor:
        """0"""
        return self.rate * 0

    @property
    def stddev(self) -> Tensor:
        """1 / rate"""
        return 1 / self.rate

    @property
    def variance(self) -> Tensor:
        """1 / rate**2"""
        return self.rate**-2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """-log(u) / rate, with u uniform in (0, 1)"""
        return -uniform(self._extended_shape(sample_shape), self.rate).log() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """log(rate) - rate value"""
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """1 - exp(-rate value)"""
        self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """-log(1 - value) / rate"""
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        """1 - log(rate)"""
        return 1 - self.rate.log()


# ---- The beta distribution ------------------------------------------------------------------------------------------


class Beta(Distribution):
    """The beta distribution with the density x**(a - 1) (1 - x)**(b - 1) / B(a, b), a and b the concentrations.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: a parameter is not positive, or the shapes do not broadcast.
    """

    concentration0: Tensor
    concentration1: Tensor

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.array.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """a / (a + b)"""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """(a - 1) / (a + b - 2); for concentrations below 1 the end with the larger one, NaN if they are equal"""
        a, b = self.concentration1 - 1, self.concentration0 - 1
        high, low = a.clamp(min=0), b.clamp(min=0)
        mode = high / (high + low)
        ends = (a > b).to(mode.dtype).masked_fill(a == b, math.nan)
        return where((a < 0) & (b < 0), ends, mode)

    @property
    def variance(self) -> Tensor:
        """a b / ((a + b)**2 (a + b + 1))"""
        a, b = self.concentration1, self.concentration0
        total = a + b
        return a * b / (total * total * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """x / (x + y) of two gamma variables"""
        shape = self._extended_shape(sample_shape)
        x, y = (standard_gamma(each.expand(shape)) for each in (self.concentration1, self.concentration0))
        return x / (x + y)

    def log_prob(self, value: Tensor) -> Tensor:
        """(a - 1) log(value) + (b - 1) log(1 - value) - log B(a, b)"""
        self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return (a - 1).xlogy(value) + (b - 1).xlogy(1 - value) + lgamma(a + b) - lgamma(a) - lgamma(b)

    def entropy(self) -> Tensor:
        """log B(a, b) - (a - 1) digamma(a) - (b - 1) digamma(b) + (a + b - 2) digamma(a + b)"""
        a, b = self.concentration1, self.concentration0
        total = a + b
        inner = (total - 2) * digamma(total) - (a - 1) * digamma(a) - (b - 1) * digamma(b)
        return lgamma(a) + lgamma(b) - lgamma(total) + inner


# ---- The Dirichlet distribution -------------------------------------------------------------------------------------


class Dirichlet(Distribution):
    """The Dirichlet distribution of K shares that sum to 1; ``concentration`` (..., K).

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: the concentration has no axis, or is not positive.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        require_float("Dirichlet", concentration, "concentration")
        if concentration.array.ndim < 1:
            raise ValueError("Dirichlet: concentration has no axis, needs (..., K)")
        self.concentration = concentration
        shape = concentration.array.shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        """concentration over its sum"""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """(concentration - 1), clamped at 0, over its sum; 1 for the largest concentration if all are below 1"""
        shares = (self.concentration - 1).clamp(min=0)
        mode = shares / shares.sum(-1, True)
        below = (self.concentration < 1).all(-1, True)
        one = (self.concentration == self.concentration.amax(-1, True)).to(mode.dtype)
        return where(below, one, mode)

    @property
    def variance(self) -> Tensor:
        """m (1 - m) / (total + 1), m the mean and total the sum of the concentration"""
        total = self.concentration.sum(-1, True)
        return self.mean * (1 - self.mean) / (total + 1)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Gamma variables over their sum."""
        parts = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return parts / parts.sum(-1, True)

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum of (a - 1) log(value), minus that of lgamma(a), plus lgamma of the sum of a, the concentration."""
        self._validate_sample(value)
        a = self.concentration
        return (a - 1).xlogy(value).sum(-1) + lgamma(a.sum(-1)) - lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        a, k = self.concentration, self.concentration.array.shape[-1]
        total = a.sum(-1)
        return lgamma(a).sum(-1) - lgamma(total) - (k - total) * digamma(total) - ((a - 1) * digamma(a)).sum(-1)
