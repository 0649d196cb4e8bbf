"""Lengths of sequences in int64: (N,), one for each sequence of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["inverse_lengths", "lengths_within", "pad_rows", "row_labels_outside", "steps_after"]


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
    """Concatenated rows one below the other, with zeros behind their ends: (sum of lengths,) -> (N, longest)"""
    rows = np.zeros((len(lengths), longest), values.dtype, like=values)
    rows[np.arange(longest, like=lengths) < lengths[:, None]] = values
    return rows


def row_labels_outside(rows: np.ndarray, lengths: np.ndarray, classes: int) -> np.ndarray:
    """True where a label in rows (N, S), within the length of its row, is not a class, 0 to ``classes`` - 1."""
    used = np.arange(rows.shape[1], like=rows) < lengths[:, None]
    outside: np.ndarray = used & ((rows < 0) | (rows >= classes))
    return outside
