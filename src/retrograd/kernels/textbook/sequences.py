"""Sequences in batches: lengths, padding, packing, and causal masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "causal_mask",
    "counts_above",
    "inverse_lengths",
    "lengths_within",
    "packed_places",
    "packed_rows",
    "pad_rows",
    "row_labels_outside",
    "sequence_places",
    "steps_after",
]


# ---- Lengths of sequences in int64: (N,), one for each sequence of a batch ------------------------------------------


def steps_after(lengths: np.ndarray, steps: int) -> np.ndarray:
    """(T, N, 1) bool: True where step t is past the end of sequence n."""
    return np.arange(steps, like=lengths)[:, None, None] >= lengths[:, None]


def lengths_within(lengths: np.ndarray, first: int, last: int) -> np.ndarray:
    """The lengths of the parts from step ``first`` to ``last``: 0 if a sequence has ended before."""
    return np.clip(lengths - first, 0, last - first)


def inverse_lengths(lengths: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """1 / max(length, 1), in this type."""
    return (1.0 / np.maximum(lengths, 1)).astype(dtype)


def pad_rows(values: np.ndarray, lengths: np.ndarray, longest: int) -> np.ndarray:
    """Concatenated rows as a matrix, padded with zeros: (sum of lengths,) -> (N, longest)"""
    rows = np.zeros((len(lengths), longest), values.dtype, like=values)
    rows[np.arange(longest, like=lengths) < lengths[:, None]] = values
    return rows


def row_labels_outside(rows: np.ndarray, lengths: np.ndarray, classes: int) -> np.ndarray:
    """True where a label in rows (N, S), within the length of its row, is not a class, 0 to ``classes`` - 1."""
    used = np.arange(rows.shape[1], like=rows) < lengths[:, None]
    outside: np.ndarray = used & ((rows < 0) | (rows >= classes))
    return outside


# ---- Step positions of sequences in padded batches and in batches packed without padding ----------------------------


def causal_mask(count: int, dtype: np.dtype[Any]) -> np.ndarray:
    """(count, count): -inf, or True for a boolean dtype, for the keys after a query; 0 for the others."""
    return np.triu(np.full((count, count), True if dtype == np.bool_ else -np.inf, dtype), 1)


def counts_above(counts: np.ndarray) -> np.ndarray:
    """y[n] = how many of the counts, which never increase, are above n, for n from 0 to the first count; int64."""
    return np.searchsorted(-counts, -np.arange(counts[0], like=counts))


def packed_rows(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For a packed batch, whose step t has sizes[t] sequences: the step of each row, the index of its sequence among
    those sorted by length, and the length of each sequence.
    """
    step = np.repeat(np.arange(len(sizes), like=sizes), sizes)
    place = np.arange(len(step), like=sizes) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return step, place, counts_above(sizes)


def packed_places(
    step: np.ndarray, place: np.ndarray, order: np.ndarray | None, steps: int, count: int, batch_first: bool
) -> np.ndarray:
    """The flat position of each row of a packed batch in a padded one of ``count`` sequences and ``steps`` steps.

    step, place: from ``packed_rows``; order (N,): the sequence at each place; None: 0, 1, 2, ...
    """
    sequence = place if order is None else order[place]
    return sequence * steps + step if batch_first else step * count + sequence


def sequence_places(lengths: Sequence[int], steps: int, on_left: bool, batch_first: bool) -> np.ndarray:
    """The flat position of each step of sequences, one after the other, in a batch padded to ``steps`` steps.

    on_left: the padding stands before the sequences.
    """
    extents, count = np.array(lengths), len(lengths)
    starts = steps - extents if on_left else np.zeros(count, np.int64)
    sequence = np.repeat(np.arange(count), extents)
    step = np.arange(extents.sum()) - np.repeat(np.cumsum(extents) - extents - starts, extents)
    return sequence * steps + step if batch_first else step * count + sequence
