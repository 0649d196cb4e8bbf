"""The operands that the forward and the backward pass of a recurrent layer prepare; see ``forward.py``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ....specs.recurrence import Recurrence, Weights
from ..machine.launch import kernel
from ..memory.packing import zeros_of
from .plan import Packed, Plan

__all__ = ["Saved", "all_steps", "contiguous", "padded_peepholes", "pack_columns", "pack_rows", "shared_state"]

_PACK_COLUMNS, _PACK_ROWS = kernel("recurrent.products.pack_columns"), kernel("recurrent.products.pack_rows")
_NO_INTEGERS = np.zeros(8, np.int64)


class Saved(NamedTuple):
    """The saved tensors of the backward pass."""

    gates: np.ndarray | None  # [direction][panel][t][n][slot][unit]; a plain RNN needs only h
    h: np.ndarray  # (D, T+1, N, P)
    c: np.ndarray | None  # (D, T+1, N, padded units)
    u: np.ndarray | None  # (D, T, N, padded units): the input of a projection


def pack_columns(
    matrices: Sequence[np.ndarray],
    to: Packed,
    packed: np.ndarray,
    words: np.ndarray,
    biases: Sequence[Any] = (),
    init: np.ndarray | None = None,
    kind: int = 0,
    slots: int = 0,
) -> None:
    """Pack a matrix of each direction for products with its transpose; with ``init`` also their initial row.

    ``biases``: a pair for each direction; ``kind``: of the compiled kernel; ``slots``: of a panel of ``init``.
    """
    dtype = packed.dtype.char
    row = 0 if init is None else init.size // len(matrices)
    for d, matrix in enumerate(matrices):
        b, b_too = biases[d] if biases else (packed, packed)
        _PACK_COLUMNS[dtype](
            to.tasks,
            matrix,
            packed[d * to.step :] if d else packed,
            b,
            b_too,
            packed if init is None else init[d * row :] if d else init,
            *to.arguments,
            kind,
            slots,
            words,
        )


def pack_rows(matrices: Sequence[np.ndarray], to: Packed, packed: np.ndarray, words: np.ndarray) -> None:
    """Pack a matrix of each direction for products with itself."""
    dtype = packed.dtype.char
    for d, matrix in enumerate(matrices):
        _PACK_ROWS[dtype](to.tasks, matrix, packed[d * to.step :] if d else packed, *to.arguments, words)


def contiguous(weights: Weights) -> Weights:
    for array in weights:
        if array is not None and not array.flags.c_contiguous:
            return Weights(*(None if array is None else np.ascontiguousarray(array, like=array) for array in weights))
    return weights


def padded_peepholes(weights: Sequence[Weights], spec: Recurrence, plan: Plan, x: np.ndarray) -> np.ndarray:
    """The peepholes, padded to whole panels."""
    if not spec.peephole:
        return zeros_of(1, x.dtype.char)
    filled = np.zeros((spec.directions, 3, plan.padded), x.dtype, like=x)
    for d, weight in enumerate(weights):
        filled[d, : spec.gates - 1, : spec.hidden] = weight.peephole
    return filled


@lru_cache(maxsize=64)
def all_steps(steps: int, rows: int) -> np.ndarray:
    """Lengths of full sequences; read-only."""
    return np.full(rows, steps, np.int64)


def shared_state(plan: Plan, x: np.ndarray) -> np.ndarray:
    """The blocks that the tasks of a chain have claimed and finished, for one call."""
    return np.zeros(plan.state, np.int64, like=x) if plan.columns > 1 else _NO_INTEGERS
