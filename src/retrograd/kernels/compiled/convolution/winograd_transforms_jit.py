# mypy: ignore-errors
"""Winograd transforms along one axis, of tiles, and of weights.

There are 3 taps and tiles of 4, 3 and 2 positions (``kind`` 6, 5, 4: so many points), 5 taps and tiles of 2 positions
(``kind`` 7: 6 points), and 2 taps and tiles of 3 positions (``kind`` 3: 4 points). The last two may be partial.

A correlation of taps w with m positions of x is y = A ((G w) * (B x)). With the taps, the tile and its input seen as
the coefficients of polynomials, G and B evaluate them at some points (infinity: the highest coefficient), and A
interpolates the product. The points are 0, P, -P, infinity, Q, -Q in this order, P = 5/8, Q = 3/2: a tile uses the
first ones, one less than its positions plus taps. G is the same for all tiles with the same number of taps; B contains
what depends on the number of points. The adjoints A^T and G^T make the weight gradient, gw = G^T ((A^T gy) * (B x)).

These points keep the error near that of the plain sum; the constants are binary fractions or small products of them.

Source: S. Winograd, "Arithmetic Complexity of Computations", 1980; A. Lavin, S. Gray, "Fast Algorithms for
Convolutional Neural Networks", 2015 (arXiv:1509.09308); the points: Intel's MKL-DNN.
"""

from __future__ import annotations

from ..machine.compiler import Array, helper
from ..machine.microkernel_jit import apply_formula, finish_of, finish_vector
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

# ---- Winograd's transforms along one axis ---------------------------------------------------------------------------


_P, _Q = 0.625, 1.5
_P2, _Q2 = _P * _P, _Q * _Q
_P3, _Q3 = _P * _P2, _Q * _Q2
_P4, _Q4 = _P2 * _P2, _Q2 * _Q2
_SUM, _PRODUCT, _APART = _P2 + _Q2, _P2 * _Q2, _P2 - _Q2
# of G: 1 over the product of the distances to the other finite points
_AT_0, _AT_P, _AT_Q = 1 / _PRODUCT, 1 / (2 * _P2 * _APART), -1 / (2 * _Q2 * _APART)


@helper
def points_of_kind(kind):  # type: ignore[no-untyped-def]
    """The number of points of a tile."""
    return min(POINTS, max(4, kind))


@helper
def points_of_input(kind, x0, x1, x2, x3, x4, x5):  # type: ignore[no-untyped-def]
    """B x: the values of a tile's input at the points; those that the tile does not use are undefined."""
    if kind > 5:
        even_p, odd_p = x4 - x2 * _Q2, (x3 - x1 * _Q2) * _P
        even_q, odd_q = x4 - x2 * _P2, (x3 - x1 * _P2) * _Q
        return (
            x0 * _PRODUCT - x2 * _SUM + x4,
            even_p + odd_p,
            even_p - odd_p,
            x1 * _PRODUCT - x3 * _SUM + x5,
            even_q + odd_q,
            even_q - odd_q,
        )
    if kind == 5:
        cubic = x3 - x1 * _P2
        square = x2 - x0 * _P2
        at_p = x2 * _P + x3 - (x1 * _P + x2) * _Q  # (x2 + x3/P) P ..., of t (t + P) (t - Q)
        at_minus = x3 - x2 * _P - (x2 - x1 * _P) * _Q
        return (
            (cubic - square * _Q) * _Q,
            at_p * (_P + _Q),
            at_minus * (_Q - _P),
            x4 - x2 * _P2 - cubic * _Q,
            cubic * (2 * _Q),
            cubic,
        )
    even, odd = x2 * _APART, x1 * (_P * _APART)
    return x0 * _PRODUCT - x2 * _Q2, even + odd, even - odd, x3 - x1 * _P2, even, odd


@helper
def tile_of_points(kind, m0, m1, m2, m3, m4, m5):  # type: ignore[no-untyped-def]
    """A m: the positions of a tile from the values at its points; missing positions are undefined."""
    plus, minus = m1 + m2, m1 - m2
    if kind == 7:
        return m0 + plus + (m4 + m5), minus * _P + (m4 - m5) * _Q + m3, plus, minus
    if kind == 6:
        more, less = m4 + m5, m4 - m5
        return m0 + plus + more, minus * _P + less * _Q, plus * _P2 + more * _Q2, minus * _P3 + less * _Q3 + m3
    if kind == 5:
        return m0 + plus + m4, minus * _P + m4 * _Q, plus * _P2 + m4 * _Q2 + m3, m3
    if kind == 4:
        return m0 + plus, minus * _P + m3, plus, minus
    return m0 + plus, minus * _P, plus * _P2 + m3, minus


@helper
def points_of_gradient(kind, y0, y1, y2, y3):  # type: ignore[no-untyped-def]
    """A^T y: the values at the points of a tile of the output's gradient."""
    if kind == 7:
        odd_p, odd_q = y1 * _P, y1 * _Q
        return y0, y0 + odd_p, y0 - odd_p, y1, y0 + odd_q, y0 - odd_q
    if kind == 6:
        even_p, odd_p = y0 + y2 * _P2, y1 * _P + y3 * _P3
        even_q, odd_q = y0 + y2 * _Q2, y1 * _Q + y3 * _Q3
        return y0, even_p + odd_p, even_p - odd_p, y3, even_q + odd_q, even_q - odd_q
    if kind == 5:
        even_p, odd_p = y0 + y2 * _P2, y1 * _P
        return y0, even_p + odd_p, even_p - odd_p, y2, y0 + y1 * _Q + y2 * _Q2, y0
    odd = y1 * _P
    return y0, y0 + odd, y0 - odd, y1, y0, y0


@helper
def points_of_weights(side, w0, w1, w2, w3, w4):  # type: ignore[no-untyped-def]
    """G w: the values at the points of ``side`` taps, 2 (whose tiles use the first four points), 3 or 5."""
    even_p, even_q, odd_p, odd_q, highest = w0, w0, w1 * (_P * _AT_P), w1 * (_Q * _AT_Q), w1
    if side > 2:
        even_p, even_q, highest = w0 + w2 * _P2, w0 + w2 * _Q2, w2
    if side > 3:
        even_p, even_q, highest = even_p + w4 * _P4, even_q + w4 * _Q4, w4
        odd_p, odd_q = odd_p + w3 * (_P3 * _AT_P), odd_q + w3 * (_Q3 * _AT_Q)
    even_p, even_q = even_p * _AT_P, even_q * _AT_Q
    return w0 * _AT_0, even_p + odd_p, even_p - odd_p, highest, even_q + odd_q, even_q - odd_q


@helper
def weights_of_points(side, u0, u1, u2, u3, u4, u5):  # type: ignore[no-untyped-def]
    """G^T u: the gradient to ``side`` taps, 3 or 5, from that to their values at the points; others are undefined."""
    plus_p, minus_p = (u1 + u2) * _AT_P, (u1 - u2) * (_P * _AT_P)
    plus_q, minus_q = (u4 + u5) * _AT_Q, (u4 - u5) * (_Q * _AT_Q)
    w0, w1, w2 = u0 * _AT_0 + plus_p + plus_q, minus_p + minus_q, plus_p * _P2 + plus_q * _Q2
    if side > 3:
        return w0, w1, w2, minus_p * _P2 + minus_q * _Q2, plus_p * _P4 + plus_q * _Q4 + u3
    return w0, w1, w2 + u3, w0, w1


# ---- One tile of a convolution by Winograd's transforms -------------------------------------------------------------
# A tile belongs to three groups of lines: all lines, those that need the fifth point, and those that need the sixth.
# Its index there is the row of the tile in the matrices of the pairs with such a point.


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
    down, right = plan[WINOGRAD.dilation], plan[WINOGRAD.dilation + 1]
    for i in range(POINTS):
        inside = within(full(scratch, h + i * down), plan[WINOGRAD.extent + 1])
        line = source + (h + i * down) * plan[WINOGRAD.x + 2]
        for j in range(0, SLOTS, lanes(scratch)):
            at = (counting(scratch) + j) * right + w
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
        for i in range(points_of_kind(kind_h)):
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
        for j in range(points_of_kind(kind_w)):
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
def transform_gradient(g, plan, begin, rows, tile, kind_h, kind_w, size_h, size_w):  # type: ignore[no-untyped-def]
    """A^T g A of a tile of the output's gradient, which begins at element ``begin``."""
    values, one = _values(g), lanes(g)
    to = tile * plan[WINOGRAD.column_step]
    down = plan[WINOGRAD.y + 2] * plan[WINOGRAD.dilation]
    right = plan[WINOGRAD.y + 3] * plan[WINOGRAD.dilation + 1]
    zero = full(g, 0.0)
    for k in range(0, plan[WINOGRAD.columns], one):
        left = plan[WINOGRAD.columns] - k
        if size_h == 1:  # the missing line of a partial tile
            keep(values, POINTS * one, one, zero, zero, zero, zero, zero, zero)
        for i in range(size_h):
            at = begin + i * down + k
            y1, y2, y3 = zero, zero, zero
            if size_w > 1:
                y1 = load_first(g, at + right, left)
            if size_w > 2:
                y2 = load_first(g, at + 2 * right, left)
            if size_w > 3:
                y3 = load_first(g, at + 3 * right, left)
            v0, v1, v2, v3, v4, v5 = points_of_gradient(kind_w, load_first(g, at, left), y1, y2, y3)
            keep(values, i * POINTS * one, one, v0, v1, v2, v3, v4, v5)
        for j in range(points_of_kind(kind_w)):
            v0, v1, v2, v3, v4, v5 = points_of_gradient(
                kind_h,
                load(values, j * one),
                load(values, (POINTS + j) * one),
                load(values, (2 * POINTS + j) * one),
                load(values, (3 * POINTS + j) * one),
            )
            _to_products(g, offset(rows, j), to + k, kind_h, v0, v1, v2, v3, v4, v5)


@helper
def transform_product(  # type: ignore[no-untyped-def]
    y, plan, rows, tile, begin, init, kind_h, kind_w, size_h, size_w, residual, bounds
):
    """A M A^T + init of a tile, with its finish, to the output from element ``begin`` on."""
    values, one = _values(y), lanes(y)
    down = plan[WINOGRAD.y + 2] * plan[WINOGRAD.dilation]
    right = plan[WINOGRAD.y + 3] * plan[WINOGRAD.dilation + 1]
    for k in range(0, plan[WINOGRAD.columns], one):
        left = plan[WINOGRAD.columns] - k
        at = tile * plan[WINOGRAD.column_step] + k
        for j in range(points_of_kind(kind_w)):
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
            store_first(y, to, finish_vector(y0 + first, y, to, left, residual, bounds), left)
            to += right
            if size_w > 1:
                store_first(y, to, finish_vector(y1 + first, y, to, left, residual, bounds), left)
            to += right
            if size_w > 2:
                store_first(y, to, finish_vector(y2 + first, y, to, left, residual, bounds), left)
            to += right
            if size_w > 3:
                store_first(y, to, finish_vector(y3 + first, y, to, left, residual, bounds), left)
    finish, size = finish_of(y, bounds, residual), address(offset(y, 1)) - address(y)
    for i in range(size_h if finish[2] != 0 else 0):
        apply_formula(finish, address(offset(y, begin + i * down)), size_w, right * size, plan[WINOGRAD.columns])


# ---- The weights of a convolution at the points of Winograd's transforms --------------------------------------------


@helper
def _tap(w, at, step, tap, side, left):  # type: ignore[no-untyped-def]
    """Tap number ``tap`` of a kernel line; zeros if it has fewer."""
    if tap < side:
        return load_first(w, at + tap * step, left)
    return full(w, 0.0)


@helper
def weights_of_channel(  # type: ignore[no-untyped-def]
    w, tap, at_c, target, t, c, depth, columns, width, panels, step, taps, side, turned
):
    """``weights`` for one t and c; ``tap`` elements from one tap of w to the next, and ``at_c`` before the channel."""
    values, one, area = _values(w), lanes(w), side * side
    first, own, sign = t * area * tap, t * PAIRS * step, 1
    if turned != 0:
        first, sign = (taps * area - 1) * tap - first, -1
    for panel in range(panels):
        for k in range(panel * width, min((panel + 1) * width, (columns + one - 1) // one * one), one):
            left = columns - k
            begin = first + at_c + k
            for i in range(side):
                at = begin + sign * side * i * tap
                v0, v1, v2, v3, v4, v5 = points_of_weights(
                    side,
                    load_first(w, at, left),
                    load_first(w, at + sign * tap, left),
                    _tap(w, at, sign * tap, 2, side, left),
                    _tap(w, at, sign * tap, 3, side, left),
                    _tap(w, at, sign * tap, 4, side, left),
                )
                keep(values, i * POINTS * one, one, v0, v1, v2, v3, v4, v5)
            for j in range(POINTS if side > 2 else 4):
                v0, v1, v2, v3, v4, v5 = points_of_weights(
                    side,
                    load(values, j * one),
                    load(values, (POINTS + j) * one),
                    load(values, (2 * POINTS + j) * one),
                    load(values, (3 * POINTS + j) * one),
                    load(values, (4 * POINTS + j) * one),
                )
                to = own + j * step + (panel * depth + c) * width + k - panel * width
                keep(target, to, POINTS * step, v0, v1, v2, v3, v4, v5)


def weights(
    task: int,
    worker: int,
    w: Array,
    target: Array,
    depth: int,
    row: int,
    columns: int,
    width: int,
    panels: int,
    step: int,
    taps: int,
    side: int,
    turned: int,
) -> None:
    """``target[t, e, panel, c, k] = (G w[t, :, :, c, k] G^T)_e`` for one t and c.

    w is (taps, side, side, depth, row), of which the first ``columns`` are read. ``turned``: of the kernel flipped on
    every axis, for the input gradient.
    Two taps have only the pairs of the first four points. ``step``: elements from a pair to the next.
    """
    t, c = task // depth, task % depth
    weights_of_channel(w, depth * row, c * row, target, t, c, depth, columns, width, panels, step, taps, side, turned)


def weights_back(
    task: int,
    worker: int,
    partials: Array,
    gw: Array,
    depth: int,
    row: int,
    columns: int,
    pair: int,
    step: int,
    taps: int,
    side: int,
    parts: int,
) -> None:
    """``gw[t, :, :, c, k] = G^T (sum over parts of partials[part, t, e, c, k]) G`` for one t and c.

    gw is (taps, side, side, depth, row), of which the first ``columns`` are written. ``pair``, ``step``: elements
    from a pair, and from a c, to the next.
    """
    values, one = _values(gw), lanes(gw)
    c, tap = task % depth, task // depth
    across = depth * row
    for k in range(0, columns, one):
        left = columns - k
        for e in range(PAIRS):
            at = (tap * PAIRS + e) * pair + c * step + k
            total = load(partials, at)
            for part in range(1, parts):
                total = total + load(partials, part * taps * PAIRS * pair + at)
            store(values, e * one, total)
        for j in range(POINTS):
            w0, w1, w2, w3, w4 = weights_of_points(
                side,
                load(values, j * one),
                load(values, (POINTS + j) * one),
                load(values, (2 * POINTS + j) * one),
                load(values, (3 * POINTS + j) * one),
                load(values, (4 * POINTS + j) * one),
                load(values, (5 * POINTS + j) * one),
            )
            keep(values, j * one, POINTS * one, w0, w1, w2, w3, w4, w4)
        for i in range(side):
            q = i * POINTS * one
            w0, w1, w2, w3, w4 = weights_of_points(
                side,
                load(values, q),
                load(values, q + one),
                load(values, q + 2 * one),
                load(values, q + 3 * one),
                load(values, q + 4 * one),
                load(values, q + 5 * one),
            )
            at = (tap * side + i) * side * across + c * row + k
            store_first(gw, at, w0, left)
            store_first(gw, at + across, w1, left)
            store_first(gw, at + 2 * across, w2, left)
            if side > 3:
                store_first(gw, at + 3 * across, w3, left)
                store_first(gw, at + 4 * across, w4, left)
