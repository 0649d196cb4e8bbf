"""Batches of sequences of different lengths: packed, padded and taken apart; and a long sequence in pieces.

A PackedSequence holds the steps of N sequences without padding, time by time: first step 0 of all of them, then step 1
of those that have one. ``batch_sizes[t]`` says how many have a step t, so that the sequences must stand in the order of
falling length; ``sorted_indices`` says which ones they were before.

Recurrent layers take ``lengths=`` as well, which asks for no order and copies nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from ...engine.tensor import Tensor
from ...ops.dtype import require_tensor
from ...ops.indexing import in_range
from ...ops.join import cat
from ...ops.packed_rows import PickRows, PlaceRows
from ...ops.shape import reshape, transpose
from .truncation import detached, truncated

__all__ = [
    "PackedSequence", "detached", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "truncated", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """N sequences without padding, as ``pack_padded_sequence`` and ``pack_sequence`` make them.

    data: (sum of the lengths, \\*), the steps time by time.
    batch_sizes: (longest length,) of int64: how many sequences have a step t.
    sorted_indices: (N,) of int64: which sequence of the batch is the n-th here; None if they stand as they were.
    unsorted_indices: the inverse of it.

    Raises:
        TypeError: data is no Tensor, or batch_sizes none of int64.
        ValueError: batch_sizes has not one axis, rises, or has another sum than data has rows.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        require_tensor("PackedSequence", data, "data")
        require_tensor("PackedSequence", batch_sizes, "batch_sizes")
        _rows_of(data, batch_sizes)  # raises
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    @property
    def lengths(self) -> np.ndarray:
        """(N,) of int64, in the order of the batch."""
        lengths = self.rows().lengths
        return lengths.copy() if self.unsorted_indices is None else lengths[self.unsorted_indices.array]

    def rows(self) -> Rows:
        """What the rows of data are; ``batch_sizes`` is checked again, since it may have been changed.

        Raises:
            TypeError, ValueError: it was, and does not fit any more.
        """
        return _rows_of(self.data, self.batch_sizes)

    def with_data(self, data: Tensor) -> PackedSequence:
        """The same sequences with other values, of any number of features.

        Raises:
            ValueError: data has another number of rows.
        """
        if not data.array.ndim or len(data.array) != len(self.data.array):
            raise ValueError(
                f"PackedSequence: with_data got data.shape={data.array.shape}, needs {len(self.data.array)} rows"
            )
        return _Fields.__new__(type(self), data, *self[1:])  # the rest is checked

    def to(self, dtype: Any) -> PackedSequence:
        """With data converted to dtype; "cpu" changes nothing."""
        return self if dtype == "cpu" else self.with_data(self.data.to(dtype))

    def float(self) -> PackedSequence:
        return self.to(np.float32)

    def double(self) -> PackedSequence:
        return self.to(np.float64)

    def cpu(self) -> PackedSequence:
        return self

    @property
    def is_cuda(self) -> bool:
        return False


class Rows(NamedTuple):
    """What the rows of a PackedSequence are; not to be changed.

    step, place: of every row its step, and which of the sorted sequences it belongs to.
    lengths: of the sorted sequences.
    """

    step: np.ndarray
    place: np.ndarray
    lengths: np.ndarray

    def padded(self, order: Tensor | None, steps: int, batch_first: bool) -> np.ndarray:
        """Where every row lies in a padded batch of so many steps, whose first two axes are joined."""
        count = len(self.lengths)
        sequence = self.place
        if order is not None:
            where = f"a PackedSequence of {count} sequences"
            sorted_indices = in_range("PackedSequence", "sorted_indices", order.array, count, where, negative=False)
            sequence = sorted_indices[self.place]
        return sequence * steps + self.step if batch_first else self.step * count + sequence


def _rows_of(data: Tensor, batch_sizes: Tensor) -> Rows:
    sizes = batch_sizes.array
    if sizes.dtype != np.int64:
        raise TypeError(f"PackedSequence: batch_sizes is {sizes.dtype}, needs int64")
    if sizes.ndim != 1 or not data.array.ndim:
        raise ValueError(
            f"PackedSequence: batch_sizes.shape={sizes.shape}, data.shape={data.array.shape}; needs a vector of "
            "numbers, one for each step, and data with an axis of rows"
        )
    return _rows(sizes.tobytes(), len(data.array))


@lru_cache(maxsize=8)  # packing, a layer and padding ask for those of one batch
def _rows(batch_sizes: bytes, count: int) -> Rows:
    sizes = np.frombuffer(batch_sizes, np.int64)
    if not len(sizes) or sizes[-1] < 1 or (sizes[1:] > sizes[:-1]).any():  # a difference may overflow
        raise ValueError(
            "PackedSequence: batch_sizes must be a vector of positive numbers that never rise, "
            f"one for each step; it is {sizes.tolist()}"
        )
    if sizes[0] > count or sizes.sum() != count:
        raise ValueError(f"PackedSequence: batch_sizes adds up to {sum(sizes.tolist())} rows, data has {count}")
    step = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(step)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    lengths = np.searchsorted(-sizes, -np.arange(sizes[0]))  # how many steps have more sequences than that
    for array in (step, place, lengths):
        array.flags.writeable = False
    return Rows(step, place, lengths)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes this one; (N,) of int64, or None for none.

    Raises:
        TypeError: permutation is no Tensor.
    """
    if permutation is None:
        return None
    require_tensor("invert_permutation", permutation, "permutation")
    inverse = np.empty_like(permutation.array)
    inverse[permutation.array] = np.arange(len(inverse))
    return Tensor(inverse)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The first ``lengths[n]`` steps of each sequence n of a padded batch.

    input: (T, N, \\*), with batch_first (N, T, \\*).
    lengths: N ints, each 1 to T, in a list, an array or a Tensor.
    enforce_sorted: the lengths must not rise; else the sequences are sorted, which ``sorted_indices`` undoes.

    Raises:
        TypeError: input is no Tensor, lengths are no ints.
        ValueError: input has less than 2 axes, lengths are not N, not in 1 to T, or rise with enforce_sorted.
    """
    require_tensor("pack_padded_sequence", input, "input")
    shape = input.array.shape
    if len(shape) < 2:
        raise ValueError(f"pack_padded_sequence: input.shape={shape}, needs (T, N, *), or (N, T, *) with batch_first")
    count, steps = shape[:2] if batch_first else shape[1::-1]
    many = _lengths("pack_padded_sequence", lengths)
    if many.shape != (count,) or not count:
        raise ValueError(
            f"pack_padded_sequence: {len(many)} lengths for {count} sequences, input.shape={shape} with "
            f"batch_first={batch_first}; give one length for each, and at least one sequence"
        )
    if many.min() < 1 or many.max() > steps:
        raise ValueError(
            f"pack_padded_sequence: lengths are {many.min()} to {many.max()}, but must be 1 to {steps}, the steps of "
            "input; leave empty sequences out"
        )
    order = None
    if enforce_sorted:
        if (np.diff(many) > 0).any():
            raise ValueError(
                f"pack_padded_sequence: lengths={many.tolist()} rise; with enforce_sorted=True the longest sequence "
                "comes first; give enforce_sorted=False"
            )
    else:
        order = Tensor(np.argsort(-many, kind="stable"))
        many = many[order.array]
    sizes = np.searchsorted(-many, -np.arange(many[0]))
    flat = reshape(input, count * steps, *shape[2:])
    rows = _rows(sizes.tobytes(), int(many.sum())).padded(order, steps, batch_first)
    data = PickRows.apply(flat, rows)
    return PackedSequence(data, Tensor(sizes), order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """(padded batch, lengths): (T, N, \\*), with batch_first (N, T, \\*), and (N,), in the order before packing.

    padding_value: what stands behind the end of a sequence.
    total_length: T; without it the longest length.

    Raises:
        TypeError: sequence is no PackedSequence.
        ValueError: total_length is below the longest length.
    """
    _require_packed("pad_packed_sequence", sequence)
    rows = sequence.rows()
    longest, count = int(rows.lengths[0]), len(rows.lengths)
    steps = longest if total_length is None else total_length
    if steps < longest:
        raise ValueError(
            f"pad_packed_sequence: total_length={total_length} is below {longest}, the length of the longest sequence"
        )
    places = rows.padded(sequence.sorted_indices, steps, batch_first)
    padded = PlaceRows.apply(sequence.data, places, steps * count, float(padding_value))
    extents = (count, steps) if batch_first else (steps, count)
    return reshape(padded, *extents, *sequence.data.array.shape[1:]), Tensor(sequence.lengths)


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences (L_n, \\*) as one batch (T, N, \\*), with batch_first (N, T, \\*), T the largest L_n.

    padding_side: "right", behind the end, or "left", before the start.

    Raises:
        TypeError: sequences are no Tensors.
        ValueError: there are none, they differ in more than their length, or padding_side is neither.
    """
    if padding_side not in ("right", "left"):
        raise ValueError(f'pad_sequence: padding_side={padding_side!r} must be "right" or "left"')
    many = _sequences("pad_sequence", sequences)
    lengths = np.array([len(one.array) for one in many])
    steps, count = int(lengths.max()), len(many)
    starts = np.zeros(count, np.int64) if padding_side == "right" else steps - lengths
    sequence = np.repeat(np.arange(count), lengths)
    step = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths - starts, lengths)
    rows = sequence * steps + step if batch_first else step * count + sequence
    padded = PlaceRows.apply(cat(many, 0), rows, steps * count, float(padding_value))
    return reshape(padded, *((count, steps) if batch_first else (steps, count)), *many[0].array.shape[1:])


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch, each (lengths[n], \\*): what ``pad_sequence`` was given.

    Raises:
        TypeError: padded_sequences is no Tensor, lengths are no ints.
        ValueError: padded_sequences has less than 2 axes, lengths are not N, or not in 0 to T.
    """
    require_tensor("unpad_sequence", padded_sequences, "padded_sequences")
    shape = padded_sequences.array.shape
    if len(shape) < 2:
        raise ValueError(f"unpad_sequence: padded_sequences.shape={shape}, needs (T, N, *), or (N, T, *)")
    batch = padded_sequences if batch_first else transpose(padded_sequences, 0, 1)
    count, steps = batch.array.shape[:2]
    many = _lengths("unpad_sequence", lengths)
    if many.shape != (count,) or (count and (many.min() < 0 or many.max() > steps)):
        raise ValueError(
            f"unpad_sequence: lengths={many.tolist()} must be {count} numbers of 0 to {steps}, for "
            f"padded_sequences.shape={shape} with batch_first={batch_first}"
        )
    return [batch[n, : int(length)] for n, length in enumerate(many)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences (L_n, \\*) as a PackedSequence; see ``pack_padded_sequence``.

    Raises:
        TypeError: sequences are no Tensors.
        ValueError: there are none, one is empty, they differ in more than their length, or get longer with
            enforce_sorted.
    """
    many = _sequences("pack_sequence", sequences)
    lengths = [len(one.array) for one in many]
    try:
        return pack_padded_sequence(pad_sequence(many), lengths, False, enforce_sorted)
    except ValueError as error:
        raise ValueError(str(error).replace("pack_padded_sequence", "pack_sequence", 1)) from None


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences (L_n, \\*) that ``pack_sequence`` was given.

    Raises:
        TypeError: packed_sequences is no PackedSequence.
    """
    _require_packed("unpack_sequence", packed_sequences)
    return unpad_sequence(*pad_packed_sequence(packed_sequences, True), batch_first=True)


# ---- checks -----------------------------------------------------------------------------------------------------


def _lengths(name: str, lengths: Any) -> np.ndarray:
    array = np.asarray(lengths.array if isinstance(lengths, Tensor) else lengths)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(f"{name}: lengths are {array.dtype} with {array.ndim} axes, expected a list of ints")
    return array.astype(np.int64)


def _sequences(name: str, sequences: Any) -> list[Tensor]:
    if isinstance(sequences, Tensor) or not isinstance(sequences, Sequence):
        raise TypeError(f"{name}: sequences is {type(sequences).__name__}, expected a list of Tensors")
    if not sequences:
        raise ValueError(f"{name}: there are no sequences; give at least one")
    for n, one in enumerate(sequences):
        if not isinstance(one, Tensor):
            raise TypeError(f"{name}: sequences[{n}] is {type(one).__name__}, expected a Tensor")
        first = sequences[0]
        if not one.array.ndim or one.array.shape[1:] != first.array.shape[1:] or one.array.dtype != first.array.dtype:
            raise ValueError(
                f"{name}: sequences[{n}] is {one.array.dtype} {one.array.shape}, sequences[0] {first.array.dtype} "
                f"{first.array.shape}; they may differ in the first extent only"
            )
    return list(sequences)


def _require_packed(name: str, sequence: Any) -> None:
    if not isinstance(sequence, PackedSequence):
        raise TypeError(f"{name}: expected a PackedSequence, got {type(sequence).__name__}")
