# mypy: ignore-errors
"""Tasks of normalization: per channel and group, and row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...formulas.normalization import affine, input_grad, inverse_deviation, standardized
from .machine.compiler import Array, Table, helper
from .machine.simd import (
    ONE,
    PART,
    WIDE,
    Access,
    ahead_by,
    double,
    fenced,
    four_times,
    full,
    full_like,
    lanes,
    load,
    load_first,
    offset,
    rounded,
    store,
    store_first,
    total,
)
from .moments_jit import (
    finite,
    merge_moments,
    merge_sums,
    moments_columns,
    moments_rows,
    sum_away,
    sum_of_four,
    sum_squares,
    sums_columns,
    sums_rows,
)
from .normalization import COLUMNS, PLANES, ROWS
from .pointwise_jit import register
from .reduction_grad_jit import normalize, normalize_grad

# ---- Normalization of planes ----------------------------------------------------------------------------------------
# Between two passes over memory, statistics of channels are merged into those of groups. A *unit* is what one task
# normalizes from the cache: a sample if its channels are contiguous, else one group of a sample.


BLOCK = 4096  # elements written at a time, in order, from the end of a unit
register(inverse_deviation)


def fixed_scale(
    task: int,
    worker: int,
    mean: Array,
    variance: Array,
    weight: Array,
    bias: Array,
    scale: Array,
    shift: Array,
    channels: int,
    eps: float,
) -> None:
    """scale = weight / sqrt(variance + eps), shift = bias - mean * scale"""
    for i in range(0, channels, lanes(mean)):
        left = channels - i
        factor = load_first(weight, i, left) * inverse_deviation(load_first(variance, i, left), eps)
        store_first(scale, i, factor, left)
        store_first(shift, i, load_first(bias, i, left) - load_first(mean, i, left) * factor, left)


def running_statistics(
    task: int,
    worker: int,
    running_mean: Array,
    running_variance: Array,
    mean: Array,
    variance: Array,
    channels: int,
    momentum: float,
    factor: float,
) -> None:
    """r += momentum * (s - r), rounded after each operation; s = mean, and factor * variance"""
    for i in range(0, channels, lanes(mean)):
        left = channels - i
        old = load_first(running_mean, i, left)
        store_first(running_mean, i, old + fenced((load_first(mean, i, left) - old) * momentum), left)
        old, new = load_first(running_variance, i, left), fenced(load_first(variance, i, left) * factor)
        store_first(running_variance, i, old + fenced((new - old) * momentum), left)


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
    """mean, variance and 1 / deviation of some groups, (3, N, groups), and the table of ``normalize``, (3, N, row).

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
    """The sums of g and of g z, (2, N, C), and the table of ``normalize_grad``, (4, N, row), of some groups.

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


def channel_forward(
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
        normalize(
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
            1,
        )


def channel_backward(
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
        normalize_grad(
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
            1,
        )


# ---- Kernels that normalize rows: a row is read from memory once, and from the cache after that ---------------------
# Those for long rows compute some adjacent columns of all rows, given the statistics of each row.


for _formula in (affine, input_grad, inverse_deviation, standardized):
    register(_formula)
_fetch = ahead_by(0)


@helper
def _output(g: Any, x: Any, weight: Any, bias: Any, center: Any, scale: Any, level: Any, slope: Any) -> Any:
    return affine(standardized(x, center, scale), weight, bias)


@helper
def _gradient(g: Any, x: Any, weight: Any, bias: Any, center: Any, scale: Any, level: Any, slope: Any) -> Any:
    """level and slope: the means of h and of h z."""
    return input_grad(g * weight, standardized(x, center, scale), scale, level, slope)


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
        v, z = load(g, i, n), standardized(load_or(x, i, n, mean), center, scale)
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


def row_forward(
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
    centered: int,
    eps: float,
) -> None:
    """y = (x - mean) * inverse * weight + bias with inverse = 1 / sqrt(variance + eps), of each row.

    Without ``centered`` the mean is 0. Row r uses row r % groups of weight and bias.
    """
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        end = begin + length
        center = full(x, 0.0)
        if centered:
            about = finite(full(x, x[begin]))
            center = about + sum_away(x, begin, end, about) / length
        variance = full_like(double(center), sum_squares(x, begin, end, center) / length)
        scale = rounded(inverse_deviation(variance, eps), x)
        store_first(mean, row, center, 1)
        store_first(inverse, row, scale, 1)
        w = row % groups * length
        _write_output(x, x, weight, bias, y, begin, end, w, length, center, scale, center, center)


def row_backward(
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
    centered: int,
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
        if centered:
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
