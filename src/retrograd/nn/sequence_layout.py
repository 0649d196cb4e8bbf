"""In which form a batch of sequences comes into a layer, and how it gets that form back: always (T, N, ...) between.

A PackedSequence becomes a padded batch with lengths, in its own order, from the longest sequence on: so the rows that a
step of the kernels computes are the first ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..engine.tensor import Tensor
from ..ops.packed_rows import PickRows, PlaceRows
from ..ops.shape import reshape, transpose
from .utils.rnn import PackedSequence

__all__ = ["Layout", "time_first"]


class Layout(NamedTuple):
    """packed: the PackedSequence that came in; batch_first: it came as (N, T, ...); alone: as (T, ...).

    rows: where each row of the packed data lies in the padded batch, whose first axes are joined.
    """

    packed: PackedSequence | None = None
    batch_first: bool = False
    alone: bool = False
    rows: np.ndarray | None = None

    def back(self, y: Tensor) -> Any:
        """What is made of the batch, (T, N, ...), in the form of the input."""
        if self.packed is not None:
            joined = reshape(y, y.array.shape[0] * y.array.shape[1], *y.array.shape[2:])
            return self.packed.with_data(PickRows.apply(joined, self.rows))
        if self.alone:
            return reshape(y, y.array.shape[0], *y.array.shape[2:])
        return transpose(y, 0, 1) if self.batch_first else y

    def given(self, states: list[Any]) -> list[Any]:
        """The states (D, N, H) of all layers, or None, in the order of the batch between."""
        if self.packed is None or self.packed.sorted_indices is None:
            return states
        return [state if state is None else state[:, self.packed.sorted_indices] for state in states]

    def returned(self, states: list[Tensor]) -> list[Tensor]:
        """The states in the order of the batch that came in."""
        if self.packed is None or self.packed.unsorted_indices is None:
            return states
        return [state[:, self.packed.unsorted_indices] for state in states]


def time_first(
    name: str, input: Any, features: int, batch_first: bool, lengths: Any
) -> tuple[Layout, Tensor, Any]:
    """The layout of input, and the input as a batch (T, N, features) with its lengths, or None.

    Raises:
        TypeError: input is neither a Tensor nor a PackedSequence.
        ValueError: its shape does not fit, or lengths are given for what has them or has no batch.
    """
    if isinstance(input, PackedSequence):
        if lengths is not None:
            raise ValueError(f"{name}: lengths are given beside a PackedSequence, which has its own; leave them out")
        shape = input.data.array.shape
        if len(shape) != 2 or shape[1] != features:
            raise ValueError(f"{name}: data of the PackedSequence has shape {shape}, needs (*, {features})")
        parts = input.rows()
        ends = parts.lengths
        steps, count = int(ends[0]), len(ends)
        rows = parts.padded(None, steps, False)
        x = reshape(PlaceRows.apply(input.data, rows, steps * count, 0.0), steps, count, features)
        return Layout(input, rows=rows), x, None if ends[-1] == steps else ends
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: input is {type(input).__name__}, needs a Tensor or a PackedSequence")
    shape = input.array.shape
    if len(shape) not in (2, 3) or shape[-1] != features:
        wanted = f"(N, T, {features})" if batch_first else f"(T, N, {features})"
        raise ValueError(f"{name}: input.shape={shape}, needs {wanted}, or without a batch (T, {features})")
    if len(shape) == 3:
        return Layout(None, batch_first), transpose(input, 0, 1) if batch_first else input, lengths
    if lengths is not None:
        raise ValueError(f"{name}: lengths are given, and input.shape={shape} has no batch axis; leave them out")
    return Layout(None, False, True), reshape(input, shape[0], 1, shape[1]), None
