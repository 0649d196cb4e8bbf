"""The distribution of the exponential of a normal variable."""

from __future__ import annotations

from typing import Any, ClassVar

from ..engine.tensor import Tensor
from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform

__all__ = ["LogNormal"]


class LogNormal(TransformedDistribution):
    """exp(x) of a normal x with mean ``loc`` and standard deviation ``scale``: Tensors or numbers, broadcast.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: scale is not positive, or the shapes do not broadcast.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the normal variable."""
        return self.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the normal variable."""
        return self.base_dist.scale  # type: ignore[attr-defined]

    @property
    def mean(self) -> Tensor:
        """exp(loc + scale**2 / 2)"""
        return (self.loc + self.scale * self.scale * 0.5).exp()

    @property
    def mode(self) -> Tensor:
        """exp(loc - scale**2)"""
        return (self.loc - self.scale * self.scale).exp()

    @property
    def variance(self) -> Tensor:
        """(exp(scale**2) - 1) exp(2 loc + scale**2)"""
        square = self.scale * self.scale
        return square.expm1() * (self.loc * 2 + square).exp()

    def entropy(self) -> Tensor:
        """That of the normal variable, plus loc."""
        return self.base_dist.entropy() + self.loc
