"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

from ..engine.tensor import Tensor
from .location_scale import LocationScale
from .utils import uniform

__all__ = ["Laplace"]


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
