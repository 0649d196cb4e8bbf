"""Converting a batch of sequences to (T, N, ...) for a layer, and its result back to the layout of the input.

A PackedSequence becomes a padded batch with lengths, in its own order, longest sequence first: so the active rows of
every step come first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import integers
from ..engine.tensor import Tensor
from ..ops.index.packed_rows import PickRows, PlaceRows
from ..ops.shape.shape import reshape, transpose
from .utils.rnn import PackedSequence

__all__ = ["Layout", "time_first"]


class Layout(NamedTuple):
    """The layout of the input. packed: the PackedSequence; batch_first: (N, T, ...); alone: (T, ...), without a batch.

    rows: the position of each row of the packed data in the padded batch, its first two axes flattened.
    """

    packed: PackedSequence | None = None
    batch_first: bool = False
    alone: bool = False
    rows: np.ndarray | None = None

    def restored(self, y: Tensor) -> Any:
        """y (T, N, ...) in the layout of the input."""
        if self.packed is not None:
            joined = reshape(y, y.array.shape[0] * y.array.shape[1], *y.array.shape[2:])
            return self.packed.with_data(PickRows.apply(joined, self.rows))
        if self.alone:
            return reshape(y, y.array.shape[0], *y.array.shape[2:])
        return transpose(y, 0, 1) if self.batch_first else y

    def sorted_states(self, states: list[Any]) -> list[Any]:
        """The states (D, N, H) or None of all layers, in the order of the packed sequences."""
        if self.packed is None or self.packed.sorted_indices is None:
            return states
        return [state if state is None else state[:, self.packed.sorted_indices] for state in states]

    def unsorted_states(self, states: list[Tensor]) -> list[Tensor]:
        """The states in the order of the original batch."""
        if self.packed is None or self.packed.unsorted_indices is None:
            return states
        return [state[:, self.packed.unsorted_indices] for state in states]


def time_first(name: str, input: Any, features: int, batch_first: bool, lengths: Any) -> tuple[Layout, Tensor, Any]:
    """The layout of input, input as a batch (T, N, features), and its lengths or None.

    Raises:
        TypeError: input is neither a Tensor nor a PackedSequence.
        ValueError: its shape does not fit, or lengths are passed for a PackedSequence or an input without a batch.
    """
    if isinstance(input, PackedSequence):
        if lengths is not None:
            raise ValueError(f"{name}: lengths must be None for a PackedSequence, which has its own")
        shape = input.data.array.shape
        if len(shape) != 2 or shape[1] != features:
            raise ValueError(f"{name}: data of the PackedSequence has shape {shape}, needs (*, {features})")
        parts = input.rows()
        ends = parts.lengths
        known = integers(ends, "the steps of a packed batch")
        steps, count = known[0], len(known)
        rows = parts.padded(None, steps, False)
        x = reshape(PlaceRows.apply(input.data, rows, steps * count, 0.0), steps, count, features)
        return Layout(input, rows=rows), x, None if known[-1] == steps else ends
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: input must be a Tensor or a PackedSequence, got {type(input).__name__}")
    shape = input.array.shape
    if len(shape) not in (2, 3) or shape[-1] != features:
        wanted = f"(N, T, {features})" if batch_first else f"(T, N, {features})"
        raise ValueError(f"{name}: input.shape={shape}, needs {wanted}, or without a batch (T, {features})")
    if len(shape) == 3:
        return Layout(None, batch_first), transpose(input, 0, 1) if batch_first else input, lengths
    if lengths is not None:
        raise ValueError(f"{name}: lengths need a batch axis, but input.shape={shape} has none; leave them out")
    return Layout(None, False, True), reshape(input, shape[0], 1, shape[1]), None
