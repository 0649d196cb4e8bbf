"""What one task of a convolution by Winograd's transforms does. The plan that it reads is made in ../winograd_plan.py.

With the transforms of ``points.py`` along both axes, every pair e of points has a matrix product of its own: of the
transformed input V_e (tiles, channels) and weights U_e (channels, columns), M_e = V_e U_e, or dU_e = V_e^T M_e.
"""

from __future__ import annotations

from .. import winograd_plan as word
from ..compiler import helper
from ..microkernel import MOST_ROWS
from ..simd import (
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
from .convolution import tile_begin
from .microkernel import brgemm
from .points import points_of_gradient, points_of_input, tile_of_points

_POINTS, _SLOTS = word.POINTS, word.SLOTS
_PAIRS = _POINTS * _POINTS
_values = buffer(_PAIRS * 16)  # a vector for each pair of points


@helper
def _rank(line, plan, group):  # type: ignore[no-untyped-def]
    """How many of the lines before ``line`` need the points of a group: 0 the first four, 1 the fifth, 2 the sixth."""
    lines = plan[word.LINES]
    return line // lines * plan[word.COUNTS_H + group] + min(line % lines, plan[word.COUNTS_H + group])


@helper
def _addresses_of_tile(source, plan, h, w, zeros, scratch):  # type: ignore[no-untyped-def]
    """The addresses of the positions that a tile reads, SLOTS for a line; padding is the row of zeros."""
    zero = full(scratch, zeros)
    for i in range(_POINTS):
        inside = within(full(scratch, h + i), plan[word.EXTENT])
        line = source + (h + i) * plan[word.X + 1]
        for j in range(0, _SLOTS, lanes(scratch)):
            at = counting(scratch) + (w + j)
            fits = both(inside, within(at, plan[word.EXTENT + 1]))
            store(scratch, i * _SLOTS + j, select(fits, at * plan[word.X + 2] + line, zero))


@helper
def keep(values, at, step, v0, v1, v2, v3, v4, v5):  # type: ignore[no-untyped-def]
    store(values, at, v0)
    store(values, at + step, v1)
    store(values, at + 2 * step, v2)
    store(values, at + 3 * step, v3)
    store(values, at + 4 * step, v4)
    store(values, at + 5 * step, v5)


@helper
def _to_products(work, at, pair, first, row, lines, points, v0, v1, v2, v3, v4, v5):  # type: ignore[no-untyped-def]
    """The values at the points along H, each to the tile's row of its pair's matrix."""
    most, fifth, sixth = lines
    here = at + (most * row + first) * pair[1]
    store(work, here, v0)
    store(work, here + pair[0], v1)
    store(work, here + 2 * pair[0], v2)
    store(work, here + 3 * pair[0], v3)
    if points > 4:
        store(work, at + 4 * pair[0] + (fifth * row + first) * pair[1], v4)
    if points > 5:
        store(work, at + 5 * pair[0] + (sixth * row + first) * pair[1], v5)


@helper
def _across(plan, point):  # type: ignore[no-untyped-def]
    """How many tiles of a line need a point along W."""
    return plan[word.COUNTS_W + max(0, point - 3)]


@helper
def _transform_input(x, plan, scratch, work, own, tile, lines, points_h, points_w):  # type: ignore[no-untyped-def]
    """V of a tile, whose addresses stand in ``scratch``; ``tile`` is its place in the line."""
    values, one = _values(x), lanes(x)
    step = plan[word.INPUT_STEP]
    for c in range(0, plan[word.DEPTH], one):
        left = plan[word.DEPTH] - c
        for i in range(points_h):
            q = i * _SLOTS
            v0, v1, v2, v3, v4, v5 = points_of_input(
                points_w,
                load_first(pointer_like(x, scratch[q]), c, left), load_first(pointer_like(x, scratch[q + 1]), c, left),
                load_first(pointer_like(x, scratch[q + 2]), c, left),
                load_first(pointer_like(x, scratch[q + 3]), c, left),
                load_first(pointer_like(x, scratch[q + 4]), c, left),
                load_first(pointer_like(x, scratch[q + 5]), c, left),
            )  # fmt: skip
            keep(values, i * _POINTS * one, one, v0, v1, v2, v3, v4, v5)
        for j in range(points_w):
            v0, v1, v2, v3, v4, v5 = points_of_input(
                points_h, load(values, j * one), load(values, (_POINTS + j) * one),
                load(values, (2 * _POINTS + j) * one), load(values, (3 * _POINTS + j) * one),
                load(values, (4 * _POINTS + j) * one), load(values, (5 * _POINTS + j) * one),
            )  # fmt: skip
            _to_products(
                work, own + j * step + c, (_POINTS * step, plan[word.DEPTH_STEP]), tile, _across(plan, j), lines,
                points_h, v0, v1, v2, v3, v4, v5,
            )  # fmt: skip


@helper
def _transform_gradient(g, plan, begin, work, own, tile, lines, points_h, points_w):  # type: ignore[no-untyped-def]
    """A^T g A of a tile of the output's gradient, which begins at element ``begin``."""
    values, one = _values(g), lanes(g)
    step = plan[word.PRODUCT_STEP]
    down, right = plan[word.Y + 1], plan[word.Y + 2]
    zero = full(g, 0.0)
    for k in range(0, plan[word.COLUMNS], one):
        left = plan[word.COLUMNS] - k
        for i in range(points_h - 2):
            at = begin + i * down + k
            y2, y3 = zero, zero
            if points_w > 4:
                y2 = load_first(g, at + 2 * right, left)
            if points_w > 5:
                y3 = load_first(g, at + 3 * right, left)
            v0, v1, v2, v3, v4, v5 = points_of_gradient(
                points_w, load_first(g, at, left), load_first(g, at + right, left), y2, y3
            )
            keep(values, i * _POINTS * one, one, v0, v1, v2, v3, v4, v5)
        for j in range(points_w):
            v0, v1, v2, v3, v4, v5 = points_of_gradient(
                points_h, load(values, j * one), load(values, (_POINTS + j) * one),
                load(values, (2 * _POINTS + j) * one), load(values, (3 * _POINTS + j) * one),
            )  # fmt: skip
            _to_products(
                work, own + j * step + k, (_POINTS * step, plan[word.COLUMN_STEP]), tile, _across(plan, j), lines,
                points_h, v0, v1, v2, v3, v4, v5,
            )  # fmt: skip


@helper
def _transform_product(work, plan, own, y, begin, init, tile, lines, points_h, points_w):  # type: ignore[no-untyped-def]
    """A M A^T + init of a tile, to the output from element ``begin`` on."""
    values, one = _values(y), lanes(y)
    row, down, right = plan[word.COLUMN_STEP], plan[word.Y + 1], plan[word.Y + 2]
    step = plan[word.PRODUCT_STEP]
    pair = _POINTS * step
    most, fifth, sixth = lines
    for k in range(0, plan[word.COLUMNS], one):
        left = plan[word.COLUMNS] - k
        for j in range(points_w):
            across = _across(plan, j)
            at = own + j * step + k
            here = at + (most * across + tile) * row
            m4 = load(work, here)
            m5 = m4
            if points_h > 4:
                m4 = load(work, at + 4 * pair + (fifth * across + tile) * row)
            if points_h > 5:
                m5 = load(work, at + 5 * pair + (sixth * across + tile) * row)
            y0, y1, y2, y3 = tile_of_points(
                points_h, load(work, here), load(work, here + pair), load(work, here + 2 * pair),
                load(work, here + 3 * pair), m4, m5,
            )  # fmt: skip
            store(values, j * one, y0)
            store(values, (_POINTS + j) * one, y1)
            store(values, (2 * _POINTS + j) * one, y2)
            store(values, (3 * _POINTS + j) * one, y3)
        first = load_first(init, k, left)
        for i in range(points_h - 2):
            at, q = begin + i * down + k, i * _POINTS * one
            y0, y1, y2, y3 = tile_of_points(
                points_w, load(values, q), load(values, q + one), load(values, q + 2 * one), load(values, q + 3 * one),
                load(values, q + 4 * one), load(values, q + 5 * one),
            )  # fmt: skip
            store_first(y, at, y0 + first, left)
            store_first(y, at + right, y1 + first, left)
            if points_w > 4:
                store_first(y, at + 2 * right, y2 + first, left)
            if points_w > 5:
                store_first(y, at + 3 * right, y3 + first, left)


@helper
def _ranks(line, origin, plan):  # type: ignore[no-untyped-def]
    """The place of a line among those from ``origin`` on, in the matrices of the three groups of points."""
    return line - origin, _rank(line, plan, 1) - _rank(origin, plan, 1), _rank(line, plan, 2) - _rank(origin, plan, 2)


@helper
def _transform_lines(x, g, plan, origin, first, last, zeros, scratch, work, of_x, of_g):  # type: ignore[no-untyped-def]
    """V of some lines of the block that begins at ``origin``; with ``of_g`` the transformed gradient, too."""
    lines, across = plan[word.LINES], plan[word.COUNTS_W]
    for line in range(first, last):
        image = line // lines
        at_h = word.LIST + 2 * (line - image * lines)
        h, points_h = plan[at_h], plan[at_h + 1] + 2
        ranks = _ranks(line, origin, plan)
        for tile in range(across):
            at_w = word.LIST + 2 * (lines + tile)
            w, points_w = plan[at_w], plan[at_w + 1] + 2
            _addresses_of_tile(
                address(x) + image * plan[word.X], plan, h - plan[word.LOW], w - plan[word.LOW + 1], zeros, scratch
            )
            _transform_input(x, plan, scratch, work, of_x, tile, ranks, points_h, points_w)
            if of_g >= 0:
                begin = image * plan[word.Y] + h * plan[word.Y + 1] + w * plan[word.Y + 2]
                _transform_gradient(g, plan, begin, work, of_g, tile, ranks, points_h, points_w)


@helper
def _transform_back(work, product, plan, origin, first, last, init, y):  # type: ignore[no-untyped-def]
    """The output of some lines of the block that begins at ``origin``."""
    lines = plan[word.LINES]
    for line in range(first, last):
        image = line // lines
        at_h = word.LIST + 2 * (line - image * lines)
        ranks = _ranks(line, origin, plan)
        for tile in range(plan[word.COUNTS_W]):
            at_w = word.LIST + 2 * (lines + tile)
            begin = image * plan[word.Y] + plan[at_h] * plan[word.Y + 1] + plan[at_w] * plan[word.Y + 2]
            _transform_product(work, plan, product, y, begin, init, tile, ranks, plan[at_h + 1] + 2, plan[at_w + 1] + 2)


@helper
def _list_rows(work, of_v, of_m, plan, count, table):  # type: ignore[no-untyped-def]
    """The addresses of the rows of V and of M, for the first pair of points."""
    for i in range(count):
        table[i] = address(offset(work, of_v + i * plan[word.DEPTH_STEP]))
        table[plan[word.MOST] + i] = address(offset(work, of_m + i * plan[word.COLUMN_STEP]))


@helper
def _multiply(pair, first, last, weights, zeros, plan, table):  # type: ignore[no-untyped-def]
    """M_e = V_e U_e of the lines of a block."""
    group = max(0, pair // _POINTS - 3)
    rows = (_rank(last, plan, group) - _rank(first, plan, group)) * _across(plan, pair % _POINTS)
    if rows == 0:
        return
    depth, width, panels, size = plan[word.DEPTH], plan[word.WIDTH], plan[word.PANELS], plan[word.SIZE]
    tiles = (rows + plan[word.ROWS] - 1) // plan[word.ROWS]
    least = rows // tiles
    extra = rows - least * tiles
    for panel in range(panels):
        micro = word.MICRO - 1 + (MOST_ROWS if panel == panels - 1 else 0)
        b = address(weights) + (pair * panels + panel) * depth * width * size
        for tile in range(tiles):
            row = tile_begin(tile, least, extra)
            brgemm(
                plan[micro + least + (1 if tile < extra else 0)], address(offset(table, row)), 1, depth,
                pair * plan[word.INPUT_STEP], b, 0, width * size, address(offset(table, plan[word.MOST] + row)),
                (pair * plan[word.PRODUCT_STEP] + panel * width) * size, lanes(weights), zeros, 0,
            )  # fmt: skip


@helper
def _accumulate(pair, origin, first, last, end, work, of_v, of_m, target, zeros, plan, table):  # type: ignore[no-untyped-def]
    """dU_e += V_e^T M_e of the block from ``first`` to ``last``; sums run from ``origin`` to ``end``.

    ``table``: two addresses for the operands, then those of the rows of dU_0.
    """
    group = max(0, pair // _POINTS - 3)
    across, size, depth = _across(plan, pair % _POINTS), plan[word.SIZE], plan[word.DEPTH]
    before = (_rank(first, plan, group) - _rank(origin, plan, group)) * across
    rows = (_rank(last, plan, group) - _rank(first, plan, group)) * across
    if rows == 0 and (before > 0 or last < end):
        return
    table[0], table[1] = address(offset(work, of_v)), address(offset(work, of_m))
    move_a, move_b = pair * plan[word.INPUT_STEP] * size, pair * plan[word.PRODUCT_STEP] * size
    lda, ldb = plan[word.DEPTH_STEP] * size, plan[word.COLUMN_STEP] * size
    if rows == 0:  # no tile needs these points: 0 * 0
        table[0], table[1] = zeros, zeros
        rows, move_a, move_b, lda, ldb = 1, 0, 0, 0, 0
    for i in range(depth):
        table[2 + i] = target + i * plan[word.COLUMN_STEP] * size
    tiles = (depth + plan[word.ROWS] - 1) // plan[word.ROWS]
    least = depth // tiles
    extra = depth - least * tiles
    for panel in range(plan[word.PANELS]):
        micro = word.MICRO - 1 + (MOST_ROWS if panel == plan[word.PANELS] - 1 else 0)
        column = panel * plan[word.WIDTH]
        for tile in range(tiles):
            row = tile_begin(tile, least, extra)
            brgemm(
                plan[micro + least + (1 if tile < extra else 0)], address(table), 1, rows, lda, move_b + column * size,
                move_a + row * size, ldb, address(offset(table, 2 + row)),
                (pair * depth * plan[word.COLUMN_STEP] + column) * size, lanes(work), zeros, 1 if before > 0 else 0,
            )  # fmt: skip


def gather(
    task: int, worker: int, x: Array, weights: Array, init: Array, y: Array, zeros: Array, work: Array,
    work_words: int, plan: Table, scratch: Table, scratch_words: int,
) -> None:  # fmt: skip
    """Some lines of ``y[o] = init + sum over the nine taps r of x[o + r - low] @ weights[r]``."""
    of_v = worker * work_words
    of_m = of_v + _PAIRS * plan[word.INPUT_STEP]
    table = offset(scratch, worker * scratch_words)
    rows = offset(table, _POINTS * _SLOTS)
    bounds = plan[word.TASKS] + 2 * task
    first, last = plan[bounds], plan[bounds + 1]
    _transform_lines(x, y, plan, first, first, last, address(zeros), table, work, of_v, -1)
    _list_rows(work, of_v, of_m, plan, (last - first) * plan[word.COUNTS_W], rows)
    for pair in range(_PAIRS):
        _multiply(pair, first, last, weights, address(zeros), plan, rows)
    _transform_back(work, of_m, plan, first, first, last, init, y)


def weight_grad(
    task: int, worker: int, x: Array, g: Array, target: Array, zeros: Array, work: Array, work_words: int,
    plan: Table, scratch: Table, scratch_words: int,
) -> None:  # fmt: skip
    """Some lines of the gradient to the transformed weights, ``target[task, e] = V_e^T M_e``."""
    of_v = worker * work_words
    of_m = of_v + _PAIRS * plan[word.INPUT_STEP]
    table = offset(scratch, worker * scratch_words)
    rows = offset(table, _POINTS * _SLOTS)
    bounds = plan[word.TASKS] + 2 * task
    first, last = plan[bounds], plan[bounds + 1]
    target_at = address(offset(target, task * plan[word.ELEMENTS]))
    for block in range(first, last, plan[word.BLOCK]):
        end = min(block + plan[word.BLOCK], last)
        _transform_lines(x, g, plan, block, block, end, address(zeros), table, work, of_v, of_m)
        for pair in range(_PAIRS):
            _accumulate(pair, first, block, end, last, work, of_v, of_m, target_at, address(zeros), plan, rows)


def transform(
    task: int, worker: int, x: Array, g: Array, zeros: Array, work: Array, plan: Table, origin: int,
    with_gradient: int, scratch: Table, scratch_words: int,
) -> None:  # fmt: skip
    """V (and the transformed gradient) of a line of a block that all threads share."""
    of_m = _PAIRS * plan[word.INPUT_STEP] if with_gradient != 0 else -1
    line, table = origin + task, offset(scratch, worker * scratch_words)
    _transform_lines(x, g, plan, origin, line, line + 1, address(zeros), table, work, 0, of_m)


def multiply(
    task: int, worker: int, weights: Array, zeros: Array, work: Array, plan: Table, origin: int, last: int,
    scratch: Table, scratch_words: int,
) -> None:  # fmt: skip
    """M_e = V_e U_e for one pair of points and the block that all threads share."""
    rows = offset(scratch, worker * scratch_words + _POINTS * _SLOTS)
    _list_rows(work, 0, _PAIRS * plan[word.INPUT_STEP], plan, (last - origin) * plan[word.COUNTS_W], rows)
    _multiply(task, origin, last, weights, address(zeros), plan, rows)


def transform_back(
    task: int, worker: int, work: Array, init: Array, y: Array, plan: Table, origin: int,
) -> None:  # fmt: skip
    """The output of a line of a block that all threads share."""
    line = origin + task
    _transform_back(work, _PAIRS * plan[word.INPUT_STEP], plan, origin, line, line + 1, init, y)


def accumulate(
    task: int, worker: int, target: Array, part: int, zeros: Array, work: Array, plan: Table, origin: int, first: int,
    last: int, end: int, scratch: Table, scratch_words: int,
) -> None:  # fmt: skip
    """dU_e += V_e^T M_e for one pair of points and a block that threads share; the part is of lines origin to end."""
    rows = offset(scratch, worker * scratch_words + _POINTS * _SLOTS)
    target_at = address(offset(target, part * plan[word.ELEMENTS]))
    of_m = _PAIRS * plan[word.INPUT_STEP]
    _accumulate(task, origin, first, last, end, work, 0, of_m, target_at, address(zeros), plan, rows)
