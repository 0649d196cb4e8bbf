"""Student's t-distribution."""  # noqa: N999  PyTorch's name

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..engine.tensor import Tensor
from ..ops.special.gamma import digamma, lgamma
from . import constraints
from .distribution import Distribution
from .gamma_sample import standard_gamma
from .utils import broadcast_all, standard_normal

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t-distribution with ``df`` degrees of freedom, moved by ``loc`` and stretched by ``scale``.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: df or scale is not positive, or the shapes do not broadcast.
    """

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
