"""Batches of sequences of different lengths: packing, padding and splitting; long sequences in pieces.

A PackedSequence contains the steps of N sequences without padding, step by step: first step 0 of all of them, then
step 1 of those that have one. ``batch_sizes[t]`` is the number that have a step t, so the sequences must be sorted by
descending length; ``sorted_indices`` contains their original positions.

Recurrent layers also take ``lengths=``, which needs no sorting and copies nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from ...arrays import arange, from_host, integers, same, to_host
from ...engine.arguments import kind_name
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ...kernel_set import exact, kernels
from ...ops.argument_checks import as_counts, as_index, as_int, as_real, require_tensor
from ...ops.index.indexing import in_range
from ...ops.index.pick import PickRows, PlaceRows
from ...ops.shape.join import cat
from ...ops.shape.shape import reshape, transpose
from .truncated_bptt import detached, truncated

__all__ = [
    "PackedSequence",
    "detached",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "truncated",
    "unpack_sequence",
    "unpad_sequence",
]


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """N sequences without padding, as returned by ``pack_padded_sequence`` and ``pack_sequence``.

    data: (sum of the lengths, \\*), step by step.
    batch_sizes: (longest length,), int64: the number of sequences that have a step t.
    sorted_indices: (N,), int64: the position in the batch of the n-th sequence here; None if the order is unchanged.
    unsorted_indices: its inverse.

    Raises:
        TypeError: data is not a Tensor, or batch_sizes is not an int64 Tensor.
        ValueError: batch_sizes is not 1-d, increases, or does not sum to the rows of data.
    """

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
        """(N,), int64, in the order of the batch."""
        lengths = self.rows().lengths
        if self.unsorted_indices is None:
            copied: np.ndarray = kernels.duplicate(lengths)
            return copied
        found: np.ndarray = exact("pick")(lengths, self.unsorted_indices.array, 0)
        return found

    def rows(self) -> Rows:
        """The step and sequence of each row of data; checks ``batch_sizes`` again, since it may have been changed.

        Raises:
            TypeError, ValueError: batch_sizes no longer fits.
        """
        return _rows_of(self.data, self.batch_sizes)

    def with_data(self, data: Tensor) -> PackedSequence:
        """Return the same sequences with new data, of any number of features.

        Raises:
            ValueError: data has a different number of rows.
        """
        if not data.array.ndim or len(data.array) != len(self.data.array):
            raise ValueError(
                f"PackedSequence: with_data got data.shape={data.array.shape}, needs {len(self.data.array)} rows"
            )
        return _Fields.__new__(type(self), data, *self[1:])  # the other fields are already checked

    def to(self, *args: Any, **options: Any) -> PackedSequence:
        """Return the sequences with data converted by ``Tensor.to``."""
        data = self.data.to(*args, **options)
        return self if data is self.data else self.with_data(data)

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
    """The step and sequence of each row of a PackedSequence; read-only.

    step, place: for each row, its step and the index of its sequence among the sorted ones.
    lengths: of the sorted sequences.
    """

    step: np.ndarray
    place: np.ndarray
    lengths: np.ndarray

    def padded(self, order: Tensor | None, steps: int, batch_first: bool) -> np.ndarray:
        """Return the position of each row in a padded batch of ``steps`` steps, its first two axes flattened."""
        count, places = len(self.lengths), None
        if order is not None:
            where = f"a PackedSequence of {count} sequences"
            places = in_range("PackedSequence", "sorted_indices", order.array, count, where, negative=False)
        found: np.ndarray = kernels.packed_places(self.step, self.place, places, steps, count, batch_first)
        return found


def _rows_of(data: Tensor, batch_sizes: Tensor) -> Rows:
    sizes = batch_sizes.array
    if sizes.dtype != np.int64:
        raise TypeError(f"PackedSequence: batch_sizes is {sizes.dtype}, needs int64")
    if sizes.ndim != 1 or not data.array.ndim:
        raise ValueError(
            f"PackedSequence: batch_sizes.shape={sizes.shape} must have 1 axis, one number per step, and "
            f"data.shape={data.array.shape} at least 1"
        )
    return _rows(to_host(sizes, "the steps of a packed batch").tobytes(), len(data.array))


@lru_cache(maxsize=8)  # packing, a layer and unpacking all need the rows of the same batch
def _rows(batch_sizes: bytes, count: int) -> Rows:
    sizes = [*memoryview(batch_sizes).cast("q")]
    if not sizes or sizes[-1] < 1 or any(after > before for before, after in pairwise(sizes)):
        raise ValueError(
            f"PackedSequence: batch_sizes must be positive numbers that never increase, one per step; it is {sizes}"
        )
    if sum(sizes) != count:
        raise ValueError(f"PackedSequence: batch_sizes adds up to {sum(sizes)} rows, data has {count}")
    rows = Rows(*kernels.packed_rows(from_host(sizes, np.int64)))
    for array in rows:
        array.flags.writeable = False
    return rows


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse of a permutation (N,), int64; None for None.

    Raises:
        TypeError: permutation is not a Tensor of integers.
        ValueError: it is not a permutation of 0 to N - 1.
    """
    if permutation is None:
        return None
    order = as_index("invert_permutation", permutation, "permutation").array
    count = order.size
    inverse = exact("topk")(order, count, 0, False) if order.ndim == 1 and count else order
    why = "whether indices are a permutation"
    if order.ndim != 1 or not same(exact("pick")(order, inverse, 0), arange(count), why):
        raise ValueError(
            f"invert_permutation: permutation of shape {order.shape} must hold each of 0 to N - 1 once; argsort "
            "returns such a tensor"
        )
    return Tensor(kernels.duplicate(inverse))


@operator
def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack the first ``lengths[n]`` steps of each sequence n of a padded batch.

    input: (T, N, \\*), with batch_first (N, T, \\*).
    lengths: N ints from 1 to T, in a list, an array or a Tensor.
    enforce_sorted: require lengths in descending order; if False, the sequences are sorted and ``sorted_indices`` set.

    Raises:
        TypeError: input is not a Tensor, or lengths are not ints.
        ValueError: input has fewer than 2 axes; there are not N lengths, or they are not in 1 to T, or they increase
            with enforce_sorted.
    """
    if interpreters and (seen := interpreted(pack_padded_sequence, locals())) is not None:
        return seen
    require_tensor("pack_padded_sequence", input, "input")
    shape = input.array.shape
    if len(shape) < 2:
        raise ValueError(f"pack_padded_sequence: input.shape={shape}, needs (T, N, *), or (N, T, *) with batch_first")
    count, steps = shape[:2] if batch_first else shape[1::-1]
    counts = _lengths("pack_padded_sequence", lengths)
    if counts.shape != (count,) or not count:
        raise ValueError(
            f"pack_padded_sequence: {len(counts)} lengths for {count} sequences, input.shape={shape} with "
            f"batch_first={batch_first}; pass one length per sequence, and at least one sequence"
        )
    given = integers(counts, "whether lengths are in range and sorted")
    if min(given) < 1 or max(given) > steps:
        raise ValueError(
            f"pack_padded_sequence: lengths are {min(given)} to {max(given)}, but must be 1 to {steps}, the steps "
            "of input; leave empty sequences out"
        )

    order = None
    if enforce_sorted:
        if any(after > before for before, after in pairwise(given)):
            raise ValueError(
                f"pack_padded_sequence: lengths={given} must be in descending order; or pass enforce_sorted=False"
            )
    else:
        order = Tensor(exact("topk")(counts, count, 0, True))
        counts = exact("pick")(counts, order.array, 0)
    sizes = kernels.counts_above(counts)
    flat = reshape(input, count * steps, *shape[2:])
    key = to_host(sizes, "the steps of a packed batch").tobytes()
    rows = _rows(key, sum(given)).padded(order, steps, batch_first)
    data = PickRows.apply(flat, rows)
    return PackedSequence(data, Tensor(sizes), order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return (padded batch, lengths): (T, N, \\*), with batch_first (N, T, \\*), and (N,), in the order before packing.

    padding_value: the value after the end of a sequence.
    total_length: T; by default the longest length.

    Raises:
        TypeError: sequence is not a PackedSequence.
        ValueError: total_length is below the longest length.
    """
    _require_packed("pad_packed_sequence", sequence)
    rows = sequence.rows()
    longest, count = len(sequence.batch_sizes.array), len(rows.lengths)
    steps = longest if total_length is None else as_int("pad_packed_sequence", "total_length", total_length)
    if steps < longest:
        raise ValueError(
            f"pad_packed_sequence: total_length={total_length} must be at least {longest}, the longest length"
        )
    places = rows.padded(sequence.sorted_indices, steps, batch_first)
    filling = as_real("pad_packed_sequence", "padding_value", padding_value)
    padded = PlaceRows.apply(sequence.data, places, steps * count, filling)
    extents = (count, steps) if batch_first else (steps, count)
    return reshape(padded, *extents, *sequence.data.array.shape[1:]), Tensor(sequence.lengths)


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Pad sequences (L_n, \\*) to one batch (T, N, \\*), with batch_first (N, T, \\*), T the largest L_n.

    padding_side: "right", after the end, or "left", before the start.

    Raises:
        TypeError: sequences are not Tensors.
        ValueError: sequences is empty, they differ in more than their length, or padding_side is not one of these.
    """
    if padding_side not in ("right", "left"):
        raise ValueError(f'pad_sequence: padding_side={padding_side!r} must be "right" or "left"')
    tensors = _sequences("pad_sequence", sequences)
    lengths = tuple([len(tensor.array) for tensor in tensors])
    steps, count = max(lengths), len(tensors)
    rows = kernels.sequence_places(lengths, steps, padding_side == "left", bool(batch_first))
    filling = as_real("pad_sequence", "padding_value", padding_value)
    padded = PlaceRows.apply(cat(tensors, 0), rows, steps * count, filling)
    return reshape(padded, *((count, steps) if batch_first else (steps, count)), *tensors[0].array.shape[1:])


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """Return the sequences of a padded batch, each (lengths[n], \\*): the inverse of ``pad_sequence``.

    Raises:
        TypeError: padded_sequences is not a Tensor, or lengths are not ints.
        ValueError: padded_sequences has fewer than 2 axes, or lengths are not N numbers from 0 to T.
    """
    require_tensor("unpad_sequence", padded_sequences, "padded_sequences")
    shape = padded_sequences.array.shape
    if len(shape) < 2:
        raise ValueError(f"unpad_sequence: padded_sequences.shape={shape}, needs (T, N, *), or (N, T, *)")
    batch = padded_sequences if batch_first else transpose(padded_sequences, 0, 1)
    count, steps = batch.array.shape[:2]
    counts = integers(_lengths("unpad_sequence", lengths), "the lengths of sequences")
    if len(counts) != count or (count and (min(counts) < 0 or max(counts) > steps)):
        raise ValueError(
            f"unpad_sequence: lengths={counts} must be {count} numbers from 0 to {steps}, for "
            f"padded_sequences.shape={shape} with batch_first={batch_first}"
        )
    return [batch[n, :length] for n, length in enumerate(counts)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (L_n, \\*) into a PackedSequence; see ``pack_padded_sequence``.

    Raises:
        TypeError: sequences are not Tensors.
        ValueError: there are none, one is empty, they differ in more than their length, or get longer with
            enforce_sorted.
    """
    tensors = _sequences("pack_sequence", sequences)
    lengths = [len(tensor.array) for tensor in tensors]
    try:
        return pack_padded_sequence(pad_sequence(tensors), lengths, False, enforce_sorted)
    except ValueError as error:
        raise ValueError(str(error).replace("pack_padded_sequence", "pack_sequence", 1)) from None


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences (L_n, \\*) of a PackedSequence: the inverse of ``pack_sequence``.

    Raises:
        TypeError: packed_sequences is not a PackedSequence.
    """
    _require_packed("unpack_sequence", packed_sequences)
    return unpad_sequence(*pad_packed_sequence(packed_sequences, True), batch_first=True)


# ---- argument checks ------------------------------------------------------------------------------------------------


def _lengths(name: str, lengths: Any) -> np.ndarray:
    ndim = lengths.ndim if isinstance(lengths, (Tensor, np.ndarray)) else 1
    if ndim != 1:
        raise TypeError(f"{name}: lengths must be a list of ints, got {lengths.dtype} with {ndim} axes")
    return as_counts(name, "lengths", lengths)


def _sequences(name: str, sequences: Any) -> list[Tensor]:
    if isinstance(sequences, Tensor) or not isinstance(sequences, Sequence):
        raise TypeError(f"{name}: sequences must be a list of Tensors, got {kind_name(sequences)}")
    if not sequences:
        raise ValueError(f"{name}: sequences is empty; pass at least one")
    for n, sequence in enumerate(sequences):
        if not isinstance(sequence, Tensor):
            raise TypeError(f"{name}: sequences[{n}] must be a Tensor, got {kind_name(sequence)}")
        array, first = sequence.array, sequences[0].array
        if not array.ndim or array.shape[1:] != first.shape[1:] or array.dtype != first.dtype:
            raise ValueError(
                f"{name}: sequences[{n}] is {array.dtype} {array.shape}, sequences[0] {first.dtype} {first.shape}; "
                "they may differ only in the first extent"
            )
    return list(sequences)


def _require_packed(name: str, sequence: Any) -> None:
    if not isinstance(sequence, PackedSequence):
        raise TypeError(f"{name}: expected a PackedSequence, got {kind_name(sequence)}")
