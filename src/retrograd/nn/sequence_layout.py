"""In which form a batch of sequences comes into a layer, and how it gets that form back: always (T, N, ...) between."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..engine.tensor import Tensor
from ..ops.packed_rows import PickRows, PlaceRows
from ..ops.shape import reshape, transpose
from .utils.rnn import PackedSequence

__all__ = ["Layout", "time_first"]


class Layout(NamedTuple):
    """packed: the PackedSequence that came in; batch_first: it came as (N, T, ...); alone: as (T, ...)."""

    packed: PackedSequence | None = None
    batch_first: bool = False
    alone: bool = False

    def back(self, y: Tensor) -> Any:
        """y (T, N, ...) in the form of the input."""
        shape = y.data.shape
        if self.packed is not None:
            joined = reshape(y, shape[0] * shape[1], *shape[2:])
            return self.packed.with_data(PickRows.apply(joined, self.packed.rows()))
        if self.alone:
            return reshape(y, shape[0], *shape[2:])
        return transpose(y, 0, 1) if self.batch_first else y


def time_first(
    name: str, input: Any, features: int, batch_first: bool, lengths: Any
) -> tuple[Layout, Tensor, np.ndarray | Any]:
    """The layout of input, the input as (T, N, features), and its lengths or None.

    Raises:
        TypeError: input is neither a Tensor nor a PackedSequence.
        ValueError: its shape does not fit, or lengths are given for what has them or has no batch.
    """
    if isinstance(input, PackedSequence):
        if lengths is not None:
            raise ValueError(f"{name}: lengths are given beside a PackedSequence, which has its own; leave them out")
        data, steps, count = input.data, len(input.batch_sizes.data), int(input.batch_sizes.data[0])
        if data.data.ndim != 2 or data.data.shape[1] != features:
            raise ValueError(f"{name}: data of the PackedSequence has shape {data.data.shape}, needs (*, {features})")
        own: np.ndarray | None = input.lengths
        if input.batch_sizes.data[-1] == count:  # all have one length
            own = None
        placed = PlaceRows.apply(data, input.rows(), steps * count, 0.0)
        return Layout(input), reshape(placed, steps, count, features), own
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: input is {type(input).__name__}, needs a Tensor or a PackedSequence")
    shape = input.data.shape
    if len(shape) not in (2, 3) or shape[-1] != features:
        wanted = f"(N, T, {features})" if batch_first else f"(T, N, {features})"
        raise ValueError(f"{name}: input.shape={shape}, needs {wanted}, or without a batch (T, {features})")
    if len(shape) == 3:
        return Layout(None, batch_first), transpose(input, 0, 1) if batch_first else input, lengths
    if lengths is not None:
        raise ValueError(f"{name}: lengths are given, and input.shape={shape} has no batch axis; leave them out")
    return Layout(None, False, True), reshape(input, shape[0], 1, shape[1]), None
