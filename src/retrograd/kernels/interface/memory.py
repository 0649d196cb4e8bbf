"""Copies, types and shapes."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .kernel import Array, along, declare


class Memory:
    """Copies, types and shapes."""

    # ---- copies

    @declare(lambda y, x: None, writes="y")
    def copy(self, y: Array, x: Array) -> None:
        """y[...] = x."""

    @declare(lambda y, x: None, changes="y")
    def accumulate(self, y: Array, x: Array) -> None:
        """y[...] += x."""

    @declare(lambda x: x)
    def duplicate(self, x: Array) -> Array:
        """A copy of x, with its order of axes in memory."""

    @declare(lambda x, shape: x._replace(shape=shape))
    def reshaped(self, x: Array, shape: tuple[int, ...]) -> Array:
        """A copy of x in another shape, the elements in C order."""

    @declare(lambda x, dtype: x._replace(dtype=dtype))
    def cast(self, x: Array, dtype: np.dtype[Any]) -> Array:
        """x in another type."""

    @declare(lambda arrays, axis: along(arrays[0], axis, sum([each.shape[axis] for each in arrays])))
    def concatenate(self, arrays: Sequence[Array], axis: int) -> Array:
        """Arrays one after the other along an axis."""

    @declare(lambda g, shape, index: g._replace(shape=shape))
    def pad_slice(self, g: Array, shape: tuple[int, ...], index: Any) -> Array:
        """Zeros, with g at ``[index]``: ints, slices, None and Ellipsis."""
