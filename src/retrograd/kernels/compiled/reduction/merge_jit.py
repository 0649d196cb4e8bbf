# mypy: ignore-errors
"""Merging pieces: a sum, a mean and the sum of squares about it, or two sums, from those of pieces, which
``moments_jit.py`` makes.

Each result has ``parts`` pieces in steps of p_step, ``repeats`` times in steps of repeat_step. ``count`` adjacent
results are merged at once; their first numbers start at ``at``, the second ones at at + second.
"""

from __future__ import annotations

from typing import Any

from ..machine.compiler import Array, helper
from ..machine.simd import double, full_like, lanes, load_first, maximum, rounded, store_first
from ..math.elementary_jit import exp, log
from .moments import MERGED
from .moments_jit import finite


@helper
def merge_moments(
    pieces: Array,
    at: int,
    count: int,
    second: int,
    length: int,
    parts: int,
    piece: int,
    p_step: int,
    repeats: int,
    repeat_step: int,
    factor: float,
) -> Any:
    """The mean, and in float64 the sum of squares about it times ``factor``, from those of pieces.

    A piece has ``piece`` of ``length`` numbers, the last part the remainder.

    Source: T. Chan, G. Golub, R. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
    1979.
    """
    about = finite(load_first(pieces, at, count))
    added = double(full_like(about, 0.0))
    for p in range(parts):
        n = min(piece, length - p * piece)
        first = at + p * p_step
        for i in range(first, first + repeats * repeat_step, repeat_step):
            added = added + double(load_first(pieces, i, count) - about) * n
    mean = rounded(double(about) + added / (length * repeats), pieces)
    squares = double(full_like(about, 0.0))
    for p in range(parts):
        n = min(piece, length - p * piece)
        first = at + p * p_step
        for i in range(first, first + repeats * repeat_step, repeat_step):
            away = double(load_first(pieces, i, count) - mean)
            squares = squares + (away * away * (n * factor) + double(load_first(pieces, i + second, count)))
    return mean, squares


@helper
def merge_sums(
    pieces: Array, at: int, count: int, second: int, parts: int, p_step: int, repeats: int, repeat_step: int
) -> Any:
    """Both sums, in float64, from those of pieces."""
    added = double(full_like(load_first(pieces, at, count), 0.0))
    dot = added
    for p in range(parts):
        first = at + p * p_step
        for i in range(first, first + repeats * repeat_step, repeat_step):
            added = added + double(load_first(pieces, i, count))
            dot = dot + double(load_first(pieces, i + second, count))
    return added, dot


def total(task: int, worker: int, pieces: Array, y: Array, rows: int, columns: int, factor: float) -> None:
    """y[c] = factor * sum over rows of pieces[r, c], in float64, in order"""
    for column in range(columns):
        added = 0.0
        for row in range(rows):
            added += pieces[row * columns + column]
        y[column] = added * factor


def merge(
    task: int,
    worker: int,
    pieces: Array,
    mean: Array,
    squares: Array,
    results: int,
    length: int,
    parts: int,
    piece: int,
    repeats: int,
    factor: float,
) -> None:
    """``merge_moments`` of MERGED results; pieces (repeats, parts, 2, results)"""
    last = min(results, (task + 1) * MERGED)
    for i in range(task * MERGED, last, lanes(pieces)):
        center, total_squares = merge_moments(
            pieces, i, last - i, results, length, parts, piece, 2 * results, repeats, 2 * parts * results, factor
        )
        store_first(mean, i, center, last - i)
        store_first(squares, i, rounded(total_squares, pieces), last - i)


def merge_logsumexp(task: int, worker: int, pieces: Array, y: Array, results: int, parts: int) -> None:
    """log(sum over parts of s exp(top)) of MERGED results; pieces (parts, 2, results): top and s of each"""
    last = min(results, (task + 1) * MERGED)
    for i in range(task * MERGED, last, lanes(pieces)):
        count = last - i
        top = load_first(pieces, i, count)
        for p in range(1, parts):
            top = maximum(top, load_first(pieces, i + 2 * p * results, count))
        about = finite(top)
        added = double(full_like(about, 0.0))
        for p in range(parts):
            at = i + 2 * p * results
            added = added + double(load_first(pieces, at + results, count) * exp(load_first(pieces, at, count) - about))
        store_first(y, i, log(rounded(added, pieces)) + about, count)
