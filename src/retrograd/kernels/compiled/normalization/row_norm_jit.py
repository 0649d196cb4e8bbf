# mypy: ignore-errors
"""Kernels that normalise rows: a row is read from memory once, and from the cache after that.

Those for long rows compute some adjacent columns of all rows, given the statistics of each row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....formulas.normalization import affine, input_grad, inverse_deviation, standardised
from ..machine.compiler import Array, helper
from ..machine.simd import (
    ONE,
    PART,
    WIDE,
    Access,
    ahead_by,
    double,
    four_times,
    full,
    full_like,
    lanes,
    load,
    load_first,
    rounded,
    store,
    store_first,
    total,
)
from ..pointwise.pointwise_jit import register
from ..reduction.moments_jit import finite, sum_away, sum_of_four, sum_squares
from .row_norm import COLUMNS, ROWS

for _formula in (affine, input_grad, inverse_deviation, standardised):
    register(_formula)
_fetch = ahead_by(0)


@helper
def _output(g: Any, x: Any, weight: Any, bias: Any, center: Any, scale: Any, level: Any, slope: Any) -> Any:
    return affine(standardised(x, center, scale), weight, bias)


@helper
def _gradient(g: Any, x: Any, weight: Any, bias: Any, center: Any, scale: Any, level: Any, slope: Any) -> Any:
    """level and slope: the means of h and of h z."""
    return input_grad(g * weight, standardised(x, center, scale), scale, level, slope)


def _written(function: Callable[..., Any], far: bool) -> Callable[..., None]:
    """z = function(g, x, weight, ...) for elements i to end; weight and bias from w on.

    ``far``: prefetches the next row, ``length`` elements further on.
    """

    @helper
    def write(
        g: Array,
        x: Array,
        weight: Array,
        bias: Array,
        z: Array,
        i: int,
        end: int,
        w: int,
        length: int,
        center: Any,
        scale: Any,
        level: Any,
        slope: Any,
    ) -> None:
        while i + lanes(x) <= end:
            if far:
                _fetch(g, i + length)
                _fetch(x, i + length)
                _fetch(z, i + length)
            by, more = load(weight, w), load(bias, w)
            store(z, i, function(load(g, i), load(x, i), by, more, center, scale, level, slope))
            i += lanes(x)
            w += lanes(x)
        if i < end:
            n = end - i
            by, more = load_first(weight, w, n), load_first(bias, w, n)
            v = function(load_first(g, i, n), load_first(x, i, n), by, more, center, scale, level, slope)
            store_first(z, i, v, n)

    return write


def _summed(access: Access, far: bool) -> Callable[..., Any]:
    """Add h and h z of a block to ``added`` and ``dot``; with ``affine`` also g z and g to sums[to] and width on.

    ``far``: prefetches the next row, ``length`` elements further on.
    """
    load, load_or, store, fetch = access.load, access.load_or, access.store, access.ahead(_fetch)

    @helper
    def step(
        g: Array,
        x: Array,
        weight: Array,
        sums: Array,
        i: int,
        w: int,
        n: int,
        length: int,
        to: int,
        width: int,
        affine: int,
        mean: float,
        center: Any,
        scale: Any,
        added: Any,
        dot: Any,
    ) -> Any:
        if far:
            fetch(g, i + length)
            fetch(x, i + length)
        v, z = load(g, i, n), standardised(load_or(x, i, n, mean), center, scale)
        if affine:
            store(sums, to, load(sums, to, n) + v * z, n)
            store(sums, to + width, load(sums, to + width, n) + v, n)
        h = v * load(weight, w, n)
        return added + h, dot + h * z

    return step


def _sums(far: bool) -> Callable[..., Any]:
    """The sums of h and of h z over the places i to end; g z and g are added to sums[dots + w] and width further on."""
    add_four, add_one, add_part = _summed(WIDE, far), _summed(ONE, far), _summed(PART, far)

    @helper
    def add(
        g: Array,
        x: Array,
        weight: Array,
        sums: Array,
        i: int,
        end: int,
        w: int,
        length: int,
        dots: int,
        width: int,
        affine: int,
        mean: float,
        center: Any,
        scale: Any,
    ) -> Any:
        zero = full_like(center, 0.0)
        all_added, all_dot, centers, scales = four_times(zero), four_times(zero), four_times(center), four_times(scale)
        while i + 4 * lanes(x) <= end:
            all_added, all_dot = add_four(
                g, x, weight, sums, i, w, 0, length, dots + w, width, affine, mean, centers, scales, all_added, all_dot
            )
            i += 4 * lanes(x)
            w += 4 * lanes(x)
        added, dot = sum_of_four(all_added), sum_of_four(all_dot)
        while i + lanes(x) <= end:
            added, dot = add_one(
                g, x, weight, sums, i, w, 0, length, dots + w, width, affine, mean, center, scale, added, dot
            )
            i += lanes(x)
            w += lanes(x)
        if i < end:
            added, dot = add_part(
                g, x, weight, sums, i, w, end - i, length, dots + w, width, affine, mean, center, scale, added, dot
            )
        return total(added), total(dot)

    return add


_write_output = _written(_output, False)
_write_grad, _write_grad_far = _written(_gradient, False), _written(_gradient, True)
_add_sums, _add_sums_far = _sums(False), _sums(True)


@helper
def _clear(sums: Array, begin: int, end: int) -> None:
    zero = full(sums, 0.0)
    for i in range(begin, end, lanes(sums)):
        store_first(sums, i, zero, end - i)


def forward(
    task: int,
    worker: int,
    x: Array,
    weight: Array,
    bias: Array,
    y: Array,
    mean: Array,
    inverse: Array,
    rows: int,
    length: int,
    groups: int,
    per_task: int,
    centred: int,
    eps: float,
) -> None:
    """y = (x - mean) * inverse * weight + bias with inverse = 1 / sqrt(variance + eps), of each row.

    Without ``centred`` the mean is 0. Row r uses row r % groups of weight and bias.
    """
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        end = begin + length
        center = full(x, 0.0)
        if centred:
            about = finite(full(x, x[begin]))
            center = about + sum_away(x, begin, end, about) / length
        variance = full_like(double(center), sum_squares(x, begin, end, center) / length)
        scale = rounded(inverse_deviation(variance, eps), x)
        store_first(mean, row, center, 1)
        store_first(inverse, row, scale, 1)
        w = row % groups * length
        _write_output(x, x, weight, bias, y, begin, end, w, length, center, scale, center, center)


def backward(
    task: int,
    worker: int,
    g: Array,
    x: Array,
    weight: Array,
    mean: Array,
    inverse: Array,
    gx: Array,
    pieces: Array,
    rows: int,
    length: int,
    groups: int,
    per_task: int,
    per_piece: int,
    centred: int,
    affine: int,
) -> None:
    """gx of some rows, and of every ``per_piece`` of them the sums of g * z and of g: pieces (., 2, groups * length)

    gx = inverse * (h - mean(h) - z * mean(h * z)), h = g * weight, z = (x - mean) * inverse
    """
    width = groups * length
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        target = row // per_piece * 2 * width
        if affine and row % per_piece == 0:
            _clear(pieces, target, target + 2 * width)
        i, w, middle = row * length, row % groups * length, mean[row]
        end, center, scale = i + length, full(x, middle), full(x, inverse[row])
        added, dot = _add_sums(g, x, weight, pieces, i, end, w, length, target, width, affine, middle, center, scale)
        level, slope = full(x, 0.0), full(x, dot / length)
        if centred:
            level = full(x, added / length)
        _write_grad(g, x, weight, weight, gx, i, end, w, length, center, scale, level, slope)


def long_sums(
    task: int,
    worker: int,
    g: Array,
    x: Array,
    weight: Array,
    mean: Array,
    inverse: Array,
    of_rows: Array,
    sums: Array,
    rows: int,
    length: int,
    parts: int,
    affine: int,
) -> None:
    """Of some columns of ROWS rows: the sums of h and of h * z along each row, and of g * z and of g down the rows.

    of_rows (rows, parts, 2), sums (blocks of rows, 2, length)
    """
    block = task // parts
    part = task - block * parts
    first = part * COLUMNS
    last = min(length, first + COLUMNS)
    dots = 2 * block * length
    if affine:
        _clear(sums, dots + first, dots + last)
        _clear(sums, dots + length + first, dots + length + last)
    for row in range(block * ROWS, min(rows, (block + 1) * ROWS)):
        i, end, middle = row * length + first, row * length + last, mean[row]
        center, scale = full(x, middle), full(x, inverse[row])
        added, dot = _add_sums_far(
            g, x, weight, sums, i, end, first, length, dots, length, affine, middle, center, scale
        )
        of_rows[2 * (row * parts + part)] = added
        of_rows[2 * (row * parts + part) + 1] = dot


def long_input_grad(
    task: int,
    worker: int,
    g: Array,
    x: Array,
    weight: Array,
    mean: Array,
    inverse: Array,
    means: Array,
    gx: Array,
    rows: int,
    length: int,
) -> None:
    """gx = inverse * (h - mean(h) - z * mean(h * z)); means (rows, 2)"""
    first = task * COLUMNS
    last = min(length, first + COLUMNS)
    for row in range(rows):
        i, center, scale = row * length, full(x, mean[row]), full(x, inverse[row])
        level, slope = full(x, means[2 * row]), full(x, means[2 * row + 1])
        _write_grad_far(g, x, weight, weight, gx, i + first, i + last, first, length, center, scale, level, slope)
