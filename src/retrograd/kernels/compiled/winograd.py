"""What one task of a convolution by Winograd's transforms does. The plan that it reads is made in ../winograd_plan.py.

Every pair e of points has a matrix product of its own, of the transformed input V_e (tiles, channels) and the weights
U_e (channels, columns): M_e = V_e U_e, or dU_e = V_e^T M_e. With taps along D, the product is a sum over these: of the
tiles that lie at the same place in neighbouring slices.
"""

from __future__ import annotations

from .. import winograd_plan as word
from ..compiler import helper
from ..microkernel import MOST_ROWS
from ..simd import address, counting, lanes, offset, store
from ..winograd_plan import PAIRS, POINTS, SLOTS
from .convolution import tile_begin
from .microkernel import brgemm
from .winograd_tiles import (
    addresses_of_tile,
    lines_before,
    rows_of_line,
    tiles_across,
    transform_gradient,
    transform_input,
    transform_product,
)

_TERMS = 64  # channels that are summed up before they are added to the others, which keeps the error small


@helper
def _block(plan, index):  # type: ignore[no-untyped-def]
    """First and last slice, first and last line of a block, and the first and last slice of the input that it reads."""
    at = plan[word.BLOCKS] + 4 * index
    first, last = plan[at], plan[at + 1]
    begin, end = first, last
    if plan[word.ALONE] == 0:
        slices = plan[word.SLICES]
        image = first // slices
        low, extent = plan[word.LOW], plan[word.EXTENT]
        begin = min(max(0, first - image * slices - low), extent)
        end = max(begin, min(extent, last - 1 - image * slices - low + plan[word.TAPS]))
        begin += image * extent
        end += image * extent
    return first, last, plan[at + 2], plan[at + 3], begin, end


@helper
def _kind(plan, size):  # type: ignore[no-untyped-def]
    """How a tile of ``size`` positions is transformed, see points.py; tiles of two taps may not be whole."""
    return size + 2 if plan[word.SIDE] == 3 else 3


@helper
def _places(plan, slices, line_first, line_last, line):  # type: ignore[no-untyped-def]
    """The place of a line in the three groups, when ``slices`` slices of a block lie before it."""
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
    lines, depths = line_last - line_first, plan[word.EXTENT]
    for index in range(first, last):
        ahead = index // lines
        line = line_first + index - ahead * lines
        image = (begin + ahead) // depths
        source = address(x) + image * plan[word.X] + (begin + ahead - image * depths) * plan[word.X + 1]
        at_h = word.LIST + 2 * line
        places = _places(plan, ahead, line_first, line_last, line)
        rows_of_line(matrices, plan, plan[word.INPUT_STEP], plan[word.DEPTH_STEP], places, rows)
        for tile in range(plan[word.COUNTS_W]):
            at_w = word.LIST + 2 * (plan[word.LINES] + tile)
            addresses_of_tile(
                source, plan, plan[at_h] - plan[word.LOW + 1], plan[at_w] - plan[word.LOW + 2], zeros, scratch
            )
            transform_input(x, plan, scratch, rows, tile, _kind(plan, plan[at_h + 1]), _kind(plan, plan[at_w + 1]))


@helper
def _transform_outputs(y, plan, block, first, last, init, scratch, matrices, back):  # type: ignore[no-untyped-def]
    """Some lines of a block, counted through its slices: ``back`` from M to the output, else the gradient to M."""
    slice_first, _, line_first, line_last, _, _ = block
    lines, depths = line_last - line_first, plan[word.SLICES]
    rows = offset(scratch, POINTS * SLOTS)
    for index in range(first, last):
        ahead = index // lines
        line = line_first + index - ahead * lines
        image = (slice_first + ahead) // depths
        origin = image * plan[word.Y] + (slice_first + ahead - image * depths) * plan[word.Y + 1]
        at_h = word.LIST + 2 * line
        places = _places(plan, ahead, line_first, line_last, line)
        rows_of_line(matrices, plan, plan[word.PRODUCT_STEP], plan[word.COLUMN_STEP], places, rows)
        for tile in range(plan[word.COUNTS_W]):
            at_w = word.LIST + 2 * (plan[word.LINES] + tile)
            begin = origin + plan[at_h] * plan[word.Y + 2] + plan[at_w] * plan[word.Y + 3]
            size_h, size_w = plan[at_h + 1], plan[at_w + 1]
            kind_h, kind_w = _kind(plan, size_h), _kind(plan, size_w)
            if back:
                transform_product(y, plan, rows, tile, begin, init, kind_h, kind_w, size_h, size_w)
            else:
                transform_gradient(y, plan, begin, rows, tile, kind_h, kind_w)


@helper
def _rows_of_pair(plan, block, pair):  # type: ignore[no-untyped-def]
    """How many tiles of a slice of the block need a pair of points."""
    group = max(0, pair // POINTS - 3)
    lines = lines_before(plan, block[3], group) - lines_before(plan, block[2], group)
    return lines * tiles_across(plan, pair % POINTS)


@helper
def _reached(plan, block, slice, tap):  # type: ignore[no-untyped-def]
    """The slice of the input that a tap of a slice of the output reads, counted in the block; -1 for padding."""
    if plan[word.ALONE] != 0:
        return slice - block[4]
    image = slice // plan[word.SLICES]
    at = slice - image * plan[word.SLICES] + tap - plan[word.LOW]
    if at < 0 or at >= plan[word.EXTENT]:
        return -1
    return image * plan[word.EXTENT] + at - block[4]


@helper
def _multiply(pair, block, weights, zeros, plan, matrices, table):  # type: ignore[no-untyped-def]
    """M_e = sum over taps along D of V_e U_e, written over the V of the pair before."""
    slice_first, slice_last, _, _, _, _ = block
    rows = _rows_of_pair(plan, block, pair)
    if rows == 0:
        return
    depth, width, panels, size = plan[word.DEPTH], plan[word.WIDTH], plan[word.PANELS], plan[word.SIZE]
    together, spans = rows, slice_last - slice_first
    if plan[word.ALONE] != 0:  # slices that read only themselves are one matrix
        together, spans = rows * spans, 1
    tiles = (together + plan[word.ROWS] - 1) // plan[word.ROWS]
    least = together // tiles
    extra = together - least * tiles
    step_v, step_m = plan[word.DEPTH_STEP] * size, plan[word.COLUMN_STEP] * size
    matrix = plan[word.BEFORE + pair] * plan[word.INPUT_STEP]
    v, m = address(offset(matrices, plan[word.INPUT_STEP])), address(matrices)
    for span in range(spans):
        entries, tap_first = 0, 0
        reached = 0
        for tap in range(plan[word.TAPS]):
            at = _reached(plan, block, slice_first + span, tap)
            if at >= 0:
                if entries == 0:
                    tap_first, reached = tap, at
                entries += 1
        for panel in range(panels):
            micro = word.MICRO - 1 + (MOST_ROWS if panel == panels - 1 else 0)
            b = address(weights) + (tap_first * plan[word.TAP_STEP] + (pair * panels + panel) * depth * width) * size
            for tile in range(tiles):
                row = tile_begin(tile, least, extra)
                for i in range(0, SLOTS, lanes(table)):
                    store(table, i, (counting(table) + (span * together + row + i)) * step_m + m)
                    for entry in range(entries):
                        from_row = (reached + entry) * rows + row + i
                        store(table, (1 + entry) * SLOTS + i, (counting(table) + from_row) * step_v + v)
                    if entries == 0:
                        store(table, SLOTS + i, counting(table) * 0 + zeros)
                function = plan[micro + least + (1 if tile < extra else 0)]
                rows_of_c = (matrix + panel * width) * size
                if entries == 0:  # only padding: 0 * 0
                    brgemm(
                        function, address(offset(table, SLOTS)), 1, 1, 0, zeros, 0, 0, address(table), rows_of_c,
                        lanes(weights), zeros, 0,
                    )  # fmt: skip
                for k in range(0, depth if entries > 0 else 0, _TERMS):
                    brgemm(
                        function, address(offset(table, SLOTS)), entries, min(_TERMS, depth - k),
                        matrix + k, b + k * width * size, plan[word.TAP_STEP] * size,
                        width * size, address(table), rows_of_c, lanes(weights), zeros, 1 if k > 0 else 0,
                    )  # fmt: skip


@helper
def _accumulate(tap, pair, block, more, work, of_v, of_m, target, zeros, plan, table):  # type: ignore[no-untyped-def]
    """dU_e of a tap along D = V_e^T M_e of a block, added to what there is if ``more``."""
    slice_first, slice_last, _, _, _, _ = block
    size, depth, rows = plan[word.SIZE], plan[word.DEPTH], _rows_of_pair(plan, block, pair)
    step_v, step_m = plan[word.DEPTH_STEP] * size, plan[word.COLUMN_STEP] * size
    rows_of_c = offset(table, 2 * (slice_last - slice_first))
    entries = 0
    if plan[word.ALONE] != 0:
        rows *= slice_last - slice_first
        table[0], table[1] = address(offset(work, of_v)), address(offset(work, of_m))
        entries = 1
    else:
        for slice in range(slice_first, slice_last):
            at = _reached(plan, block, slice, tap)
            if at >= 0:
                table[2 * entries] = address(offset(work, of_v)) + at * rows * step_v
                table[2 * entries + 1] = address(offset(work, of_m)) + (slice - slice_first) * rows * step_m
                entries += 1
    move_v, move_m = pair * plan[word.INPUT_STEP] * size, pair * plan[word.PRODUCT_STEP] * size
    if rows == 0 or entries == 0:
        if more:
            return
        table[0], table[1] = zeros, zeros  # nothing to add up: 0 * 0
        entries, rows, move_v, move_m, step_v, step_m = 1, 1, 0, 0, 0, 0
    for i in range(depth):
        rows_of_c[i] = target + ((tap * PAIRS + pair) * depth + i) * plan[word.COLUMN_STEP] * size
    tiles = (depth + plan[word.ROWS] - 1) // plan[word.ROWS]
    least = depth // tiles
    extra = depth - least * tiles
    for panel in range(plan[word.PANELS]):
        micro = word.MICRO - 1 + (MOST_ROWS if panel == plan[word.PANELS] - 1 else 0)
        column = panel * plan[word.WIDTH] * size
        for tile in range(tiles):
            row = tile_begin(tile, least, extra)
            brgemm(
                plan[micro + least + (1 if tile < extra else 0)], address(table), entries, rows, step_v,
                move_m + (column if step_m > 0 else 0), move_v + (row * size if step_v > 0 else 0), step_m,
                address(offset(rows_of_c, row)), column, lanes(work), zeros, 1 if more else 0,
            )  # fmt: skip


@helper
def _lines_of(block):  # type: ignore[no-untyped-def]
    """All lines of a block: of the input, and of the output."""
    slice_first, slice_last, line_first, line_last, begin, end = block
    return (end - begin) * (line_last - line_first), (slice_last - slice_first) * (line_last - line_first)


def gather(
    task: int, worker: int, x: Array, weights: Array, init: Array, y: Array, zeros: Array, work: Array,
    work_words: int, plan: Table, scratch: Table, scratch_words: int,
) -> None:  # fmt: skip
    """A block of ``y[o] = init + sum over the taps r of x[o + r - low] @ weights[r]``."""
    matrices, table = offset(work, worker * work_words), offset(scratch, worker * scratch_words)
    block = _block(plan, task)
    lines_of_x, lines_of_y = _lines_of(block)
    _transform_inputs(x, plan, block, 0, lines_of_x, address(zeros), table, offset(matrices, plan[word.INPUT_STEP]))
    for pair in range(PAIRS):
        _multiply(pair, block, weights, address(zeros), plan, matrices, offset(table, 2 * POINTS * SLOTS))
    _transform_outputs(y, plan, block, 0, lines_of_y, init, table, matrices, True)


def weight_grad(
    task: int, worker: int, x: Array, g: Array, target: Array, part_words: int, count: int, zeros: Array, work: Array,
    work_words: int, plan: Table, scratch: Table, scratch_words: int,
) -> None:  # fmt: skip
    """A partial sum of the gradient to the transformed weights, of some of the ``count`` blocks."""
    of_v = worker * work_words
    of_m = of_v + PAIRS * plan[word.INPUT_STEP]
    table = offset(scratch, worker * scratch_words)
    target_at = address(offset(target, task * part_words))
    parts = plan[word.BLOCKS] + 4 * count + 2 * task
    for index in range(plan[parts], plan[parts + 1]):
        block = _block(plan, index)
        lines_of_x, lines_of_g = _lines_of(block)
        _transform_inputs(x, plan, block, 0, lines_of_x, address(zeros), table, offset(work, of_v))
        _transform_outputs(g, plan, block, 0, lines_of_g, zeros, table, offset(work, of_m), False)
        for tap in range(plan[word.TAPS]):
            for pair in range(PAIRS):
                _accumulate(
                    tap, pair, block, index > plan[parts], work, of_v, of_m, target_at, address(zeros), plan,
                    offset(table, 2 * POINTS * SLOTS),
                )  # fmt: skip


def transform(
    task: int, worker: int, x: Array, zeros: Array, work: Array, plan: Table, index: int, scratch: Table,
    scratch_words: int,
) -> None:  # fmt: skip
    """V of a line of a block that all threads share."""
    block, table = _block(plan, index), offset(scratch, worker * scratch_words)
    _transform_inputs(x, plan, block, task, task + 1, address(zeros), table, offset(work, plan[word.INPUT_STEP]))


def transform_both(
    task: int, worker: int, x: Array, g: Array, zeros: Array, work: Array, plan: Table, index: int, lines_of_x: int,
    scratch: Table, scratch_words: int,
) -> None:  # fmt: skip
    """V of a line of a block that all threads share; tasks from ``lines_of_x`` on: the transformed gradient of one."""
    block, table = _block(plan, index), offset(scratch, worker * scratch_words)
    if task < lines_of_x:
        _transform_inputs(x, plan, block, task, task + 1, address(zeros), table, work)
    else:
        line = task - lines_of_x
        matrices = offset(work, PAIRS * plan[word.INPUT_STEP])
        _transform_outputs(g, plan, block, line, line + 1, zeros, table, matrices, False)


def multiply(
    task: int, worker: int, weights: Array, zeros: Array, work: Array, plan: Table, index: int, scratch: Table,
    scratch_words: int,
) -> None:  # fmt: skip
    """M_e for the pairs of points that share a spare matrix, and a block that all threads share."""
    table, block = offset(scratch, worker * scratch_words), _block(plan, index)
    for pair in range(task * plan[word.TOGETHER], (task + 1) * plan[word.TOGETHER]):
        _multiply(pair, block, weights, address(zeros), plan, work, table)


def transform_back(
    task: int, worker: int, work: Array, init: Array, y: Array, plan: Table, index: int, scratch: Table,
    scratch_words: int,
) -> None:  # fmt: skip
    """The output of a line of a block that all threads share."""
    table = offset(scratch, worker * scratch_words)
    _transform_outputs(y, plan, _block(plan, index), task, task + 1, init, table, work, True)


def accumulate(
    task: int, worker: int, target: Array, zeros: Array, work: Array, plan: Table, index: int, scratch: Table,
    scratch_words: int,
) -> None:  # fmt: skip
    """dU_e of one tap and pair of points and a block that all threads share, added to that of the blocks before."""
    table, of_m = offset(scratch, worker * scratch_words), PAIRS * plan[word.INPUT_STEP]
    _accumulate(
        task // PAIRS, task % PAIRS, _block(plan, index), index > 0, work, 0, of_m, address(target), address(zeros),
        plan, table,
    )  # fmt: skip
