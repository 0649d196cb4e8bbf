"""Normalisation of dense arrays seen as planes, one for each channel of each sample.

Statistics are computed of pieces of planes and merged into those of groups of channels. With channels last a row is one
position, or ``repeat`` positions of few channels, so that it fills registers. The pieces depend on the shape alone.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import NamedTuple

import numpy as np

from ..machine.launch import kernel
from ..machine.record import record
from ..memory.arrays import CHUNK
from ..memory.axes import column_numbers, row_numbers
from ..reduction.moments import MERGED, MOMENTS, SUMS
from ..reduction.spread import NORMALISE, NORMALISE_GRAD

__all__: list[str] = []

_STATISTICS, _COEFFICIENTS = kernel("normalization.planes.statistics"), kernel("normalization.planes.coefficients")
_FORWARD, _BACKWARD = kernel("normalization.planes.forward"), kernel("normalization.planes.backward")
_UNITS, _UNIT = 8, 1 << 18  # for a task to normalise a whole unit: at least as many units, and at most as many elements
_NARROW = 64  # with fewer contiguous channels, a row has several positions

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
)


class _Plan(NamedTuple):
    words: np.ndarray
    units: int  # tasks of one unit each (``planes_jit.py``); 0: each pass is over all planes
    tasks: int
    numbers: tuple[int, ...]  # of the first pass
    merging: int  # tasks of the second one
    writing: int  # tasks of the third one
    places: tuple[int, ...]  # and its numbers
    pieces: int  # numbers in all pieces
    row: int  # numbers of a row of the table, over all samples
    repeat: int


def normalise_planes(
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
    plan = _plan(samples, channels, x.size // (samples * channels), groups, last, 1)
    kind, y, found = x.dtype.char, np.empty_like(x), np.empty((3, samples, groups), x.dtype, like=x)
    pieces, table = np.empty(plan.pieces, x.dtype, like=x), np.empty((3, plan.row), x.dtype, like=x)
    weight, bias = np.ascontiguousarray(weight, like=weight), np.ascontiguousarray(bias, like=bias)
    if plan.units:
        _FORWARD[kind](plan.units, x, weight, bias, pieces, found, table, y, plan.words, eps)
    else:
        MOMENTS[last][kind](plan.tasks, x, pieces, *plan.numbers, 1.0)
        _STATISTICS[kind](plan.merging, pieces, weight, bias, found, table, plan.words, eps)
        mean, factor, shift = table
        NORMALISE[kind](plan.writing, x, x, mean, factor, shift, shift, y, *plan.places)
    return y, found


def normalise_planes_grad(
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
    plan = _plan(samples, channels, x.size // (samples * channels), groups, last, 2)
    kind, gx, sums = x.dtype.char, np.empty_like(x), np.empty((2, samples, channels), x.dtype, like=x)
    pieces, table = np.empty(plan.pieces, x.dtype, like=x), np.empty((4, plan.row), x.dtype, like=x)
    weight, mean, inverse = (np.ascontiguousarray(array, like=array) for array in (weight, mean, inverse))
    about = mean
    if groups < channels or plan.repeat > 1:
        about = np.tile(np.repeat(mean.reshape(samples, groups), channels // groups, 1), plan.repeat)
    if plan.units:
        _BACKWARD[kind](plan.units, g, x, weight, mean, inverse, about, pieces, sums, table, gx, plan.words)
    else:
        SUMS[last][kind](plan.tasks, g, x, about, pieces, *plan.numbers)
        _COEFFICIENTS[kind](plan.merging, pieces, weight, mean, inverse, sums, table, plan.words)
        NORMALISE_GRAD[kind](plan.writing, g, x, *table, gx, *plan.places)
    return gx, sums


def columns_sums(g: np.ndarray, x: np.ndarray, channels: int, mean: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """The sums of g and of g z (2, C); channels are last in the memory of g and x."""
    plan = _plan(1, channels, x.size // channels, channels, True, 2)
    kind, sums = x.dtype.char, np.empty((2, 1, channels), x.dtype, like=x)
    pieces = np.empty(plan.pieces, x.dtype, like=x)
    table = np.empty((4, plan.row), x.dtype, like=x)  # not used
    mean, inverse = np.ascontiguousarray(mean, like=mean), np.ascontiguousarray(inverse, like=inverse)
    SUMS[True][kind](plan.tasks, g, x, np.tile(mean, plan.repeat), pieces, *plan.numbers)
    _COEFFICIENTS[kind](
        plan.merging, pieces, np.ones(channels, x.dtype, like=x), mean, inverse, sums, table, plan.words
    )
    return sums[:, 0]


def columns_grad(g: np.ndarray, x: np.ndarray, channels: int, numbers: tuple[np.ndarray, ...]) -> np.ndarray:
    """g factor + (x - mean) slope + level in x's order; numbers: mean, factor, slope and level of each channel, which
    are last in the memory of g and x."""
    plan = _plan(1, channels, x.size // channels, channels, True, 2)
    gx, table = np.empty_like(x), np.empty((4, plan.repeat, channels), x.dtype, like=x)
    for row, values in zip(table, numbers, strict=True):
        row[...] = values
    NORMALISE_GRAD[x.dtype.char](plan.writing, g, x, *table, gx, *plan.places)
    return gx


def affine_columns(
    x: np.ndarray, channels: int, scale: np.ndarray, shift: np.ndarray, about: np.ndarray | None
) -> np.ndarray:
    """(x - about) scale + shift per channel; channels are last in the memory of x."""
    plan = _plan(1, channels, x.size // channels, channels, True, 1)
    y, table = np.empty_like(x), np.empty((3, plan.repeat, channels), x.dtype, like=x)
    table[0], table[1], table[2] = 0 if about is None else about, scale, shift
    mean, factor, level = table
    NORMALISE[x.dtype.char](plan.writing, x, x, mean, factor, level, level, y, *plan.places)
    return y


@lru_cache(maxsize=4096)
def _plan(samples: int, channels: int, positions: int, groups: int, last: bool, arrays: int) -> _Plan:
    """The pieces of planes, and whether each unit (``planes_jit.py``) is normalised by one task.

    That requires units whose ``arrays`` that are read twice fit into a cache, and enough of them for all threads; or so
    few elements that one task does it all.
    """
    size, repeat = channels // groups, 1
    numbers: tuple[int, ...]
    if last:
        # 16 positions fill whole registers of any type; four registers at a time hide the latency of an addition
        repeat = gcd(positions, 64 if channels < 4 else 16 if channels < _NARROW else 1)
        length, row = positions // repeat, channels * repeat
        cuts, parts, numbers = column_numbers(1, length, row)
        piece, width = numbers[3:]
        tasks, units, unit = samples * cuts, samples, (row, length)
        places = samples * positions * channels, row, length, CHUNK // row or 1, row, 0, 1
    else:
        length, row = positions, channels
        tasks, parts, numbers = row_numbers(samples * channels, length)
        cuts, piece, width = 1, length if parts == 1 else CHUNK, 0
        units, unit = samples * groups, (size, length)
        places = samples * channels * length, length, samples * channels, CHUNK // length or 1, 0, 1, 0
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
    )
    writing = -(-places[0] // (places[1] * places[3]))
    merging = -(-samples * groups // per_task)
    return _Plan(
        words, units, tasks, numbers, merging, writing, places, 2 * samples * parts * row, samples * row, repeat
    )
