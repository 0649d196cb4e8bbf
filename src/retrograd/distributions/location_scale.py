"""Base class of distributions of loc + scale * z, where z has a fixed distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..engine.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["LocationScale"]


class LocationScale(Distribution):
    """A distribution on the real numbers that ``loc`` moves and ``scale`` stretches: Tensors or numbers, broadcast.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: scale is not positive, or the shapes do not broadcast.
    """

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
