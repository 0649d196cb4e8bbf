# mypy: ignore-errors
"""Normalisation of planes: between two passes over memory, statistics of channels are merged into those of groups.

A *unit* is what one task normalises from the cache: a sample if its channels are contiguous, else one group of a
sample.
"""

from __future__ import annotations

from typing import Any

from ....formulas.normalization import inverse_deviation
from ..machine.compiler import Array, Table, helper
from ..machine.simd import double, full, lanes, load_first, offset, rounded, store_first
from ..pointwise.pointwise_jit import register
from ..reduction.merge_jit import merge_moments, merge_sums
from ..reduction.moments_jit import moments_columns, moments_rows, sums_columns, sums_rows
from ..reduction.spread_jit import normalise, normalise_grad
from .planes import PLANES

BLOCK = 4096  # elements written at a time, in order, from the end of a unit
register(inverse_deviation)


@helper
def _steps(plan: Table) -> Any:
    """For the pieces, the steps from sample to sample, channel to channel, part to part, and from the first number to
    the second; the positions of a row and the step between them; the number of parts."""
    parts, row = plan[PLANES.parts], plan[PLANES.channels] * plan[PLANES.repeat]
    if plan[PLANES.last]:
        return 2 * parts * row, 1, 2 * row, row, plan[PLANES.repeat], plan[PLANES.channels], parts
    return 2 * parts * row, 2 * parts, 2, 1, 1, 1, parts


@helper
def _together(plan: Table, pieces: Array, result: int, stop: int) -> int:
    """The number of results, from this one on, that are contiguous in the pieces: up to a register, or one."""
    groups = plan[PLANES.groups]
    if plan[PLANES.last] and groups == plan[PLANES.channels]:
        return min(lanes(pieces), stop - result, groups - result % groups)
    return 1


@helper
def statistics(
    task: int,
    worker: int,
    pieces: Array,
    weight: Array,
    bias: Array,
    found: Array,
    table: Array,
    plan: Table,
    eps: float,
) -> None:
    """mean, variance and 1 / deviation of some groups, (3, N, groups), and the table of ``normalise``, (3, N, row).

    A piece is the mean and the sum of squares about it.
    """
    channels, groups = plan[PLANES.channels], plan[PLANES.groups]
    length, piece = plan[PLANES.length], plan[PLANES.piece]
    size, results, row = channels // groups, plan[PLANES.samples] * groups, channels * plan[PLANES.repeat]
    whole = plan[PLANES.samples] * row
    start = task * plan[PLANES.per_task]
    stop = min(results, start + plan[PLANES.per_task])
    n_step, c_step, p_step, second, repeats, repeat_step, parts = _steps(plan)
    if plan[PLANES.last] and size > 1:  # each channel of the samples first
        for n in range(start // groups, stop // groups):
            end = n * n_step + channels
            for c in range(n * n_step, end, lanes(pieces)):
                center, squares = merge_moments(
                    pieces, c, end - c, second, length, parts, piece, p_step, repeats, repeat_step, 1.0
                )
                store_first(pieces, c, center, end - c)
                store_first(pieces, c + second, rounded(squares, pieces), end - c)
        length, parts = length * repeats, 1
        piece = length
    if size > 1:
        repeats, repeat_step = size, c_step
    result = start
    while result < stop:
        n = result // groups
        first = (result - n * groups) * size
        count = _together(plan, pieces, result, stop)
        center, squares = merge_moments(
            pieces, n * n_step + first * c_step, count, second, length, parts, piece, p_step, repeats, repeat_step, 1.0
        )
        variance = squares / (length * repeats)
        inverse = inverse_deviation(variance, eps)
        store_first(found, result, center, count)
        store_first(found, results + result, rounded(variance, pieces), count)
        store_first(found, 2 * results + result, rounded(inverse, pieces), count)
        for c in range(first, first + size):
            factor = rounded(inverse * double(load_first(weight, c, count)), pieces)
            shift = load_first(bias, c, count)
            for i in range(n * row + c, (n + 1) * row, channels):
                store_first(table, i, center, count)
                store_first(table, whole + i, factor, count)
                store_first(table, 2 * whole + i, shift, count)
        result += count


@helper
def coefficients(
    task: int,
    worker: int,
    pieces: Array,
    weight: Array,
    mean: Array,
    inverse: Array,
    sums: Array,
    table: Array,
    plan: Table,
) -> None:
    """The sums of g and of g z, (2, N, C), and the table of ``normalise_grad``, (4, N, row), of some groups.

    A piece is the sum of g and of g * (x - mean).
    """
    channels, groups = plan[PLANES.channels], plan[PLANES.groups]
    size, row = channels // groups, channels * plan[PLANES.repeat]
    elements = plan[PLANES.length] * plan[PLANES.repeat] * size
    planes, whole = plan[PLANES.samples] * channels, plan[PLANES.samples] * row
    start = task * plan[PLANES.per_task]
    stop = min(plan[PLANES.samples] * groups, start + plan[PLANES.per_task])
    n_step, c_step, p_step, second, repeats, repeat_step, parts = _steps(plan)
    if plan[PLANES.last] and size > 1:
        for n in range(start // groups, stop // groups):
            end = n * n_step + channels
            for c in range(n * n_step, end, lanes(pieces)):
                added, dot = merge_sums(pieces, c, end - c, second, parts, p_step, repeats, repeat_step)
                store_first(pieces, c, rounded(added, pieces), end - c)
                store_first(pieces, c + second, rounded(dot, pieces), end - c)
        repeats, parts = 1, 1
    result = start
    while result < stop:
        n = result // groups
        first = (result - n * groups) * size
        count = _together(plan, pieces, result, stop)
        scale = double(load_first(inverse, result, count))
        level = double(full(pieces, 0.0))
        slope = level
        for c in range(first, first + size):
            added, dot = merge_sums(pieces, n * n_step + c * c_step, count, second, parts, p_step, repeats, repeat_step)
            dot = dot * scale
            store_first(sums, n * channels + c, rounded(added, pieces), count)
            store_first(sums, planes + n * channels + c, rounded(dot, pieces), count)
            by_weight = double(load_first(weight, c, count))
            level, slope = level + by_weight * added, slope + by_weight * dot
        center, level = load_first(mean, result, count), rounded(-(scale * level / elements), pieces)
        slope = rounded(-(scale * scale * slope / elements), pieces)
        for c in range(first, first + size):
            factor = rounded(scale * double(load_first(weight, c, count)), pieces)
            for i in range(n * row + c, (n + 1) * row, channels):
                store_first(table, i, center, count)
                store_first(table, whole + i, factor, count)
                store_first(table, 2 * whole + i, slope, count)
                store_first(table, 3 * whole + i, level, count)
        result += count


@helper
def _unit(task: int, plan: Table) -> Any:
    """Of a unit: its first index in a row of the table, its first element, its elements, its rows and their length."""
    channels, length = plan[PLANES.channels], plan[PLANES.length]
    if plan[PLANES.last]:
        row = channels * plan[PLANES.repeat]
        return task * row, task * row * length, row * length, length, row
    size = channels // plan[PLANES.groups]
    return task * size, task * size * length, size * length, size, length


def forward(
    task: int,
    worker: int,
    x: Array,
    weight: Array,
    bias: Array,
    pieces: Array,
    found: Array,
    table: Array,
    y: Array,
    plan: Table,
    eps: float,
) -> None:
    """All of one unit; arrays as in ``statistics``."""
    last, length, parts, piece = plan[PLANES.last], plan[PLANES.length], plan[PLANES.parts], plan[PLANES.piece]
    here, begin, size, rows, inner = _unit(task, plan)
    mine, own = offset(x, begin), offset(pieces, 2 * parts * here)
    if last:
        for part in range(plan[PLANES.cuts]):
            moments_columns(part, worker, mine, own, length, inner, parts, piece, plan[PLANES.width], 1.0)
    else:
        moments_rows(0, worker, mine, own, rows, length, parts, rows * parts, 1.0)
    statistics(task, worker, pieces, weight, bias, found, table, plan, eps)
    whole = plan[PLANES.samples] * plan[PLANES.channels] * plan[PLANES.repeat]
    shift, each = offset(table, 2 * whole + here), max(1, BLOCK // inner)
    for block in range((rows + each - 1) // each):
        normalise(
            block,
            worker,
            mine,
            mine,
            offset(table, here),
            offset(table, whole + here),
            shift,
            shift,
            offset(y, begin),
            size,
            inner,
            rows,
            each,
            0,
            1 - last,
            last,
        )


def backward(
    task: int,
    worker: int,
    g: Array,
    x: Array,
    weight: Array,
    mean: Array,
    inverse: Array,
    about: Array,
    pieces: Array,
    sums: Array,
    table: Array,
    gx: Array,
    plan: Table,
) -> None:
    """All of one unit; about (N, row): the means; the other arrays as in ``coefficients``."""
    last, length, parts, piece = plan[PLANES.last], plan[PLANES.length], plan[PLANES.parts], plan[PLANES.piece]
    here, begin, size, rows, inner = _unit(task, plan)
    my_g, mine = offset(g, begin), offset(x, begin)
    own, center = offset(pieces, 2 * parts * here), offset(about, here)
    if last:
        for part in range(plan[PLANES.cuts]):
            sums_columns(part, worker, my_g, mine, center, own, length, inner, parts, piece, plan[PLANES.width])
    else:
        sums_rows(0, worker, my_g, mine, center, own, rows, length, parts, rows * parts)
    coefficients(task, worker, pieces, weight, mean, inverse, sums, table, plan)
    whole = plan[PLANES.samples] * plan[PLANES.channels] * plan[PLANES.repeat]
    centers, factors = offset(table, here), offset(table, whole + here)
    slopes, levels, each = offset(factors, whole), offset(factors, 2 * whole), max(1, BLOCK // inner)
    for block in range((rows + each - 1) // each):
        normalise_grad(
            block,
            worker,
            my_g,
            mine,
            centers,
            factors,
            slopes,
            levels,
            offset(gx, begin),
            size,
            inner,
            rows,
            each,
            0,
            1 - last,
            last,
        )
