"""Logarithms of densities as one operator, for distributions."""

from __future__ import annotations

from ...engine.tensor import Tensor
from ..dtypes.dtype import cast
from ..dtypes.promotion import promoted_type
from .pointwise import pointwise

__all__: list[str] = []

NormalLogDensity = pointwise("normal_log_density")


def normal_log_density(value: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """The logarithm of the normal density; three operands that broadcast, floating point."""
    dtype = promoted_type(value.array, mean.array, scale.array)
    return NormalLogDensity.apply(cast(value, dtype), cast(mean, dtype), cast(scale, dtype))
