"""Group normalisation: between two passes over memory, statistics of channels become those of groups of channels.

x is (N, C, positions) in this order of memory or, with ``last``, (N, positions, C). A *unit* is what is normalised from
the cache by one task: a sample if its channels are neighbours in memory, else one group of a sample.
"""

from __future__ import annotations

import math as scalar

from ..compiler import Array, helper
from ..simd import double, full, lanes, load_first, offset, rounded, store_first
from .moments import finite, moments_columns, moments_rows, sums_columns, sums_rows
from .spread import normalise, normalise_grad

BLOCK = 4096  # elements written from the end of a unit at a time, but in their own order


@helper
def _merge_moments(pieces: Array, at: int, channels: int, length: int, parts: int, piece: int) -> None:
    """The pieces of each channel of a sample become one, channels being neighbours; summed in float64."""
    step = 2 * channels
    for c in range(at, at + channels, lanes(pieces)):
        n = min(lanes(pieces), at + channels - c)
        about = finite(load_first(pieces, c, n))
        total = double(full(pieces, 0.0))
        for p in range(parts):
            total = total + double(load_first(pieces, c + p * step, n) - about) * min(piece, length - p * piece)
        center = about + rounded(total / length, pieces)
        total = double(full(pieces, 0.0))
        for p in range(parts):
            away = double(load_first(pieces, c + p * step, n) - center)
            total = total + (away * away * min(piece, length - p * piece))
            total = total + double(load_first(pieces, c + p * step + channels, n))
        store_first(pieces, c, center, n)
        store_first(pieces, c + channels, rounded(total, pieces), n)


@helper
def _merge_sums(pieces: Array, at: int, channels: int, parts: int) -> None:
    """As ``_merge_moments`` of sums."""
    for c in range(at, at + 2 * channels, lanes(pieces)):
        n = min(lanes(pieces), at + 2 * channels - c)
        total = double(full(pieces, 0.0))
        for p in range(parts):
            total = total + double(load_first(pieces, c + p * 2 * channels, n))
        store_first(pieces, c, rounded(total, pieces), n)


@helper
def statistics(
    task: int, worker: int, pieces: Array, weight: Array, bias: Array, mean: Array, inverse: Array, centers: Array,
    factors: Array, shifts: Array, results: int, channels: int, groups: int, length: int, parts: int, piece: int,
    last: int, per_task: int, eps: float,
) -> None:  # fmt: skip
    """mean and inverse (N, groups) of some groups, and what ``normalise`` takes, per channel (N, C).

    A piece is the mean and the sum of squares about it of ``piece`` of ``length`` numbers; the last one may be shorter.
    Sums over a group are in float64. With ``last`` a task has whole samples.
    """
    size = channels // groups
    stop = min(results, (task + 1) * per_task)
    n_step, c_step, p_step, second = 2 * parts * channels, 2 * parts, 2, 1
    if last:
        for n in range(task * per_task // groups, stop // groups):
            _merge_moments(pieces, n * n_step, channels, length, parts, piece)
        c_step, second, parts, piece = 1, channels, 1, length
    for result in range(task * per_task, stop):
        n = result // groups
        first = (result - n * groups) * size
        base = n * n_step + first * c_step
        about = 1.0 * pieces[base]
        if about - about != 0.0:
            about = 0.0
        total = 0.0
        for c in range(size):
            for p in range(parts):
                total += (pieces[base + c * c_step + p * p_step] - about) * min(piece, length - p * piece)
        center = about + total / (length * size)
        total = 0.0
        for c in range(size):
            for p in range(parts):
                i = base + c * c_step + p * p_step
                away = pieces[i] - center
                total += pieces[i + second] + away * away * min(piece, length - p * piece)
        scale = 1.0 / scalar.sqrt(total / (length * size) + eps)
        mean[result] = center
        inverse[result] = scale
        for c in range(first, first + size):
            centers[n * channels + c] = center
            factors[n * channels + c] = scale * weight[c]
            shifts[n * channels + c] = bias[c]


@helper
def coefficients(
    task: int, worker: int, pieces: Array, weight: Array, mean: Array, inverse: Array, totals: Array, dots: Array,
    centers: Array, factors: Array, slopes: Array, levels: Array, results: int, channels: int, groups: int, length: int,
    parts: int, last: int, per_task: int,
) -> None:  # fmt: skip
    """totals and dots (N, C), the sums of g and of g z, and what ``normalise_grad`` takes, per channel (N, C).

    A piece is the sum of g and of g * (x - mean).
    """
    size = channels // groups
    stop = min(results, (task + 1) * per_task)
    n_step, c_step, p_step, second = 2 * parts * channels, 2 * parts, 2, 1
    if last:
        for n in range(task * per_task // groups, stop // groups):
            _merge_sums(pieces, n * n_step, channels, parts)
        c_step, second, parts = 1, channels, 1
    for result in range(task * per_task, stop):
        n = result // groups
        first = (result - n * groups) * size
        scale = 1.0 * inverse[result]
        level, slope = 0.0, 0.0
        for c in range(first, first + size):
            total, dot = 0.0, 0.0
            for p in range(parts):
                i = n * n_step + c * c_step + p * p_step
                total += pieces[i]
                dot += pieces[i + second]
            dot *= scale
            totals[n * channels + c] = total
            dots[n * channels + c] = dot
            level += weight[c] * total
            slope += weight[c] * dot
        level = -scale * level / (length * size)
        slope = -scale * scale * slope / (length * size)
        for c in range(first, first + size):
            centers[n * channels + c] = mean[result]
            factors[n * channels + c] = scale * weight[c]
            slopes[n * channels + c] = slope
            levels[n * channels + c] = level


def forward(
    task: int, worker: int, x: Array, weight: Array, bias: Array, pieces: Array, mean: Array, inverse: Array,
    table: Array, y: Array, samples: int, channels: int, groups: int, length: int, parts: int, piece: int, tasks: int,
    width: int, last: int, eps: float,
) -> None:  # fmt: skip
    """All of one unit; table (3, N, C)."""
    mine, turn = channels // groups, 1
    if last:
        mine, turn = channels, groups
    here, size, begin = task * mine, mine * length, task * mine * length
    own = offset(pieces, 2 * parts * here)
    if last:
        for part in range(tasks):
            moments_columns(part, worker, offset(x, begin), own, length, channels, parts, piece, width, 1.0)
    else:
        moments_rows(0, worker, offset(x, begin), own, mine, length, parts, mine * parts, 1.0)
    factors, shifts = offset(table, samples * channels), offset(table, 2 * samples * channels)
    statistics(
        task, worker, pieces, weight, bias, mean, inverse, table, factors, shifts, samples * groups, channels, groups,
        length, parts, piece, last, turn, eps,
    )  # fmt: skip
    inner, middle, c_step, inner_step = length, mine, 1, 0
    if last:
        inner, middle, c_step, inner_step = channels, length, 0, 1
    rows = min(middle, max(1, BLOCK // inner))
    for block in range((middle - 1) // rows, -1, -1):  # what was read last is still in the cache
        normalise(
            block, worker, offset(x, begin), offset(table, here), offset(factors, here), offset(shifts, here),
            offset(y, begin), size, inner, middle, rows, 0, c_step, inner_step,
        )  # fmt: skip


def backward(
    task: int, worker: int, g: Array, x: Array, weight: Array, mean: Array, inverse: Array, about: Array, pieces: Array,
    sums: Array, table: Array, gx: Array, samples: int, channels: int, groups: int, length: int, parts: int, piece: int,
    tasks: int, width: int, last: int,
) -> None:  # fmt: skip
    """All of one unit; about (N, C): the means; sums (2, N, C): those of g and of g z; table (4, N, C)."""
    mine, turn = channels // groups, 1
    if last:
        mine, turn = channels, groups
    here, size, begin = task * mine, mine * length, task * mine * length
    own, center = offset(pieces, 2 * parts * here), offset(about, here)
    if last:
        for part in range(tasks):
            sums_columns(
                part, worker, offset(g, begin), offset(x, begin), center, own, length, channels, parts, piece, width
            )  # fmt: skip
    else:
        sums_rows(0, worker, offset(g, begin), offset(x, begin), center, own, mine, length, parts, mine * parts)
    one = samples * channels
    factors, slopes, levels = offset(table, one), offset(table, 2 * one), offset(table, 3 * one)
    coefficients(
        task, worker, pieces, weight, mean, inverse, sums, offset(sums, one), table, factors, slopes, levels,
        samples * groups, channels, groups, length, parts, last, turn,
    )  # fmt: skip
    inner, middle, c_step, inner_step = length, mine, 1, 0
    if last:
        inner, middle, c_step, inner_step = channels, length, 0, 1
    rows = min(middle, max(1, BLOCK // inner))
    for block in range((middle - 1) // rows, -1, -1):  # what was read last is still in the cache
        normalise_grad(
            block, worker, offset(g, begin), offset(x, begin), offset(table, here), offset(factors, here),
            offset(slopes, here), offset(levels, here), offset(gx, begin), size, inner, middle, rows, 0, c_step,
            inner_step,
        )  # fmt: skip
