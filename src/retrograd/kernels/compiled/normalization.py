"""Softmax and batch, layer, RMS, group, and instance normalization."""

from __future__ import annotations

from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from ...formulas.normalization import inverse_deviation
from .machine.launch import Kernel, get_num_threads, kernel
from .machine.plan_tracing import may_overwrite
from .machine.prepared import prepared
from .machine.record import record
from .memory.layout import (
    CHUNK,
    Shape,
    around,
    channels_last,
    column_numbers,
    dense,
    is_channels_last,
    is_dense,
    like,
    memory_axes,
    row_numbers,
    rows_and_columns,
    transposition,
)
from .memory.moves import copy
from .memory.packing import zeros_of
from .moments import MERGED, MOMENTS, SUMS, moments
from .reduction import sum
from .reduction_grad import NORMALIZE, NORMALIZE_GRAD, normalize

__all__ = [
    "batch_norm",
    "batch_norm_grad",
    "batch_norm_input_grad",
    "batch_norm_sums",
    "channel_affine",
    "fixed_scale",
    "group_norm",
    "group_norm_grad",
    "layer_norm",
    "layer_norm_grad",
    "log_softmax",
    "log_softmax_grad",
    "running_statistics",
    "softmax",
    "softmax_grad",
]


# ---- Softmax and its logarithm --------------------------------------------------------------------------------------
# The maximum is subtracted first: it cancels, and no exponential exceeds 1.

Pair = tuple[Kernel, Kernel]  # for an axis that is innermost in memory, and for one that is not
_SOFTMAX, _LOG_SOFTMAX, _SOFTMAX_GRAD, _LOG_SOFTMAX_GRAD = (
    rows_and_columns(f"softmax.{name}") for name in ("softmax", "log_softmax", "softmax_grad", "log_softmax_grad")
)


@prepared
def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    return _forward(_SOFTMAX, x, axis)


@prepared
def softmax_grad(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    return _backward(_SOFTMAX_GRAD, g, y, axis)


@prepared
def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    return _forward(_LOG_SOFTMAX, x, axis)


@prepared
def log_softmax_grad(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    return _backward(_LOG_SOFTMAX_GRAD, g, y, axis)


@lru_cache(maxsize=4096)
def softmax_plan(shape: Shape, strides: Shape, axis: int) -> tuple[bool, int, tuple[int, ...]]:
    """Whether the axis of a dense array is innermost, the tasks and the numbers of the kernel."""
    outer, length, inner = around(shape, strides, axis)
    if 0 in shape:
        return True, 1, (0, 0, 1)
    if inner == 1:
        per_task = CHUNK // length or 1
        return True, -(-outer // per_task), (outer, length, per_task)
    # wide blocks, because long runs of memory are read fastest; but all rows of a block should fit into level 2
    block = min(CHUNK // 32, max(64, 2 * CHUNK // length))
    block = -(-inner // -(-inner // block) // 64) * 64  # of nearly equal width
    width = block * (CHUNK // (block * length) or 1)
    return False, outer * -(-inner // width), (length, inner, width, block)


def _forward(kernels: Pair, x: np.ndarray, axis: int) -> np.ndarray:
    x = dense(x)
    y = may_overwrite(np.empty_like(x), x)
    rows, tasks, numbers = softmax_plan(x.shape, x.strides, axis)
    kernels[0 if rows else 1][x.dtype.char](tasks, x, y, *numbers)
    return y


def _backward(kernels: Pair, g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    y = dense(y)
    gx = np.empty_like(y)
    rows, tasks, numbers = softmax_plan(gx.shape, gx.strides, axis)
    g, y = like(g, gx), like(y, gx)
    kernels[0 if rows else 1][y.dtype.char](tasks, g, y, may_overwrite(gx, g, y), *numbers)
    return gx


# ---- Normalization of dense arrays seen as planes, one for each channel of each sample ------------------------------
# Statistics are computed of pieces of planes and merged into those of groups of channels. With channels last a row is
# one position, or ``repeat`` positions of few channels, so that it fills registers. The pieces depend on the shape
# alone.

STATISTICS, COEFFICIENTS = kernel("normalization.statistics"), kernel("normalization.coefficients")
_CHANNEL_FORWARD, _CHANNEL_BACKWARD = kernel("normalization.channel_forward"), kernel("normalization.channel_backward")
_UNITS, _UNIT = 8, 1 << 18  # for a task to normalize a whole unit: at least as many units, and at most as many elements
_FEW = 64  # positions of a small array
_NARROW = 64  # with fewer contiguous channels, a row has several positions
_REGISTER = 16  # elements of a register, at most

PLANES = record(
    samples=1,
    channels=1,
    groups=1,
    last=1,  # channels are contiguous
    repeat=1,  # positions of a row
    length=1,  # of a column of rows, or of a plane
    parts=1,
    piece=1,  # the number of pieces, and the length of each; the last one may be shorter
    cuts=1,
    width=1,  # tasks of the first pass over a unit, and the columns of each
    per_task=1,  # groups whose statistics one task merges
    shares=1,  # of the tasks of the third pass, one for each thread
)


class _Plan(NamedTuple):
    words: np.ndarray
    units: int  # tasks of one unit each (``normalization_jit.py``); 0: each pass is over all planes
    tasks: int
    numbers: tuple[int, ...]  # of the first pass
    merging: int  # tasks of the second one
    writing: int  # tasks of the third one
    places: tuple[int, ...]  # and its numbers
    pieces: int  # numbers in all pieces
    row: int  # numbers of a row of the table, over all samples
    repeat: int


def normalize_planes(
    x: np.ndarray,
    samples: int,
    channels: int,
    groups: int,
    last: bool,
    weight: np.ndarray,
    bias: np.ndarray,
    eps: float,
) -> tuple[np.ndarray, np.ndarray]:
    """y = (x - mean) / deviation weight + bias in x's order; and the mean, variance and 1 / deviation (3, N, groups).

    x is dense, in the order N, C, positions or (``last``) N, positions, C.
    """
    plan = planes_plan(samples, channels, x.size // (samples * channels), groups, last, 1)
    kind, y, found = x.dtype.char, np.empty_like(x), np.empty((3, samples, groups), x.dtype, like=x)
    pieces, table = np.empty(plan.pieces, x.dtype, like=x), np.empty((3, plan.row), x.dtype, like=x)
    weight, bias = np.ascontiguousarray(weight, like=weight), np.ascontiguousarray(bias, like=bias)
    if plan.units:
        _CHANNEL_FORWARD[kind](plan.units, x, weight, bias, pieces, found, table, y, plan.words, eps)
    else:
        MOMENTS[last][kind](plan.tasks, x, pieces, *plan.numbers, 1.0)
        STATISTICS[kind](plan.merging, pieces, weight, bias, found, table, plan.words, eps)
        mean, factor, shift = table
        NORMALIZE[kind](plan.writing, x, x, mean, factor, shift, shift, y, *plan.places)
    return y, found


def normalize_planes_grad(
    g: np.ndarray,
    x: np.ndarray,
    samples: int,
    channels: int,
    groups: int,
    last: bool,
    weight: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """gx in x's order, and the sums of g and of g z (2, N, C); g has x's layout, mean and inverse are (N, groups)."""
    plan = planes_plan(samples, channels, x.size // (samples * channels), groups, last, 2)
    gx, sums = may_overwrite(np.empty_like(x), g, x), np.empty((2, samples, channels), x.dtype, like=x)
    pieces, table = np.empty(plan.pieces, x.dtype, like=x), np.empty((4, plan.row), x.dtype, like=x)
    kind = x.dtype.char
    weight, mean, inverse = (np.ascontiguousarray(array, like=array) for array in (weight, mean, inverse))
    about = mean
    if groups < channels or plan.repeat > 1:
        about = np.tile(np.repeat(mean.reshape(samples, groups), channels // groups, 1), plan.repeat)
    if plan.units:
        _CHANNEL_BACKWARD[kind](plan.units, g, x, weight, mean, inverse, about, pieces, sums, table, gx, plan.words)
    else:
        SUMS[last][kind](plan.tasks, g, x, about, pieces, *plan.numbers)
        COEFFICIENTS[kind](plan.merging, pieces, weight, mean, inverse, sums, table, plan.words)
        NORMALIZE_GRAD[kind](plan.writing, g, x, *table, gx, *plan.places)
    return gx, sums


def columns_sums(g: np.ndarray, x: np.ndarray, channels: int, mean: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """The sums of g and of g z (2, C); channels are last in the memory of g and x."""
    plan = planes_plan(1, channels, x.size // channels, channels, True, 2)
    kind, sums = x.dtype.char, np.empty((2, 1, channels), x.dtype, like=x)
    pieces = np.empty(plan.pieces, x.dtype, like=x)
    table = np.empty((4, plan.row), x.dtype, like=x)  # not used
    mean, inverse = np.ascontiguousarray(mean, like=mean), np.ascontiguousarray(inverse, like=inverse)
    SUMS[True][kind](plan.tasks, g, x, np.tile(mean, plan.repeat), pieces, *plan.numbers)
    COEFFICIENTS[kind](plan.merging, pieces, np.ones(channels, x.dtype, like=x), mean, inverse, sums, table, plan.words)
    return sums[:, 0]


def columns_grad(g: np.ndarray, x: np.ndarray, channels: int, numbers: tuple[np.ndarray, ...]) -> np.ndarray:
    """g factor + (x - mean) slope + level in x's order; numbers: mean, factor, slope and level of each channel, which
    are last in the memory of g and x."""
    plan = planes_plan(1, channels, x.size // channels, channels, True, 2)
    gx, table = may_overwrite(np.empty_like(x), g, x), np.empty((4, plan.repeat, channels), x.dtype, like=x)
    for row, values in zip(table, numbers, strict=True):
        row[...] = values
    NORMALIZE_GRAD[x.dtype.char](plan.writing, g, x, *table, gx, *plan.places)
    return gx


def affine_columns(
    x: np.ndarray, channels: int, scale: np.ndarray, shift: np.ndarray, about: np.ndarray | None
) -> np.ndarray:
    """(x - about) scale + shift per channel; channels are last in the memory of x."""
    y, kind, n = np.empty_like(x), x.dtype.char, x.size
    if about is None:
        about = zeros_of(channels, kind)
    if n <= _FEW * channels <= CHUNK:  # a task whose short rows take less time than repeated coefficients
        mean, factor, level = (np.ascontiguousarray(row, like=row) for row in (about, scale, shift))
        NORMALIZE[kind](1, x, x, mean, factor, level, level, y, n, channels, n // channels, _FEW, channels, 0, 1, 1)
        return y
    plan = planes_plan(1, channels, n // channels, channels, True, 1)
    if plan.repeat > 1:
        table = np.empty((3, plan.repeat, channels), x.dtype, like=x)
        table[0], table[1], table[2] = about, scale, shift
        mean, factor, level = table
    else:
        mean, factor, level = (np.ascontiguousarray(row, like=row) for row in (about, scale, shift))
    NORMALIZE[kind](plan.writing, x, x, mean, factor, level, level, y, *plan.places)
    return y


def planes_plan(samples: int, channels: int, positions: int, groups: int, last: bool, arrays: int) -> _Plan:
    """The pieces of planes, and whether each unit (``normalization_jit.py``) is normalized by one task.

    That requires units whose ``arrays`` that are read twice fit into a cache, and enough of them for all threads; or so
    few elements that one task does it all.
    """
    return _planes_plan(samples, channels, positions, groups, last, arrays, get_num_threads())


@lru_cache(maxsize=4096)
def _planes_plan(
    samples: int, channels: int, positions: int, groups: int, last: bool, arrays: int, shares: int
) -> _Plan:
    size, repeat = channels // groups, 1
    numbers: tuple[int, ...]
    if last:
        repeat = gcd(positions, _positions_of_row(channels))
        length, row = positions // repeat, channels * repeat
        cuts, parts, numbers = column_numbers(1, length, row)
        piece, width = numbers[3:]
        tasks, units, unit = samples * cuts, samples, (row, length)
        places = samples * positions * channels, row, length, CHUNK // row or 1, row, 0, 1, shares
    else:
        length, row = positions, channels
        tasks, parts, numbers = row_numbers(samples * channels, length)
        cuts, piece, width = 1, length if parts == 1 else CHUNK, 0
        units, unit = samples * groups, (size, length)
        places = samples * channels * length, length, samples * channels, CHUNK // length or 1, 0, 1, 0, shares
    elements = unit[0] * unit[1]
    if not (tasks == units == 1 or (arrays * elements < _UNIT and units >= _UNITS)):
        units = 0
    if units:
        per_task = groups if last else 1
    elif last and size == 1:
        per_task = MERGED
    else:
        each = size * parts * repeat  # pieces of a group; whole samples if channels are last
        per_task = groups * (CHUNK // (groups * each) or 1) if last else CHUNK // each or 1
    words = PLANES.pack(
        samples=samples,
        channels=channels,
        groups=groups,
        last=int(last),
        repeat=repeat,
        length=length,
        parts=parts,
        piece=piece,
        cuts=cuts,
        width=width,
        per_task=per_task,
        shares=shares,
    )
    writing = -(-places[0] // (places[1] * places[3]))
    merging = -(-samples * groups // per_task)
    return _Plan(
        words, units, tasks, numbers, merging, writing, places, 2 * samples * parts * row, samples * row, repeat
    )


def _positions_of_row(channels: int) -> int:
    """The positions of a row that fills whole registers and has at least _NARROW columns."""
    repeat = 1
    while repeat < _NARROW and channels < _NARROW and (channels * repeat < _NARROW or channels * repeat % _REGISTER):
        repeat *= 2
    return repeat


# ---- Rows that are normalized one by one: short ones from the cache, long ones in pieces ----------------------------
# For rows longer than a task, statistics are computed of pieces first. Then a task is some adjacent columns of all
# rows, so that their part of weight and bias, and of the gradients of these, stays in the cache.

_ROW_FORWARD, _ROW_BACKWARD = kernel("normalization.row_forward"), kernel("normalization.row_backward")
_LONG_SUMS, _LONG_GRAD = kernel("normalization.long_sums"), kernel("normalization.long_input_grad")
COLUMNS, ROWS = 2048, 64  # of a task on long rows, at most
LONG, FEW = 1 << 18, 8  # rows up to LONG stay in the cache for three reads; FEW keep all threads busy
Three = tuple[np.ndarray, np.ndarray, np.ndarray]


def normalize_rows(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, groups: int, eps: float, centered: bool
) -> Three:
    """(x - mean) inverse weight + bias, mean, inverse; row r uses part r % groups of weight and bias."""
    rows, length = x.shape
    kind = x.dtype.char
    if groups == 1 and rows and (length > LONG or (length > CHUNK and rows < FEW)):
        mean, squares = moments(x, (1,))
        with np.errstate(all="ignore"):
            squares = squares.astype(np.float64)
            if not centered:
                squares, mean = squares + length * np.square(mean, dtype=np.float64), np.zeros_like(mean)
            inverse = inverse_deviation(squares / length, eps).astype(x.dtype)
        z = normalize(x, mean, inverse, np.zeros_like(mean))
        y = normalize(z, np.zeros((1, length), x.dtype, like=x), weight[np.newaxis], bias[np.newaxis])
        return y, mean.reshape(rows), inverse.reshape(rows)
    y, mean, inverse = np.empty_like(x), np.empty(rows, x.dtype, like=x), np.empty(rows, x.dtype, like=x)
    if x.size:
        tasks, per_task = _tasks(rows, length)
        _ROW_FORWARD[kind](tasks, x, weight, bias, y, mean, inverse, rows, length, groups, per_task, int(centered), eps)
    else:
        mean.fill(np.nan if centered else 0)  # empty rows
        inverse.fill(np.nan)
    return y, mean, inverse


def normalize_rows_grad(
    g: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    groups: int,
    centered: bool,
    affine: bool,
) -> Three:
    """The gradients to x, weight and bias; without ``affine`` the last two are zeros."""
    rows, length = x.shape
    kind = x.dtype.char
    gx = may_overwrite(np.empty_like(x), g, x)
    if not x.size:
        return gx, np.zeros_like(weight), np.zeros_like(weight)
    mean, inverse = np.ascontiguousarray(mean, like=mean), np.ascontiguousarray(inverse, like=inverse)
    if length > CHUNK and groups == 1:
        parts, blocks = -(-length // COLUMNS), -(-rows // ROWS)
        of_rows = np.empty((rows, parts, 2), x.dtype, like=x)
        sums = np.empty((blocks, 2, length) if affine else (1, 2, 1), x.dtype, like=x)
        _LONG_SUMS[kind](blocks * parts, g, x, weight, mean, inverse, of_rows, sums, rows, length, parts, int(affine))
        means = (of_rows.sum(1, np.float64) / length).astype(x.dtype)  # of h and of h z
        if not centered:
            means[:, 0] = 0
        _LONG_GRAD[kind](parts, g, x, weight, mean, inverse, means, gx, rows, length)
    else:
        tasks, per_task = _tasks(rows, length)
        if per_task > ROWS:  # short sums of rows, which are then added
            per_task = per_task // ROWS * ROWS
        per_piece = min(per_task, ROWS)
        tasks = -(-rows // per_task)
        sums = np.empty((-(-rows // per_piece), 2, groups * length) if affine else (1, 2, 1), x.dtype, like=x)
        _ROW_BACKWARD[kind](
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
            int(centered),
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


# ---- Batch normalization over channels-last memory: statistics per channel, over all positions ----------------------


@prepared
def batch_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float) -> tuple[np.ndarray, ...]:
    x, channels = channels_last(x), x.shape[1]
    if not x.size:
        return np.empty_like(x), *(np.full(channels, np.nan, x.dtype, like=x) for _ in range(3))
    y, found = normalize_planes(x, 1, channels, channels, True, weight, bias, eps)
    return y, *found[:, 0]


@prepared
def batch_norm_grad(g: np.ndarray, x: np.ndarray, weight: np.ndarray, mean: np.ndarray, inverse: np.ndarray) -> Three:
    g, x, channels = channels_last(g), channels_last(x), x.shape[1]
    if not x.size:
        return np.empty_like(x), np.zeros(channels, x.dtype, like=x), np.zeros(channels, x.dtype, like=x)
    gx, sums = normalize_planes_grad(g, x, 1, channels, channels, True, weight, mean, inverse)
    return gx, sums[1, 0], sums[0, 0]


@prepared
def batch_norm_sums(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, inverse: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    g, x, channels = channels_last(g), channels_last(x), x.shape[1]
    if not x.size:
        return np.zeros(channels, x.dtype, like=x), np.zeros(channels, x.dtype, like=x)
    sums = columns_sums(g, x, channels, mean, inverse)
    return sums[0], sums[1]


@prepared
def batch_norm_input_grad(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, factor: np.ndarray, slope: np.ndarray, level: np.ndarray
) -> np.ndarray:
    g, x = channels_last(g), channels_last(x)
    return columns_grad(g, x, x.shape[1], (mean, factor, slope, level)) if x.size else np.empty_like(x)


@prepared
def channel_affine(x: np.ndarray, scale: np.ndarray, shift: np.ndarray, mean: np.ndarray | None = None) -> np.ndarray:
    x = channels_last(x)
    return affine_columns(x, x.shape[1], scale, shift, mean) if x.size else np.empty_like(x)


_FIXED_SCALE, _RUNNING = kernel("normalization.fixed_scale"), kernel("normalization.running_statistics")


@prepared
def fixed_scale(
    mean: np.ndarray, variance: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray]:
    scale, shift = np.empty_like(mean), np.empty_like(mean)
    if not (mean.flags.c_contiguous and variance.flags.c_contiguous):
        mean, variance = np.ascontiguousarray(mean, like=mean), np.ascontiguousarray(variance, like=mean)
    if not (weight.flags.c_contiguous and bias.flags.c_contiguous):
        weight, bias = np.ascontiguousarray(weight, like=mean), np.ascontiguousarray(bias, like=mean)
    _FIXED_SCALE[mean.dtype.char](1, mean, variance, weight, bias, scale, shift, mean.size, eps)
    return scale, shift


def running_statistics(
    running: tuple[np.ndarray, np.ndarray], mean: np.ndarray, variance: np.ndarray, momentum: float, factor: float
) -> None:
    given = *running, mean, variance
    dense = [each if each.flags.c_contiguous else np.ascontiguousarray(each, like=each) for each in given]
    _RUNNING[mean.dtype.char](1, *dense, mean.size, momentum, factor)
    for old, new in zip(running, dense, strict=False):
        if new is not old:
            copy(old, new)


# ---- Layer, root-mean-square, group and instance normalization: every sample has separate statistics ----------------
# Without positions (layer norm: a sample is a row) rows are normalized one by one, from the cache. With them,
# statistics are computed per channel of each sample, in C order or channels-last, and merged into those of groups.


@prepared
def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float, centered: bool) -> Three:
    if weight.ndim == 1 and x.ndim == 2 and x.flags.c_contiguous:  # already rows
        return normalize_rows(x, _flat(weight, (0,)), _flat(bias, (0,)), 1, eps, centered)
    outer = x.shape[: -weight.ndim]
    order, back, own = _orders(x.shape, x.strides, x.itemsize, weight.ndim)
    seen = np.ascontiguousarray(x.transpose(order), like=x)
    rows = seen.reshape(prod(outer), weight.size)
    y, mean, inverse = normalize_rows(rows, _flat(weight, own), _flat(bias, own), 1, eps, centered)
    return y.reshape(seen.shape).transpose(back), mean.reshape(outer), inverse.reshape(outer)


@prepared
def layer_norm_grad(
    g: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    centered: bool,
    affine: bool,
) -> Three:
    if weight.ndim == 1 and x.ndim == 2 and x.flags.c_contiguous and g.flags.c_contiguous:
        return normalize_rows_grad(g, x, _flat(weight, (0,)), mean, inverse, 1, centered, affine)
    order, back, own = _orders(x.shape, x.strides, x.itemsize, weight.ndim)
    seen = np.ascontiguousarray(x.transpose(order), like=x)
    shape = prod(x.shape[: -weight.ndim]), weight.size
    rows, g = seen.reshape(shape), np.ascontiguousarray(g.transpose(order), like=g).reshape(shape)
    gx, gweight, gbias = normalize_rows_grad(g, rows, _flat(weight, own), mean, inverse, 1, centered, affine)
    extents = tuple(weight.shape[axis] for axis in own)
    gweight, gbias = (row.reshape(extents).transpose(transposition(own) or own) for row in (gweight, gbias))
    return gx.reshape(seen.shape).transpose(back), gweight, gbias


@prepared
def group_norm(x: np.ndarray, groups: int, weight: np.ndarray, bias: np.ndarray, eps: float) -> Three:
    N, C = x.shape[:2]
    positions = prod(x.shape[2:])
    if positions == 1 or not x.size:
        rows = np.ascontiguousarray(x, like=x).reshape(N * groups, C * positions // groups)
        y, mean, inverse = normalize_rows(rows, _flat(weight, (0,)), _flat(bias, (0,)), groups, eps, True)
        return y.reshape(x.shape), mean.reshape(N, groups), inverse.reshape(N, groups)
    x = x if (last := _last(x)) else np.ascontiguousarray(x, like=x)
    y, found = normalize_planes(x, N, C, groups, last, weight, bias, eps)
    return y, found[0], found[2]


@prepared
def group_norm_grad(
    g: np.ndarray, x: np.ndarray, groups: int, weight: np.ndarray, mean: np.ndarray, inverse: np.ndarray
) -> Three:
    N, C = x.shape[:2]
    positions = prod(x.shape[2:])
    if positions == 1 or not x.size:
        shape = N * groups, C * positions // groups
        g, rows = np.ascontiguousarray(g, like=g).reshape(shape), np.ascontiguousarray(x, like=x).reshape(shape)
        gx, gweight, gbias = normalize_rows_grad(g, rows, _flat(weight, (0,)), mean, inverse, groups, True, True)
        return gx.reshape(x.shape), gweight, gbias
    x = x if (last := _last(x)) else np.ascontiguousarray(x, like=x)
    g = like(channels_last(g) if last else g, x)
    gx, sums = normalize_planes_grad(g, x, N, C, groups, last, weight, mean, inverse)
    gbias, gweight = sum(sums, (1,), False)
    return gx, gweight, gbias


@lru_cache(maxsize=4096)
def _orders(shape: Shape, strides: Shape, size: int, count: int) -> tuple[Shape, Shape, Shape]:
    """The order of axes in which x becomes rows, its inverse, and the order of the last ``count`` axes among them.

    Rows may be in any memory order, provided that each is contiguous.
    """
    outer = len(shape) - count
    order = memory_axes(shape, strides)
    if not is_dense(shape, strides, size) or order[:outer] != tuple(range(outer)):
        order = tuple(range(len(shape)))
    return order, transposition(order) or order, tuple(axis - outer for axis in order[outer:])


def _flat(weight: np.ndarray, order: Shape) -> np.ndarray:
    """The elements of weight with its axes in another order."""
    if len(order) == 1 and weight.flags.c_contiguous:
        return weight
    if len(order) > 1 and order == (*range(1, len(order)), 0) and weight.flags.c_contiguous:
        return channels_last(weight[np.newaxis]).transpose(0, *range(2, weight.ndim + 1), 1).reshape(-1)
    return np.ascontiguousarray(weight.transpose(order), like=weight).reshape(-1)


def _last(x: np.ndarray) -> bool:
    return is_channels_last(x.shape, x.strides, x.itemsize)
