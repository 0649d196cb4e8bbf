"""In which form a batch of sequences comes into a layer, and how it gets that form back: always (T, N, ...) between.

A PackedSequence becomes one padded batch, or several: its sequences stand in the order of falling length, and where
those of the later ones are much shorter, they make a batch of fewer steps, so that fewer steps are computed in vain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..engine.tensor import Tensor
from ..ops.join import Split, cat
from ..ops.packed_rows import PickRows, PlaceRows
from ..ops.shape import reshape, transpose
from .utils.rnn import PackedSequence, steps_and_places

__all__ = ["Batch", "Layout", "time_first"]

STEP = 4  # a step costs about as much beside its sequences as so many of them
TILE = 8  # sequences that a kernel takes together
MOST_BATCHES = 4


class Batch(NamedTuple):
    """x (T, N, I), lengths or None, and which of the whole batch's sequences these are; None: all."""

    x: Tensor
    lengths: Any
    sequences: slice | None = None


class Layout(NamedTuple):
    """packed: the PackedSequence that came in; batch_first: it came as (N, T, ...); alone: as (T, ...).

    rows: where each row of the packed data lies in its batches, whose first axes are joined.
    """

    packed: PackedSequence | None = None
    batch_first: bool = False
    alone: bool = False
    rows: np.ndarray | None = None

    def back(self, ys: Sequence[Tensor]) -> Any:
        """What is made of each batch, (T, N, ...), in the form of the input."""
        if self.packed is not None:
            joined = [reshape(y, y.data.shape[0] * y.data.shape[1], *y.data.shape[2:]) for y in ys]
            return self.packed.with_data(PickRows.apply(joined[0] if len(joined) == 1 else cat(joined, 0), self.rows))
        (y,) = ys
        if self.alone:
            return reshape(y, y.data.shape[0], *y.data.shape[2:])
        return transpose(y, 0, 1) if self.batch_first else y

    def given(self, state: Any, of: Batch) -> Any:
        """The part (D, n, H) of a state (D, N, H) or None that belongs to a batch."""
        if state is None:
            return None
        if self.packed is not None and self.packed.sorted_indices is not None:
            return state[:, self.packed.sorted_indices[of.sequences]]
        return state[:, of.sequences]

    def together(self, states: Sequence[list[Tensor]]) -> list[Tensor]:
        """For each layer the state (D, N, H) of the whole batch, from (D, n, H) of all layers of each batch."""
        if len(states) == 1:
            return states[0]
        joined = [cat(list(of_layer), 1) for of_layer in zip(*states, strict=True)]
        if self.packed is not None and self.packed.unsorted_indices is not None:
            joined = [state[:, self.packed.unsorted_indices] for state in joined]
        return joined


def time_first(
    name: str, input: Any, features: int, batch_first: bool, lengths: Any, several: bool = False
) -> tuple[Layout, list[Batch]]:
    """The layout of input, and the input as batches (T, N, features); one, unless ``several`` are welcome.

    Raises:
        TypeError: input is neither a Tensor nor a PackedSequence.
        ValueError: its shape does not fit, or lengths are given for what has them or has no batch.
    """
    if isinstance(input, PackedSequence):
        if lengths is not None:
            raise ValueError(f"{name}: lengths are given beside a PackedSequence, which has its own; leave them out")
        shape = input.data.data.shape
        if len(shape) != 2 or shape[1] != features:
            raise ValueError(f"{name}: data of the PackedSequence has shape {shape}, needs (*, {features})")
        return _of_packed(input, several)
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: input is {type(input).__name__}, needs a Tensor or a PackedSequence")
    shape = input.data.shape
    if len(shape) not in (2, 3) or shape[-1] != features:
        wanted = f"(N, T, {features})" if batch_first else f"(T, N, {features})"
        raise ValueError(f"{name}: input.shape={shape}, needs {wanted}, or without a batch (T, {features})")
    if len(shape) == 3:
        return Layout(None, batch_first), [Batch(transpose(input, 0, 1) if batch_first else input, lengths)]
    if lengths is not None:
        raise ValueError(f"{name}: lengths are given, and input.shape={shape} has no batch axis; leave them out")
    return Layout(None, False, True), [Batch(reshape(input, shape[0], 1, shape[1]), None)]


def _of_packed(packed: PackedSequence, several: bool) -> tuple[Layout, list[Batch]]:
    lengths, features = packed.sorted_lengths(), packed.data.data.shape[1]
    cuts = _cuts(lengths) if several else [0, len(lengths)]
    if len(cuts) == 2:  # in the order of the batch, so that states need no other
        steps, count = int(lengths[0]), len(lengths)
        rows = packed.rows()
        x = reshape(PlaceRows.apply(packed.data, rows, steps * count, 0.0), steps, count, features)
        return Layout(packed, rows=rows), [Batch(x, None if lengths[-1] == steps else packed.lengths)]
    groups = [slice(*pair) for pair in zip(cuts, cuts[1:], strict=False)]
    extents = [(int(lengths[group.start]), group.stop - group.start) for group in groups]
    ends = np.cumsum([steps * count for steps, count in extents])
    starts = [0, *ends.tolist()]
    step, place = steps_and_places(packed.batch_sizes.data.tobytes())
    stride = np.repeat([count for _, count in extents], [count for _, count in extents])
    first = np.arange(len(lengths)) + np.repeat(
        [start - group.start for start, group in zip(starts, groups, strict=False)], [count for _, count in extents]
    )
    rows = first[place] + stride[place] * step
    parts = Split.apply(PlaceRows.apply(packed.data, rows, starts[-1], 0.0), np.diff(starts).tolist(), 0)
    return Layout(packed, rows=rows), [
        Batch(reshape(x, steps, count, features), None if lengths[group.stop - 1] == steps else lengths[group], group)
        for x, (steps, count), group in zip(parts, extents, groups, strict=True)
    ]


def _cuts(lengths: np.ndarray) -> list[int]:
    """Where to cut a batch in the order of falling lengths: where most is saved, and again, while that is 1/20."""
    cuts, whole = [0, len(lengths)], int(lengths[0]) * (len(lengths) + STEP)
    while len(cuts) <= MOST_BATCHES:
        saved, at = max(_best_cut(lengths, *pair) for pair in zip(cuts, cuts[1:], strict=False))
        if saved * 20 < whole:
            break
        cuts = sorted([*cuts, at])
    return cuts


def _best_cut(lengths: np.ndarray, begin: int, end: int) -> tuple[int, int]:
    """How many steps of a sequence a cut saves, and where; without lengths that differ (0, begin)."""
    places = np.arange(begin + TILE, end, TILE)
    if not len(places) or lengths[begin] == lengths[end - 1]:
        return 0, begin
    later = lengths[places]
    saved = (lengths[begin] - later) * (end - places) - later * STEP
    best = int(saved.argmax())
    return int(saved[best]), int(places[best])
