"""Location-scale families: Laplace, Cauchy, Gumbel, Student's t and uniform."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..arrays import all_true
from ..engine.tensor import Tensor
from ..kernel_set import kernels
from ..ops.creation import full_like
from ..ops.special import digamma, lgamma
from . import constraints
from .distribution import Distribution, broadcast_all, standard_normal, uniform
from .gamma import standard_gamma

__all__ = ["Cauchy", "Gumbel", "Laplace", "LocationScale", "StudentT", "Uniform"]


# ---- Base class of distributions of loc + scale * z, where z has a fixed distribution -------------------------------


class LocationScale(Distribution):
    """Base class of location-scale families: ``loc`` shifts and ``scale`` stretches; Tensors or numbers, broadcast.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: scale is not positive, or the shapes do not broadcast.
    """

    loc: Tensor
    scale: Tensor

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.array.shape, (), validate_args)

    @property
    def mode(self) -> Tensor:
        """loc"""
        return self.loc


# ---- The Laplace distribution ---------------------------------------------------------------------------------------


class Laplace(LocationScale):
    """The Laplace distribution with the density exp(-|x - loc| / scale) / (2 scale): Tensors or numbers, broadcast.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: scale is not positive, or the shapes do not broadcast.
    """

    @property
    def mean(self) -> Tensor:
        """loc"""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """scale sqrt(2)"""
        return self.scale * 2**0.5

    @property
    def variance(self) -> Tensor:
        """2 scale**2"""
        return self.scale * self.scale * 2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc - scale sign(u) log(1 - |u|), with u uniform in (-1, 1)"""
        u = uniform(self._extended_shape(sample_shape), self.loc) * 2 - 1
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        """-|value - loc| / scale - log(2 scale)"""
        self._validate_sample(value)
        return -(self.scale * 2).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to ``value``."""
        self._validate_sample(value)
        d = value - self.loc
        return 0.5 - d.sign() * (-d.abs() / self.scale).expm1() * 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability."""
        d = value - 0.5
        return self.loc - self.scale * d.sign() * (d.abs() * -2).log1p()

    def entropy(self) -> Tensor:
        """1 + log(2 scale)"""
        return (self.scale * 2).log() + 1


# ---- The Cauchy distribution ----------------------------------------------------------------------------------------


class Cauchy(LocationScale):
    """The Cauchy distribution with the density 1 / (pi scale (1 + ((x - loc) / scale)**2)); it has no mean.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: scale is not positive, or the shapes do not broadcast.
    """

    @property
    def mean(self) -> Tensor:
        """NaN"""
        return self.loc * math.nan

    @property
    def variance(self) -> Tensor:
        """Infinity: the mean square distance from any number"""
        return full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale tan(pi (u - 1/2)), with u uniform in (0, 1)"""
        return self.icdf(uniform(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        """-log(pi) - log(scale) - log(1 + ((value - loc) / scale)**2)"""
        self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (z * z).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """atan((value - loc) / scale) / pi + 1/2"""
        self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """loc + scale tan(pi (value - 1/2))"""
        return self.loc + self.scale * ((value - 0.5) * math.pi).tan()

    def entropy(self) -> Tensor:
        """log(4 pi scale)"""
        return self.scale.log() + math.log(4 * math.pi)


# ---- The Gumbel distribution ----------------------------------------------------------------------------------------

_EULER = 0.5772156649015329


class Gumbel(LocationScale):
    """The Gumbel distribution: P(X <= x) = exp(-exp(-(x - loc) / scale)). Tensors or numbers, broadcast.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: scale is not positive, or the shapes do not broadcast.
    """

    @property
    def mean(self) -> Tensor:
        """loc + scale times Euler's constant"""
        return self.loc + self.scale * _EULER

    @property
    def variance(self) -> Tensor:
        """(pi scale)**2 / 6"""
        return self.scale * self.scale * (math.pi**2 / 6)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc - scale log(-log(u)), with u uniform in (0, 1)"""
        return self.icdf(uniform(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        """-z - exp(-z) - log(scale) with z = (value - loc) / scale"""
        self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -z - (-z).exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """exp(-exp(-(value - loc) / scale))"""
        self._validate_sample(value)
        return (-(-(value - self.loc) / self.scale).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """loc - scale log(-log(value))"""
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        """log(scale) + 1 + Euler's constant"""
        return self.scale.log() + (1 + _EULER)


# ---- Student's t-distribution ---------------------------------------------------------------------------------------


class StudentT(Distribution):
    """Student's t-distribution with ``df`` degrees of freedom, shifted by ``loc`` and stretched by ``scale``.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: df or scale is not positive, or the shapes do not broadcast.
    """

    df: Tensor
    loc: Tensor
    scale: Tensor

    arg_constraints: ClassVar[dict[str, Any]] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.array.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """loc, NaN for df up to 1"""
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Tensor:
        """loc"""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """scale**2 df / (df - 2); inf for df up to 2, NaN up to 1"""
        large = self.df > 2
        safe = self.df.masked_fill(~large, 3.0)
        found = (self.scale * self.scale * safe / (safe - 2)).masked_fill(~large, math.inf)
        return found.masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale n / sqrt(c / df), with n normal and c chi-squared"""
        shape = self._extended_shape(sample_shape)
        halved = standard_gamma((self.df * 0.5).expand(shape)) * 2
        return self.loc + self.scale * standard_normal(shape, self.loc) * (halved / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._validate_sample(value)
        z = (value - self.loc) / self.scale
        norm = self.scale.log() + self.df.log() * 0.5 + lgamma(self.df * 0.5) - lgamma((self.df + 1) * 0.5)
        return (self.df + 1) * -0.5 * (z * z / self.df).log1p() - norm - 0.5 * math.log(math.pi)

    def entropy(self) -> Tensor:
        """log(scale) + (df + 1) / 2 (digamma((df + 1) / 2) - digamma(df / 2)) + log(sqrt(df) B(1/2, df / 2))"""
        half, more = self.df * 0.5, (self.df + 1) * 0.5
        beta = lgamma(half) + lgamma(half * 0 + 0.5) - lgamma(more)
        return self.scale.log() + more * (digamma(more) - digamma(half)) + self.df.log() * 0.5 + beta


# ---- The uniform distribution on an interval ------------------------------------------------------------------------


class Uniform(Distribution):
    """The uniform distribution on [low, high): Tensors or numbers, broadcast.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: low is not below high, or the shapes do not broadcast.
    """

    high: Tensor
    low: Tensor

    arg_constraints: ClassVar[dict[str, Any]] = {"low": constraints.dependent, "high": constraints.dependent}
    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.array.shape, (), validate_args)
        if not self._validate_args:
            return
        if not all_true(kernels.lt(self.low.array, self.high.array), "whether intervals are empty"):
            raise ValueError(f"Uniform: low={self.low} must be below high={self.high}")

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        """[low, high]"""
        return constraints.interval(self.low.detach(), self.high.detach())

    @property
    def mean(self) -> Tensor:
        """(low + high) / 2"""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: all values are equally probable"""
        return self.high * math.nan

    @property
    def stddev(self) -> Tensor:
        """(high - low) / sqrt(12)"""
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        """(high - low)**2 / 12"""
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """low + (high - low) u, with u uniform in (0, 1)"""
        return self.low + uniform(self._extended_shape(sample_shape), self.low) * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """-log(high - low), and -inf outside [low, high)"""
        self._validate_sample(value)
        inside = (self.low <= value) & (value < self.high)  # false for NaN
        return inside.type_as(self.low).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        """(value - low) / (high - low), from 0 to 1"""
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """low + (high - low) value"""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """log(high - low)"""
        return (self.high - self.low).log()
