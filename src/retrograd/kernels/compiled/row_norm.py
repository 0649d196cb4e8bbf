"""Kernels that normalise rows: a row is read from memory once, and is in the cache when it is read again.

Those of long rows do some neighbouring columns of all rows, given what is known of each row as a whole.
"""

from __future__ import annotations

import math as scalar

from ..compiler import Array
from ..row_norm import COLUMNS, ROWS
from ..simd import ahead_by, counting, fma, full, lanes, load, load_first, select, store, store_first, total
from .moments import finite, sum_away, sum_squares

fetch = ahead_by(0)


def forward(
    task: int, worker: int, x: Array, weight: Array, bias: Array, y: Array, mean: Array, inverse: Array, rows: int,
    length: int, groups: int, per_task: int, centred: int, eps: float,
) -> None:  # fmt: skip
    """y = (x - mean) * inverse * weight + bias with inverse = 1 / sqrt(variance + eps), of each row.

    Without ``centred`` the mean is 0. The rows take turns with ``groups`` rows of weight and bias.
    """
    one, zero = lanes(x), full(x, 0.0)
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        end = begin + length
        center = zero
        if centred:
            about = finite(full(x, x[begin]))
            center = about + sum_away(x, begin, end, about) / length
        factor = 1.0 / scalar.sqrt(sum_squares(x, begin, end, center) / length + eps)
        store_first(mean, row, center, 1)
        inverse[row] = factor
        scale = full(x, factor)
        i = begin
        w = row % groups * length
        while i + one <= end:
            store(y, i, fma((load(x, i) - center) * scale, load(weight, w), load(bias, w)))
            i += one
            w += one
        if i < end:
            n = end - i
            v = (load_first(x, i, n) - center) * scale
            store_first(y, i, fma(v, load_first(weight, w, n), load_first(bias, w, n)), n)


def backward(
    task: int, worker: int, g: Array, x: Array, weight: Array, mean: Array, inverse: Array, gx: Array, pieces: Array,
    rows: int, length: int, groups: int, per_task: int, per_piece: int, centred: int, affine: int,
) -> None:  # fmt: skip
    """gx of some rows, and of every ``per_piece`` of them the sums of g * z and of g: pieces (., 2, groups * length)

    gx = inverse * (h - mean(h) - z * mean(h * z)), h = g * weight, z = (x - mean) * inverse
    """
    one, two = lanes(x), 2 * lanes(x)
    zero = full(x, 0.0)
    width = groups * length
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        target = row // per_piece * 2 * width
        if affine and row % per_piece == 0:
            for i in range(target, target + 2 * width, one):
                store_first(pieces, i, zero, target + 2 * width - i)
        begin = row * length
        end = begin + length
        center, scale = full(x, mean[row]), full(x, inverse[row])
        turn = row % groups * length
        w = turn
        sum_a, sum_b, dot_a, dot_b = zero, zero, zero, zero
        i = begin
        if affine:
            while i + one <= end:
                v, z = load(g, i), (load(x, i) - center) * scale
                h = v * load(weight, w)
                sum_a, dot_a = sum_a + h, fma(h, z, dot_a)
                store(pieces, target + w, fma(v, z, load(pieces, target + w)))
                store(pieces, target + width + w, load(pieces, target + width + w) + v)
                i += one
                w += one
            if i < end:
                n = end - i
                v = load_first(g, i, n)
                z = select(counting(x) < n, (load_first(x, i, n) - center) * scale, 0.0)
                h = v * load_first(weight, w, n)
                sum_a, dot_a = sum_a + h, fma(h, z, dot_a)
                store_first(pieces, target + w, fma(v, z, load_first(pieces, target + w, n)), n)
                store_first(pieces, target + width + w, load_first(pieces, target + width + w, n) + v, n)
        else:
            while i + two <= end:
                h = load(g, i) * load(weight, w)
                sum_a, dot_a = sum_a + h, fma(h, (load(x, i) - center) * scale, dot_a)
                h = load(g, i + one) * load(weight, w + one)
                sum_b, dot_b = sum_b + h, fma(h, (load(x, i + one) - center) * scale, dot_b)
                i += two
                w += two
            while i < end:
                n = end - i
                h = load_first(g, i, n) * load_first(weight, w, n)
                z = select(counting(x) < n, (load_first(x, i, n) - center) * scale, 0.0)
                sum_a, dot_a = sum_a + h, fma(h, z, dot_a)
                i += one
                w += one
        slope = full(x, total(dot_a + dot_b) / length)
        level = zero
        if centred:
            level = full(x, total(sum_a + sum_b) / length)
        i = begin
        w = turn
        while i + one <= end:
            h, z = load(g, i) * load(weight, w), (load(x, i) - center) * scale
            store(gx, i, ((h - level) - z * slope) * scale)
            i += one
            w += one
        if i < end:
            n = end - i
            h, z = load_first(g, i, n) * load_first(weight, w, n), (load_first(x, i, n) - center) * scale
            store_first(gx, i, ((h - level) - z * slope) * scale, n)


def long_forward(
    task: int, worker: int, x: Array, weight: Array, bias: Array, y: Array, mean: Array, inverse: Array, rows: int,
    length: int,
) -> None:  # fmt: skip
    """y = (x - mean) * inverse * weight + bias"""
    first = task * COLUMNS
    last = min(length, first + COLUMNS)
    for row in range(rows):
        center, scale = full(x, mean[row]), full(x, inverse[row])
        begin = row * length
        w = first
        while w + lanes(x) <= last:
            i = begin + w
            fetch(x, i + length)
            fetch(y, i + length)
            store(y, i, fma((load(x, i) - center) * scale, load(weight, w), load(bias, w)))
            w += lanes(x)
        if w < last:
            n = last - w
            v = (load_first(x, begin + w, n) - center) * scale
            store_first(y, begin + w, fma(v, load_first(weight, w, n), load_first(bias, w, n)), n)


def long_sums(
    task: int, worker: int, g: Array, x: Array, weight: Array, mean: Array, inverse: Array, of_rows: Array, sums: Array,
    rows: int, length: int, parts: int, affine: int,
) -> None:  # fmt: skip
    """Of some columns of ROWS rows: the sums of h and of h * z along each row, and of g * z and of g down the rows.

    of_rows (rows, parts, 2), sums (blocks of rows, 2, length)
    """
    one = lanes(x)
    zero = full(x, 0.0)
    block = task // parts
    part = task - block * parts
    first = part * COLUMNS
    last = min(length, first + COLUMNS)
    dots, added = 2 * block * length, 2 * block * length + length
    if affine:
        for w in range(first, last):
            sums[dots + w] = 0.0
            sums[added + w] = 0.0
    for row in range(block * ROWS, min(rows, (block + 1) * ROWS)):
        center, scale = full(x, mean[row]), full(x, inverse[row])
        begin = row * length
        sum_a, dot_a, sum_b, dot_b = zero, zero, zero, zero
        w = first
        while w + 2 * one <= last:
            i = begin + w
            for j in (i, i + one):
                fetch(g, j + length)
                fetch(x, j + length)
            v, z = load(g, i), (load(x, i) - center) * scale
            v_b, z_b = load(g, i + one), (load(x, i + one) - center) * scale
            h, h_b = v * load(weight, w), v_b * load(weight, w + one)
            sum_a, dot_a, sum_b, dot_b = sum_a + h, fma(h, z, dot_a), sum_b + h_b, fma(h_b, z_b, dot_b)
            if affine:
                store(sums, dots + w, fma(v, z, load(sums, dots + w)))
                store(sums, dots + w + one, fma(v_b, z_b, load(sums, dots + w + one)))
                store(sums, added + w, load(sums, added + w) + v)
                store(sums, added + w + one, load(sums, added + w + one) + v_b)
            w += 2 * one
        while w < last:
            n = min(one, last - w)
            v = load_first(g, begin + w, n)
            z = select(counting(x) < n, (load_first(x, begin + w, n) - center) * scale, 0.0)
            h = v * load_first(weight, w, n)
            sum_a, dot_a = sum_a + h, fma(h, z, dot_a)
            if affine:
                store_first(sums, dots + w, fma(v, z, load_first(sums, dots + w, n)), n)
                store_first(sums, added + w, load_first(sums, added + w, n) + v, n)
            w += one
        of_rows[2 * (row * parts + part)] = total(sum_a + sum_b)
        of_rows[2 * (row * parts + part) + 1] = total(dot_a + dot_b)


def long_input_grad(
    task: int, worker: int, g: Array, x: Array, weight: Array, mean: Array, inverse: Array, means: Array, gx: Array,
    rows: int, length: int,
) -> None:  # fmt: skip
    """gx = inverse * (h - mean(h) - z * mean(h * z)); means (rows, 2)"""
    first = task * COLUMNS
    last = min(length, first + COLUMNS)
    for row in range(rows):
        center, scale = full(x, mean[row]), full(x, inverse[row])
        level, slope = full(x, means[2 * row]), full(x, means[2 * row + 1])
        begin = row * length
        w = first
        while w + lanes(x) <= last:
            i = begin + w
            fetch(g, i + length)
            fetch(x, i + length)
            fetch(gx, i + length)
            h, z = load(g, i) * load(weight, w), (load(x, i) - center) * scale
            store(gx, i, ((h - level) - z * slope) * scale)
            w += lanes(x)
        if w < last:
            n = last - w
            h, z = (
                load_first(g, begin + w, n) * load_first(weight, w, n),
                (load_first(x, begin + w, n) - center) * scale,
            )
            store_first(gx, begin + w, ((h - level) - z * slope) * scale, n)
