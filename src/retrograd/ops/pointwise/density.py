"""Logarithms of densities as one operator, for distributions."""

from __future__ import annotations

from ...engine.tensor import Tensor
from ..dtypes.dtype import cast
from ..dtypes.promotion import promoted_type
from .pointwise import Pointwise

__all__: list[str] = []


class NormalLogDensity(Pointwise, formula="normal_log_density"):
    """-((x - mean) / scale)**2 / 2 - log(scale) - log(2 pi) / 2"""


def normal_log_density(value: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """The logarithm of the normal density; three operands that broadcast, floating point."""
    dtype = promoted_type(value.array, mean.array, scale.array)
    return NormalLogDensity.apply(cast(value, dtype), cast(mean, dtype), cast(scale, dtype))
