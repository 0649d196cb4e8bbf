"""Rows that are normalised one by one: short ones from the cache, long ones in pieces.

For rows longer than a task, statistics are computed of pieces first. Then a task is some adjacent columns of all rows,
so that their part of weight and bias, and of the gradients of these, stays in the cache.
"""

from __future__ import annotations

import numpy as np

from ....formulas.normalization import inverse_deviation
from ..machine.launch import kernel
from ..memory.arrays import CHUNK
from ..reduction.moments import moments
from ..reduction.reduction import sum
from ..reduction.spread import normalise

_FORWARD, _BACKWARD = kernel("normalization.row_norm.forward"), kernel("normalization.row_norm.backward")
_LONG_SUMS, _LONG_GRAD = kernel("normalization.row_norm.long_sums"), kernel("normalization.row_norm.long_input_grad")
COLUMNS, ROWS = 2048, 64  # of a task on long rows, at most
LONG, FEW = 1 << 18, 8  # rows up to LONG stay in the cache for three reads; FEW keep all threads busy
Three = tuple[np.ndarray, np.ndarray, np.ndarray]


def normalise_rows(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, groups: int, eps: float, centred: bool
) -> Three:
    """(x - mean) inverse weight + bias, mean, inverse; row r uses part r % groups of weight and bias."""
    rows, length = x.shape
    kind = x.dtype.char
    if groups == 1 and rows and (length > LONG or (length > CHUNK and rows < FEW)):
        mean, squares = moments(x, (1,))
        with np.errstate(all="ignore"):
            squares = squares.astype(np.float64)
            if not centred:
                squares, mean = squares + length * np.square(mean, dtype=np.float64), np.zeros_like(mean)
            inverse = inverse_deviation(squares / length, eps).astype(x.dtype)
        z = normalise(x, mean, inverse, np.zeros_like(mean))
        y = normalise(z, np.zeros((1, length), x.dtype, like=x), weight[np.newaxis], bias[np.newaxis])
        return y, mean.reshape(rows), inverse.reshape(rows)
    y, mean, inverse = np.empty_like(x), np.empty(rows, x.dtype, like=x), np.empty(rows, x.dtype, like=x)
    if x.size:
        tasks, per_task = _tasks(rows, length)
        _FORWARD[kind](tasks, x, weight, bias, y, mean, inverse, rows, length, groups, per_task, int(centred), eps)
    else:
        mean.fill(np.nan if centred else 0)  # empty rows
        inverse.fill(np.nan)
    return y, mean, inverse


def normalise_rows_grad(
    g: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    groups: int,
    centred: bool,
    affine: bool,
) -> Three:
    """The gradients to x, weight and bias; without ``affine`` the last two are zeros."""
    rows, length = x.shape
    kind = x.dtype.char
    gx = np.empty_like(x)
    if not x.size:
        return gx, np.zeros_like(weight), np.zeros_like(weight)
    mean, inverse = np.ascontiguousarray(mean, like=mean), np.ascontiguousarray(inverse, like=inverse)
    if length > CHUNK and groups == 1:
        parts, blocks = -(-length // COLUMNS), -(-rows // ROWS)
        of_rows = np.empty((rows, parts, 2), x.dtype, like=x)
        sums = np.empty((blocks, 2, length) if affine else (1, 2, 1), x.dtype, like=x)
        _LONG_SUMS[kind](blocks * parts, g, x, weight, mean, inverse, of_rows, sums, rows, length, parts, int(affine))
        means = (of_rows.sum(1, np.float64) / length).astype(x.dtype)  # of h and of h z
        if not centred:
            means[:, 0] = 0
        _LONG_GRAD[kind](parts, g, x, weight, mean, inverse, means, gx, rows, length)
    else:
        tasks, per_task = _tasks(rows, length)
        if per_task > ROWS:  # short sums of rows, which are then added
            per_task = per_task // ROWS * ROWS
        per_piece = min(per_task, ROWS)
        tasks = -(-rows // per_task)
        sums = np.empty((-(-rows // per_piece), 2, groups * length) if affine else (1, 2, 1), x.dtype, like=x)
        _BACKWARD[kind](
            tasks,
            g,
            x,
            weight,
            mean,
            inverse,
            gx,
            sums,
            rows,
            length,
            groups,
            per_task,
            per_piece,
            int(centred),
            int(affine),
        )
    if not affine:
        return gx, np.zeros_like(weight), np.zeros_like(weight)
    gweight, gbias = sums[0] if len(sums) == 1 else sum(sums, (0,), False)
    return gx, gweight, gbias


def _tasks(rows: int, length: int) -> tuple[int, int]:
    """Tasks and rows per task."""
    per_task = CHUNK // length or 1
    return -(-rows // per_task), per_task
