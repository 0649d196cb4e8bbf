# mypy: ignore-errors
"""Tasks of Winograd convolution, with prefetching.

A product of a block has its operands in the cache and leaves memory idle; a transform touches memory and hardly
computes. So the input of the next block and the output of this one are prefetched bit by bit between the products of
the pairs.

Every pair e of points has a separate matrix product, of the transformed input V_e (tiles, channels) and the weights
U_e (channels, columns): M_e = V_e U_e, or dU_e = V_e^T M_e. With taps along D, the product is a sum over these: of the
tiles at the same position in adjacent slices.
"""

from __future__ import annotations

from ..machine.compiler import Array, Table, helper
from ..machine.microkernel import PRODUCT
from ..machine.microkernel_jit import NO_FINISH, begin_of_tile, multiply, rows_of_tile
from ..machine.simd import address, ahead_by, counting, lanes, offset, store, transpose, transpose_first
from .winograd_plan import BLOCK, PAIRS, PART, POINTS, SLOTS, TERMS, TILE, WINOGRAD
from .winograd_transforms_jit import (
    addresses_of_tile,
    lines_before,
    rows_of_line,
    tiles_across,
    transform_gradient,
    transform_input,
    transform_product,
    weights_of_channel,
)

# ---- Memory that a convolution by Winograd's transforms soon needs, prefetched while it multiplies ------------------


_CACHE_LINE = 64  # bytes of a cache line
_read, _write = ahead_by(0), ahead_by(0, write=True)


@helper
def input_lines(plan, block):  # type: ignore[no-untyped-def]
    """The first element of the input of a block, and the number of cache lines to prefetch from there."""
    _, _, line_first, line_last, begin, end = block
    low, rows, size = plan[WINOGRAD.low + 1], plan[WINOGRAD.extent + 1], plan[WINOGRAD.size]
    first = max(0, _row(plan, line_first) - low)
    last = min(rows, _row(plan, line_last) - low + plan[WINOGRAD.side] - 1)
    at, depths, width = WINOGRAD.x, plan[WINOGRAD.extent], plan[WINOGRAD.extent + 2]
    n, d, h = plan[at] // size, plan[at + 1] // size, plan[at + 2] // size
    return _lines(plan, n, d, h, depths, begin, end, first, last, width * plan[WINOGRAD.depth])


@helper
def output_lines(plan, block):  # type: ignore[no-untyped-def]
    """As ``input_lines`` for the output of a block, or the gradient to it."""
    begin, end, line_first, line_last, _, _ = block
    at = WINOGRAD.y
    tile = WINOGRAD.list + TILE.words * (plan[WINOGRAD.lines] + plan[WINOGRAD.counts_w] - 1)
    width = plan[tile + TILE.begin] + plan[tile + TILE.size]
    return _lines(
        plan,
        plan[at],
        plan[at + 1],
        plan[at + 2],
        plan[WINOGRAD.slices],
        begin,
        end,
        _row(plan, line_first),
        _row(plan, line_last),
        width * plan[WINOGRAD.columns],
    )


@helper
def read_soon(p, begin, lines, pair, size):  # type: ignore[no-untyped-def]
    """Prefetch the part of some cache lines that is due with a pair of points."""
    step = 8 if size == 8 else 16  # elements of a line
    first, last = pair * lines // PAIRS, (pair + 1) * lines // PAIRS
    for at in range(begin + first * step, begin + last * step, step):
        _read(p, at)


@helper
def write_soon(p, begin, lines, pair, size):  # type: ignore[no-untyped-def]
    """As ``read_soon``, for writing."""
    step = 8 if size == 8 else 16
    first, last = pair * lines // PAIRS, (pair + 1) * lines // PAIRS
    for at in range(begin + first * step, begin + last * step, step):
        _write(p, at)


@helper
def _row(plan, line):  # type: ignore[no-untyped-def]
    """The first row of a line of tiles; for the end of the lines, the end of the rows."""
    if line < plan[WINOGRAD.lines]:
        return plan[WINOGRAD.list + TILE.words * line + TILE.begin]
    last = WINOGRAD.list + TILE.words * (line - 1)
    return plan[last + TILE.begin] + plan[last + TILE.size]


@helper
def _lines(plan, n, d, h, depths, begin, end, first, last, of_row):  # type: ignore[no-untyped-def]
    """The memory from row ``first`` of slice ``begin`` to row ``last`` of slice ``end``, if at least half of it is
    used. ``n``, ``d``, ``h``: elements from one image, slice and row to the next; ``of_row``: used of a row."""
    image, image_last = begin // depths, (end - 1) // depths
    start = image * n + (begin - image * depths) * d + first * h
    stop = image_last * n + (end - 1 - image_last * depths) * d + last * h
    if plan[WINOGRAD.ahead] == 0 or stop - start > 2 * (end - begin) * (last - first) * of_row:
        return start, 0
    return start, max(0, stop - start) * plan[WINOGRAD.size] // _CACHE_LINE


# ---- One task of a convolution by Winograd's transforms. Its plan is made in winograd_plan.py -----------------------


# weights of more bytes are prefetched so many rows ahead: their pieces form no stream that a CPU recognizes
_FAR, _ROWS_AHEAD = 4 << 20, 8


@helper
def _block(plan, index):  # type: ignore[no-untyped-def]
    """First and last slice, first and last line of a block, and the first and last slice of the input that it reads."""
    at = plan[WINOGRAD.blocks] + BLOCK.words * index
    first, last = plan[at + BLOCK.first], plan[at + BLOCK.last]
    begin, end = first, last
    if plan[WINOGRAD.alone] == 0:
        slices = plan[WINOGRAD.slices]
        image = first // slices
        low, extent = plan[WINOGRAD.low], plan[WINOGRAD.extent]
        begin = min(max(0, first - image * slices - low), extent)
        end = max(begin, min(extent, last - 1 - image * slices - low + plan[WINOGRAD.taps]))
        begin += image * extent
        end += image * extent
    return first, last, plan[at + BLOCK.line_first], plan[at + BLOCK.line_last], begin, end


@helper
def _part(plan, task):  # type: ignore[no-untyped-def]
    """The first and last block of a task."""
    at = plan[WINOGRAD.blocks] + BLOCK.words * plan[WINOGRAD.count] + PART.words * task
    return plan[at + PART.first], plan[at + PART.last]


@helper
def _known_lines(plan, index):  # type: ignore[no-untyped-def]
    """The lines of the input that the block before has transformed."""
    at = plan[WINOGRAD.blocks] + BLOCK.words * index
    return plan[at + BLOCK.known] * (plan[at + BLOCK.line_last] - plan[at + BLOCK.line_first])


@helper
def _kept_at(plan, block, slice):  # type: ignore[no-untyped-def]
    """The slices before the place of a slice of the input in the matrices of a block."""
    return slice - block[4] if plan[WINOGRAD.alone] != 0 else slice % plan[WINOGRAD.ring]


@helper
def _kind(plan, size):  # type: ignore[no-untyped-def]
    """The kind of transform of a tile of ``size`` positions; tiles of two or five taps may be partial."""
    side = plan[WINOGRAD.side]
    if side == 3:
        return size + 2
    return 7 if side == 5 else 3


@helper
def _places(plan, slices, line_first, line_last, line):  # type: ignore[no-untyped-def]
    """The index of a line in the three groups, with ``slices`` slices of the block before it."""
    fifth, sixth = lines_before(plan, line_first, 1), lines_before(plan, line_first, 2)
    return (
        slices * (line_last - line_first) + line - line_first,
        slices * (lines_before(plan, line_last, 1) - fifth) + lines_before(plan, line, 1) - fifth,
        slices * (lines_before(plan, line_last, 2) - sixth) + lines_before(plan, line, 2) - sixth,
    )


@helper
def _transform_inputs(x, plan, block, first, last, zeros, scratch, matrices):  # type: ignore[no-untyped-def]
    """V of some lines of a block, counted through its slices of the input; the first matrix begins at ``matrices``."""
    rows = offset(scratch, POINTS * SLOTS)
    _, _, line_first, line_last, begin, _ = block
    lines, depths = line_last - line_first, plan[WINOGRAD.extent]
    for index in range(first, last):
        slice = begin + index // lines
        line = line_first + index % lines
        image = slice // depths
        source = address(x) + image * plan[WINOGRAD.x] + (slice - image * depths) * plan[WINOGRAD.x + 1]
        at_h = WINOGRAD.list + TILE.words * line
        places = _places(plan, _kept_at(plan, block, slice), line_first, line_last, line)
        rows_of_line(matrices, plan, plan[WINOGRAD.input_step], plan[WINOGRAD.depth_step], places, rows)
        for tile in range(plan[WINOGRAD.counts_w]):
            at_w = WINOGRAD.list + TILE.words * (plan[WINOGRAD.lines] + tile)
            h, w = plan[at_h + TILE.begin] - plan[WINOGRAD.low + 1], plan[at_w + TILE.begin] - plan[WINOGRAD.low + 2]
            addresses_of_tile(source, plan, h, w, zeros, scratch)
            kind_h, kind_w = _kind(plan, plan[at_h + TILE.size]), _kind(plan, plan[at_w + TILE.size])
            transform_input(x, plan, scratch, rows, tile, kind_h, kind_w)


@helper
def _transform_outputs(  # type: ignore[no-untyped-def]
    y, plan, block, first, last, init, scratch, matrices, back, residual, bounds
):
    """Some lines of a block, counted through its slices: ``back`` from M to the output, else the gradient to M."""
    slice_first, _, line_first, line_last, _, _ = block
    lines, depths = line_last - line_first, plan[WINOGRAD.slices]
    rows = offset(scratch, POINTS * SLOTS)
    for index in range(first, last):
        ahead = index // lines
        line = line_first + index - ahead * lines
        image = (slice_first + ahead) // depths
        origin = image * plan[WINOGRAD.y] + (slice_first + ahead - image * depths) * plan[WINOGRAD.y + 1]
        at_h = WINOGRAD.list + TILE.words * line
        places = _places(plan, ahead, line_first, line_last, line)
        rows_of_line(matrices, plan, plan[WINOGRAD.product_step], plan[WINOGRAD.column_step], places, rows)
        for tile in range(plan[WINOGRAD.counts_w]):
            at_w = WINOGRAD.list + TILE.words * (plan[WINOGRAD.lines] + tile)
            begin = origin + plan[at_h + TILE.begin] * plan[WINOGRAD.y + 2]
            begin += plan[at_w + TILE.begin] * plan[WINOGRAD.y + 3]
            size_h, size_w = plan[at_h + TILE.size], plan[at_w + TILE.size]
            kind_h, kind_w = _kind(plan, size_h), _kind(plan, size_w)
            if back:
                transform_product(y, plan, rows, tile, begin, init, kind_h, kind_w, size_h, size_w, residual, bounds)
            else:
                transform_gradient(y, plan, begin, rows, tile, kind_h, kind_w, size_h, size_w)


@helper
def _rows_of_pair(plan, block, pair):  # type: ignore[no-untyped-def]
    """The number of tiles of a slice of the block that need a pair of points."""
    group = max(0, pair // POINTS - 3)
    lines = lines_before(plan, block[3], group) - lines_before(plan, block[2], group)
    return lines * tiles_across(plan, pair % POINTS)


@helper
def _reached(plan, block, slice, tap):  # type: ignore[no-untyped-def]
    """The slice of the input that a tap of a slice of the output reads; -1 for padding."""
    if plan[WINOGRAD.alone] != 0:
        return slice
    image = slice // plan[WINOGRAD.slices]
    at = slice - image * plan[WINOGRAD.slices] + tap - plan[WINOGRAD.low]
    if at < 0 or at >= plan[WINOGRAD.extent]:
        return -1
    return image * plan[WINOGRAD.extent] + at


@helper
def _multiply(pair, block, weights, zeros, plan, v, m, table):  # type: ignore[no-untyped-def]
    """M_e = sum over taps along D of V_e U_e, of matrices that begin at the addresses v and m."""
    slice_first, slice_last, _, _, _, _ = block
    rows = _rows_of_pair(plan, block, pair)
    if rows == 0:
        return
    product, depth, size = offset(plan, WINOGRAD.product), plan[WINOGRAD.depth], plan[WINOGRAD.size]
    row_of_panel, panels = product[PRODUCT.row], product[PRODUCT.panels]
    together, spans = rows, slice_last - slice_first
    if plan[WINOGRAD.alone] != 0:  # slices that read only themselves form one matrix
        together, spans = rows * spans, 1
    tiles = (together + plan[WINOGRAD.rows] - 1) // plan[WINOGRAD.rows]
    least = together // tiles
    extra = together - least * tiles
    step_v, step_m = plan[WINOGRAD.depth_step] * size, plan[WINOGRAD.column_step] * size
    matrix = plan[WINOGRAD.before + pair] * plan[WINOGRAD.input_step]
    for span in range(spans):
        entries, tap_first = 0, 0
        reached = 0
        for tap in range(plan[WINOGRAD.taps]):
            at = _reached(plan, block, slice_first + span, tap)
            if at >= 0:
                if entries == 0:
                    tap_first, reached = tap, at
                entries += 1
        for panel in range(panels):
            b = address(weights) + tap_first * plan[WINOGRAD.tap_step] * size
            b += pair * plan[WINOGRAD.weight_step] * size + panel * depth * row_of_panel
            for tile in range(tiles):
                row, rows_of_a = begin_of_tile(tile, least, extra), least + (1 if tile < extra else 0)
                for i in range(0, SLOTS, lanes(table)):
                    store(table, i, (counting(table) + (span * together + row + i)) * step_m + m)
                    for entry in range(entries):
                        from_row = _kept_at(plan, block, reached + entry) * rows + row + i
                        store(table, (1 + entry) * SLOTS + i, (counting(table) + from_row) * step_v + v)
                    if entries == 0:
                        store(table, SLOTS + i, counting(table) * 0 + zeros)
                column = plan[WINOGRAD.before + pair] * plan[WINOGRAD.product_step] * size + panel * row_of_panel
                if entries == 0:  # only padding: 0 * 0
                    multiply(
                        product,
                        rows_of_a,
                        panel,
                        address(offset(table, SLOTS)),
                        1,
                        1,
                        0,
                        zeros,
                        0,
                        0,
                        address(table),
                        column,
                        zeros,
                        0,
                        NO_FINISH,
                    )
                for k in range(0, depth if entries > 0 else 0, TERMS):
                    multiply(
                        product,
                        rows_of_a,
                        panel,
                        address(offset(table, SLOTS)),
                        entries,
                        min(TERMS, depth - k),
                        matrix + k,
                        b + k * row_of_panel,
                        plan[WINOGRAD.tap_step] * size,
                        row_of_panel,
                        address(table),
                        column,
                        zeros,
                        1 if k > 0 else 0,
                        NO_FINISH,
                    )


@helper
def _accumulate(tap, pair, block, more, work, of_v, of_m, target, zeros, plan, table):  # type: ignore[no-untyped-def]
    """dU_e of a tap along D = V_e^T M_e of a block, added to the existing sum if ``more``."""
    slice_first, slice_last, _, _, _, _ = block
    size, depth, rows = plan[WINOGRAD.size], plan[WINOGRAD.depth], _rows_of_pair(plan, block, pair)
    step_v, step_m = plan[WINOGRAD.depth_step] * size, plan[WINOGRAD.column_step] * size
    rows_of_c = offset(table, 2 * (slice_last - slice_first))
    entries = 0
    if plan[WINOGRAD.alone] != 0:
        rows *= slice_last - slice_first
        table[0], table[1] = address(offset(work, of_v)), address(offset(work, of_m))
        entries = 1
    else:
        for slice in range(slice_first, slice_last):
            at = _reached(plan, block, slice, tap)
            if at >= 0:
                table[2 * entries] = address(offset(work, of_v)) + _kept_at(plan, block, at) * rows * step_v
                table[2 * entries + 1] = address(offset(work, of_m)) + (slice - slice_first) * rows * step_m
                entries += 1
    move_v, move_m = pair * plan[WINOGRAD.input_step] * size, pair * plan[WINOGRAD.product_step] * size
    if rows == 0 or entries == 0:
        if more:
            return
        table[0], table[1] = zeros, zeros  # empty sum: 0 * 0
        entries, rows, move_v, move_m, step_v, step_m = 1, 1, 0, 0, 0, 0
    for i in range(depth):
        at = (tap * PAIRS + pair) * plan[WINOGRAD.weight_step] + i * plan[WINOGRAD.column_step]
        rows_of_c[i] = target + at * size
    product = offset(plan, WINOGRAD.product)
    for panel in range(product[PRODUCT.panels]):
        column = panel * product[PRODUCT.row]
        for tile in range(product[PRODUCT.tiles]):
            row, rows_of_u = rows_of_tile(product, tile)
            multiply(
                product,
                rows_of_u,
                panel,
                address(table),
                entries,
                rows,
                step_v,
                move_m + (column if step_m > 0 else 0),
                move_v + (row * size if step_v > 0 else 0),
                step_m,
                address(offset(rows_of_c, row)),
                column,
                zeros,
                1 if more else 0,
                NO_FINISH,
            )


@helper
def _lines_of(block):  # type: ignore[no-untyped-def]
    """All lines of a block: of the input, and of the output."""
    slice_first, slice_last, line_first, line_last, begin, end = block
    return (end - begin) * (line_last - line_first), (slice_last - slice_first) * (line_last - line_first)


def gather(
    task: int,
    worker: int,
    x: Array,
    weights: Array,
    init: Array,
    y: Array,
    zeros: Array,
    work: Array,
    work_words: int,
    plan: Table,
    scratch: Table,
    scratch_words: int,
    residual: Array,
    bounds: Array,
) -> None:
    """Some blocks of ``y[o] = init + sum over the taps r of x[o + r - low] @ weights[r]``."""
    matrices, table = offset(work, worker * work_words), offset(scratch, worker * scratch_words)
    v, m = address(offset(matrices, plan[WINOGRAD.read])), address(offset(matrices, plan[WINOGRAD.written]))
    begin, end = _part(plan, task)
    last, size = plan[WINOGRAD.count] - 1, plan[WINOGRAD.size]
    for index in range(begin, end):
        block = _block(plan, index)
        lines_of_x, lines_of_y = _lines_of(block)
        known = _known_lines(plan, index) if index > begin else 0
        inputs = offset(matrices, plan[WINOGRAD.read])
        _transform_inputs(x, plan, block, known, lines_of_x, address(zeros), table, inputs)
        next_x, lines_of_next = input_lines(plan, _block(plan, min(index + 1, last)))
        this_y, lines_of_this = output_lines(plan, block)
        for pair in range(PAIRS):
            if index < last:
                read_soon(x, next_x, lines_of_next, pair, size)
            write_soon(y, this_y, lines_of_this, pair, size)
            _multiply(pair, block, weights, address(zeros), plan, v, m, offset(table, 2 * POINTS * SLOTS))
        _transform_outputs(
            y, plan, block, 0, lines_of_y, init, table, offset(matrices, plan[WINOGRAD.written]), True, residual, bounds
        )


def weight_grad(
    task: int,
    worker: int,
    x: Array,
    g: Array,
    target: Array,
    part_words: int,
    zeros: Array,
    work: Array,
    work_words: int,
    plan: Table,
    scratch: Table,
    scratch_words: int,
) -> None:
    """A partial sum of the gradient to the transformed weights, of some blocks."""
    of_v = worker * work_words
    of_m = of_v + PAIRS * plan[WINOGRAD.input_step]
    table = offset(scratch, worker * scratch_words)
    target_at = address(offset(target, task * part_words))
    first, end = _part(plan, task)
    last, size = end - 1, plan[WINOGRAD.size]
    for index in range(first, end):
        block = _block(plan, index)
        lines_of_x, lines_of_g = _lines_of(block)
        known = _known_lines(plan, index) if index > first else 0
        _transform_inputs(x, plan, block, known, lines_of_x, address(zeros), table, offset(work, of_v))
        _transform_outputs(g, plan, block, 0, lines_of_g, zeros, table, offset(work, of_m), False, g, g)
        following = _block(plan, min(index + 1, last))
        next_x, lines_of_next_x = input_lines(plan, following)
        next_g, lines_of_next_g = output_lines(plan, following)
        for tap in range(plan[WINOGRAD.taps]):
            for pair in range(PAIRS):
                if tap == 0 and index < last:
                    read_soon(x, next_x, lines_of_next_x, pair, size)
                    read_soon(g, next_g, lines_of_next_g, pair, size)
                _accumulate(
                    tap,
                    pair,
                    block,
                    index > first,
                    work,
                    of_v,
                    of_m,
                    target_at,
                    address(zeros),
                    plan,
                    offset(table, 2 * POINTS * SLOTS),
                )


def transform(
    task: int,
    worker: int,
    x: Array,
    zeros: Array,
    work: Array,
    plan: Table,
    index: int,
    scratch: Table,
    scratch_words: int,
) -> None:
    """V of a new line of a block that all threads share."""
    block, table = _block(plan, index), offset(scratch, worker * scratch_words)
    line = _known_lines(plan, index) + task
    _transform_inputs(x, plan, block, line, line + 1, address(zeros), table, offset(work, plan[WINOGRAD.read]))


def transform_both(
    task: int,
    worker: int,
    x: Array,
    g: Array,
    zeros: Array,
    work: Array,
    plan: Table,
    index: int,
    lines_of_x: int,
    scratch: Table,
    scratch_words: int,
) -> None:
    """V of a new line of a block that all threads share; from task ``lines_of_x`` on, the transformed gradient."""
    block, table = _block(plan, index), offset(scratch, worker * scratch_words)
    if task < lines_of_x:
        line = _known_lines(plan, index) + task
        _transform_inputs(x, plan, block, line, line + 1, address(zeros), table, work)
    else:
        line = task - lines_of_x
        matrices = offset(work, PAIRS * plan[WINOGRAD.input_step])
        _transform_outputs(g, plan, block, line, line + 1, zeros, table, matrices, False, g, g)


def multiply_pairs(
    task: int,
    worker: int,
    weights: Array,
    zeros: Array,
    work: Array,
    plan: Table,
    index: int,
    scratch: Table,
    scratch_words: int,
) -> None:
    """M_e for the pairs of points that share a spare matrix, and a block that all threads share."""
    table, block = offset(scratch, worker * scratch_words), _block(plan, index)
    v, m = address(offset(work, plan[WINOGRAD.read])), address(offset(work, plan[WINOGRAD.written]))
    for pair in range(task * plan[WINOGRAD.together], (task + 1) * plan[WINOGRAD.together]):
        _multiply(pair, block, weights, address(zeros), plan, v, m, table)


@helper
def _weights_of_filters(w, begin, all_filters, by_filter, turned, plan, target, turning):  # type: ignore[no-untyped-def]
    """U of the filters of a plan, which begin at ``begin``. ``turning``: memory for a register of channels."""
    one, depth, columns, side = lanes(w), plan[WINOGRAD.depth], plan[WINOGRAD.columns], plan[WINOGRAD.side]
    taps, width, step = plan[WINOGRAD.taps], plan[WINOGRAD.width], plan[WINOGRAD.weight_step]
    panels, row = plan[WINOGRAD.product + PRODUCT.panels], (columns + one - 1) // one * one
    far = taps * side * side * depth * all_filters * plan[WINOGRAD.size] > _FAR
    for first in range(0, depth, one):
        some = min(one, depth - first)
        for tap in range(taps * side * side if by_filter != 0 else 0):
            for k in range(0, columns, one):
                source = offset(w, (tap * all_filters + begin + k) * depth + first)
                end = offset(turning, tap * one * row + k)
                if some == one and columns - k >= one:
                    transpose(source, depth, end, row)
                else:
                    transpose_first(source, depth, end, row, min(one, columns - k), some)
        for t in range(taps):
            for c in range(first, first + some):
                if by_filter != 0:
                    weights_of_channel(
                        turning,
                        one * row,
                        (c - first) * row,
                        target,
                        t,
                        c,
                        depth,
                        columns,
                        width,
                        panels,
                        step,
                        taps,
                        side,
                        turned,
                    )
                else:
                    for tap in range(t * side * side, (t + 1) * side * side if far else 0):
                        at = (tap * depth + c + _ROWS_AHEAD) * all_filters + begin
                        for k in range(0, columns, _CACHE_LINE // plan[WINOGRAD.size]):
                            _read(w, at + k)
                    weights_of_channel(
                        w,
                        depth * all_filters,
                        c * all_filters + begin,
                        target,
                        t,
                        c,
                        depth,
                        columns,
                        width,
                        panels,
                        step,
                        taps,
                        side,
                        turned,
                    )


def filters(
    task: int,
    worker: int,
    w: Array,
    init: Array,
    y: Array,
    zeros: Array,
    work: Array,
    own: Array,
    own_words: int,
    of_task: int,
    plans: Table,
    all_filters: int,
    by_filter: int,
    turned: int,
    scratch: Table,
    scratch_words: int,
    residual: Array,
    bounds: Array,
) -> None:
    """The output of some filters, whose U and M stay in the cache of one core; V is in ``work``.

    w is (taps, side, side, depth, filters), or (..., filters, depth) if ``by_filter``. ``own``: memory for each thread;
    ``of_task``: for each task, where they are fewer.
    """
    begin, plan = plans[2 * task], offset(plans, plans[2 * task + 1])
    table, block = offset(scratch, worker * scratch_words), _block(plan, 0)
    transformed = offset(own, (task if of_task != 0 else worker) * own_words)
    products = offset(transformed, plan[WINOGRAD.taps] * plan[WINOGRAD.tap_step])
    turning = offset(products, PAIRS * plan[WINOGRAD.product_step])
    _weights_of_filters(w, begin, all_filters, by_filter, turned, plan, transformed, turning)
    v, m = address(offset(work, plan[WINOGRAD.read])), address(products)
    for pair in range(PAIRS):
        _multiply(pair, block, transformed, address(zeros), plan, v, m, offset(table, 2 * POINTS * SLOTS))
    _, lines = _lines_of(block)
    first = offset(init, 0 if address(init) == address(zeros) else begin)
    limits = offset(bounds, begin if address(bounds) == address(y) else 0)
    _transform_outputs(
        offset(y, begin), plan, block, 0, lines, first, table, products, True, offset(residual, begin), limits
    )


def transform_back(
    task: int,
    worker: int,
    work: Array,
    init: Array,
    y: Array,
    plan: Table,
    index: int,
    scratch: Table,
    scratch_words: int,
    residual: Array,
    bounds: Array,
) -> None:
    """The output of a line of a block that all threads share."""
    table = offset(scratch, worker * scratch_words)
    matrices = offset(work, plan[WINOGRAD.written])
    _transform_outputs(y, plan, _block(plan, index), task, task + 1, init, table, matrices, True, residual, bounds)


def accumulate(
    task: int,
    worker: int,
    target: Array,
    zeros: Array,
    work: Array,
    plan: Table,
    index: int,
    scratch: Table,
    scratch_words: int,
) -> None:
    """dU_e of one tap and pair of points and a block that all threads share, added to that of earlier blocks."""
    table, of_m = offset(scratch, worker * scratch_words), PAIRS * plan[WINOGRAD.input_step]
    _accumulate(
        task // PAIRS,
        task % PAIRS,
        _block(plan, index),
        index > 0,
        work,
        0,
        of_m,
        address(target),
        address(zeros),
        plan,
        table,
    )
