"""What one task of a batch normalisation does: some rows, the statistics of some channels, or all of a small array."""

from __future__ import annotations

from ..compiler import helper
from ..normalization import MERGED
from ..simd import ahead, double, fma, full, lanes, load, load_first, rounded, sqrt, store, store_first
from .moments import finite, moments_columns, sums_columns


@helper
def statistics(
    task: int, worker: int, pieces: Array, weight: Array, bias: Array, mean: Array, variance: Array, table: Array,
    tasks: int, rows: int, width: int, per_task: int, channels: int, eps: float,
) -> None:  # fmt: skip
    """Put the pieces of some channels together.

    table (3, width): what ``affine`` takes: mean, weight / sqrt(variance + eps), bias
    """
    elements = rows * (width // channels)
    last = min(channels, (task + 1) * MERGED)
    for c in range(task * MERGED, last, lanes(pieces)):
        count = min(lanes(pieces), last - c)
        about = finite(load_first(pieces, c, count))
        total = double(full(pieces, 0.0))
        for piece in range(tasks):
            n = min(per_task, rows - piece * per_task)
            begin = 2 * piece * width + c
            for i in range(begin, begin + width, channels):
                total = total + double(load_first(pieces, i, count) - about) * n
        center = about + rounded(total / elements, pieces)
        total = double(full(pieces, 0.0))
        for piece in range(tasks):
            n = min(per_task, rows - piece * per_task)
            begin = 2 * piece * width + c
            for i in range(begin, begin + width, channels):
                away = double(load_first(pieces, i, count) - center)
                total = total + (away * away * n + double(load_first(pieces, i + width, count)))
        exact = total / elements
        spread = rounded(exact, pieces)
        scale = rounded(double(load_first(weight, c, count)) / sqrt(exact + eps), pieces)
        shift = load_first(bias, c, count)
        store_first(mean, c, center, count)
        store_first(variance, c, spread, count)
        for i in range(c, c + width, channels):
            store_first(table, i, center, count)
            store_first(table, i + width, scale, count)
            store_first(table, i + 2 * width, shift, count)


@helper
def affine(task: int, worker: int, x: Array, table: Array, y: Array, rows: int, width: int, per_task: int) -> None:
    """y = (x - table[0]) * table[1] + table[2] for some rows."""
    # from the end: what the pass before read last is still in the cache
    begin = ((rows - 1) // per_task - task) * per_task * width
    for row in range(begin, min(rows * width, begin + per_task * width), width):
        c = 0
        while c + lanes(x) <= width:
            ahead(x, row + c)
            ahead(y, row + c)
            away = load(x, row + c) - load(table, c)
            store(y, row + c, fma(away, load(table, width + c), load(table, 2 * width + c)))
            c += lanes(x)
        if c < width:
            count = width - c
            away = load_first(x, row + c, count) - load_first(table, c, count)
            scale, shift = load_first(table, width + c, count), load_first(table, 2 * width + c, count)
            store_first(y, row + c, fma(away, scale, shift), count)


@helper
def coefficients(
    task: int, worker: int, pieces: Array, weight: Array, mean: Array, variance: Array, gweight: Array, gbias: Array,
    table: Array, tasks: int, rows: int, width: int, channels: int, eps: float,
) -> None:  # fmt: skip
    """gweight and gbias of some channels, and what ``input_grad`` takes.

    table (4, width): mean, and the factors of g, of x - mean and of 1 in gx
    """
    elements = rows * (width // channels)
    last = min(channels, (task + 1) * MERGED)
    for c in range(task * MERGED, last, lanes(pieces)):
        count = min(lanes(pieces), last - c)
        total = double(full(pieces, 0.0))
        dot = total
        for piece in range(tasks):
            begin = 2 * piece * width + c
            for i in range(begin, begin + width, channels):
                total = total + double(load_first(pieces, i, count))
                dot = dot + double(load_first(pieces, i + width, count))
        deviation = sqrt(double(load_first(variance, c, count)) + eps)
        by_weight = dot / deviation
        factor = double(load_first(weight, c, count)) / deviation
        slope = -factor * (by_weight / elements) / deviation
        constant = -factor * (total / elements)
        center = load_first(mean, c, count)
        store_first(gweight, c, rounded(by_weight, pieces), count)
        store_first(gbias, c, rounded(total, pieces), count)
        for i in range(c, c + width, channels):
            store_first(table, i, center, count)
            store_first(table, i + width, rounded(factor, pieces), count)
            store_first(table, i + 2 * width, rounded(slope, pieces), count)
            store_first(table, i + 3 * width, rounded(constant, pieces), count)


@helper
def input_grad(
    task: int, worker: int, g: Array, x: Array, table: Array, gx: Array, rows: int, width: int, per_task: int
) -> None:
    """gx = g * table[1] + (x - table[0]) * table[2] + table[3] for some rows."""
    # from the end: what the pass before read last is still in the cache
    begin = ((rows - 1) // per_task - task) * per_task * width
    for row in range(begin, min(rows * width, begin + per_task * width), width):
        c = 0
        while c + lanes(x) <= width:
            ahead(g, row + c)
            ahead(x, row + c)
            ahead(gx, row + c)
            away = load(x, row + c) - load(table, c)
            rest = fma(away, load(table, 2 * width + c), load(table, 3 * width + c))
            store(gx, row + c, fma(load(g, row + c), load(table, width + c), rest))
            c += lanes(x)
        if c < width:
            count = width - c
            away = load_first(x, row + c, count) - load_first(table, c, count)
            rest = fma(away, load_first(table, 2 * width + c, count), load_first(table, 3 * width + c, count))
            value = fma(load_first(g, row + c, count), load_first(table, width + c, count), rest)
            store_first(gx, row + c, value, count)


def forward(
    task: int, worker: int, x: Array, weight: Array, bias: Array, pieces: Array, mean: Array, variance: Array,
    table: Array, y: Array, rows: int, width: int, channels: int, eps: float,
) -> None:  # fmt: skip
    """All of an array that is one piece."""
    moments_columns(0, worker, x, pieces, rows, width, 1, rows, width, 1.0)
    for block in range((channels + MERGED - 1) // MERGED):
        statistics(block, worker, pieces, weight, bias, mean, variance, table, 1, rows, width, rows, channels, eps)
    affine(0, worker, x, table, y, rows, width, rows)


def backward(
    task: int, worker: int, g: Array, x: Array, weight: Array, mean: Array, variance: Array, pieces: Array,
    gweight: Array, gbias: Array, table: Array, gx: Array, rows: int, width: int, channels: int, eps: float,
) -> None:  # fmt: skip
    """All of an array that is one piece."""
    sums_columns(0, worker, g, x, mean, pieces, rows, width, 1, rows, width)
    for block in range((channels + MERGED - 1) // MERGED):
        coefficients(
            block, worker, pieces, weight, mean, variance, gweight, gbias, table, 1, rows, width, channels, eps
        )  # fmt: skip
    input_grad(0, worker, g, x, table, gx, rows, width, rows)
