# mypy: ignore-errors
"""One tile of a convolution by Winograd's transforms: those of winograd_points_jit.py along both axes.

A tile belongs to three groups of lines: all lines, those that need the fifth point, and those that need the sixth. Its
index there is the row of the tile in the matrices of the pairs with such a point.
"""

from __future__ import annotations

from ..machine.compiler import helper
from ..machine.simd import (
    address,
    both,
    buffer,
    counting,
    full,
    lanes,
    load,
    load_first,
    offset,
    pointer_like,
    select,
    store,
    store_first,
    within,
)
from .winograd_plan import PAIRS, POINTS, SLOTS, WINOGRAD
from .winograd_points_jit import points_of_gradient, points_of_input, tile_of_points

_values = buffer(PAIRS * 16)  # a vector for each pair of points


@helper
def lines_before(plan, line, group):  # type: ignore[no-untyped-def]
    """Lines of a slice before ``line`` that need the points of a group: 0 the first four, 1 the fifth, 2 the sixth."""
    return min(line, plan[WINOGRAD.counts_h + group])


@helper
def tiles_across(plan, point):  # type: ignore[no-untyped-def]
    """The number of tiles of a line that need a point along W."""
    return plan[WINOGRAD.counts_w + max(0, point - 3)]


@helper
def addresses_of_tile(source, plan, h, w, zeros, scratch):  # type: ignore[no-untyped-def]
    """The addresses of the positions that a tile reads, SLOTS for a line; padding is the row of zeros."""
    zero = full(scratch, zeros)
    for i in range(POINTS):
        inside = within(full(scratch, h + i), plan[WINOGRAD.extent + 1])
        line = source + (h + i) * plan[WINOGRAD.x + 2]
        for j in range(0, SLOTS, lanes(scratch)):
            at = counting(scratch) + (w + j)
            fits = both(inside, within(at, plan[WINOGRAD.extent + 2]))
            store(scratch, i * SLOTS + j, select(fits, at * plan[WINOGRAD.x + 3] + line, zero))


@helper
def keep(values, at, step, v0, v1, v2, v3, v4, v5):  # type: ignore[no-untyped-def]
    store(values, at, v0)
    store(values, at + step, v1)
    store(values, at + 2 * step, v2)
    store(values, at + 3 * step, v3)
    store(values, at + 4 * step, v4)
    store(values, at + 5 * step, v5)


@helper
def rows_of_line(work, plan, step, row, places, rows):  # type: ignore[no-untyped-def]
    """The addresses of a line's first tile in the matrices of all pairs, SLOTS for a point along H.

    ``step`` and ``row``: elements of a matrix and of a row of one; ``places``: the line's indices in the three groups.
    """
    most, fifth, sixth = places
    for i in range(POINTS):
        place = most
        if i == 4:
            place = fifth
        if i == 5:
            place = sixth
        for j in range(POINTS):
            at = plan[WINOGRAD.before + i * POINTS + j] * step + place * tiles_across(plan, j) * row
            rows[i * SLOTS + j] = address(offset(work, at))


@helper
def _to_products(work, rows, at, points, v0, v1, v2, v3, v4, v5):  # type: ignore[no-untyped-def]
    """The values at the points along H, each to element ``at`` after the beginning of its pair's row."""
    store(pointer_like(work, rows[0]), at, v0)
    store(pointer_like(work, rows[SLOTS]), at, v1)
    store(pointer_like(work, rows[2 * SLOTS]), at, v2)
    store(pointer_like(work, rows[3 * SLOTS]), at, v3)
    if points > 4:
        store(pointer_like(work, rows[4 * SLOTS]), at, v4)
    if points > 5:
        store(pointer_like(work, rows[5 * SLOTS]), at, v5)


@helper
def transform_input(x, plan, scratch, rows, tile, kind_h, kind_w):  # type: ignore[no-untyped-def]
    """V of a tile, whose addresses are in ``scratch``; ``tile`` is its index in the line of ``rows_of_line``."""
    values, one = _values(x), lanes(x)
    begin = tile * plan[WINOGRAD.depth_step]
    for c in range(0, plan[WINOGRAD.depth], one):
        left = plan[WINOGRAD.depth] - c
        for i in range(max(4, kind_h)):
            q = i * SLOTS
            v0, v1, v2, v3, v4, v5 = points_of_input(
                kind_w,
                load_first(pointer_like(x, scratch[q]), c, left),
                load_first(pointer_like(x, scratch[q + 1]), c, left),
                load_first(pointer_like(x, scratch[q + 2]), c, left),
                load_first(pointer_like(x, scratch[q + 3]), c, left),
                load_first(pointer_like(x, scratch[q + 4]), c, left),
                load_first(pointer_like(x, scratch[q + 5]), c, left),
            )
            keep(values, i * POINTS * one, one, v0, v1, v2, v3, v4, v5)
        for j in range(max(4, kind_w)):
            v0, v1, v2, v3, v4, v5 = points_of_input(
                kind_h,
                load(values, j * one),
                load(values, (POINTS + j) * one),
                load(values, (2 * POINTS + j) * one),
                load(values, (3 * POINTS + j) * one),
                load(values, (4 * POINTS + j) * one),
                load(values, (5 * POINTS + j) * one),
            )
            _to_products(x, offset(rows, j), begin + c, kind_h, v0, v1, v2, v3, v4, v5)


@helper
def transform_gradient(g, plan, begin, rows, tile, kind_h, kind_w):  # type: ignore[no-untyped-def]
    """A^T g A of a tile of the output's gradient, which begins at element ``begin``."""
    values, one = _values(g), lanes(g)
    to = tile * plan[WINOGRAD.column_step]
    down, right = plan[WINOGRAD.y + 2], plan[WINOGRAD.y + 3]
    zero = full(g, 0.0)
    for k in range(0, plan[WINOGRAD.columns], one):
        left = plan[WINOGRAD.columns] - k
        for i in range(kind_h - 2):
            at = begin + i * down + k
            y2, y3 = zero, zero
            if kind_w > 4:
                y2 = load_first(g, at + 2 * right, left)
            if kind_w > 5:
                y3 = load_first(g, at + 3 * right, left)
            v0, v1, v2, v3, v4, v5 = points_of_gradient(
                kind_w, load_first(g, at, left), load_first(g, at + right, left), y2, y3
            )
            keep(values, i * POINTS * one, one, v0, v1, v2, v3, v4, v5)
        for j in range(kind_w):
            v0, v1, v2, v3, v4, v5 = points_of_gradient(
                kind_h,
                load(values, j * one),
                load(values, (POINTS + j) * one),
                load(values, (2 * POINTS + j) * one),
                load(values, (3 * POINTS + j) * one),
            )
            _to_products(g, offset(rows, j), to + k, kind_h, v0, v1, v2, v3, v4, v5)


@helper
def transform_product(y, plan, rows, tile, begin, init, kind_h, kind_w, size_h, size_w):  # type: ignore[no-untyped-def]
    """A M A^T + init of a tile, to the output from element ``begin`` on."""
    values, one = _values(y), lanes(y)
    down, right = plan[WINOGRAD.y + 2], plan[WINOGRAD.y + 3]
    for k in range(0, plan[WINOGRAD.columns], one):
        left = plan[WINOGRAD.columns] - k
        at = tile * plan[WINOGRAD.column_step] + k
        for j in range(max(4, kind_w)):
            m3 = load(pointer_like(y, rows[3 * SLOTS + j]), at)
            m4, m5 = m3, m3
            if kind_h > 4:
                m4 = load(pointer_like(y, rows[4 * SLOTS + j]), at)
            if kind_h > 5:
                m5 = load(pointer_like(y, rows[5 * SLOTS + j]), at)
            y0, y1, y2, y3 = tile_of_points(
                kind_h,
                load(pointer_like(y, rows[j]), at),
                load(pointer_like(y, rows[SLOTS + j]), at),
                load(pointer_like(y, rows[2 * SLOTS + j]), at),
                m3,
                m4,
                m5,
            )
            store(values, j * one, y0)
            store(values, (POINTS + j) * one, y1)
            store(values, (2 * POINTS + j) * one, y2)
            store(values, (3 * POINTS + j) * one, y3)
        first = load_first(init, k, left)
        for i in range(size_h):
            to, q = begin + i * down + k, i * POINTS * one
            y0, y1, y2, y3 = tile_of_points(
                kind_w,
                load(values, q),
                load(values, q + one),
                load(values, q + 2 * one),
                load(values, q + 3 * one),
                load(values, q + 4 * one),
                load(values, q + 5 * one),
            )
            store_first(y, to, y0 + first, left)
            if size_w > 1:
                store_first(y, to + right, y1 + first, left)
            if size_w > 2:
                store_first(y, to + 2 * right, y2 + first, left)
            if size_w > 3:
                store_first(y, to + 3 * right, y3 + first, left)
