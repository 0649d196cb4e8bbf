# mypy: ignore-errors
"""One task of low-bit products. Its plan is made in products_plan.py."""

from __future__ import annotations

from ..convolution.gather_plan import PHASE
from ..convolution.walk_jit import entries_of_tile, position_of, read_and_written
from ..machine.compiler import helper
from ..machine.integer import WORD
from ..machine.integer_jit import dot
from ..machine.microkernel import ROW_SLOTS
from ..machine.product import PRODUCT
from ..machine.product_jit import rows_of_tile
from ..machine.simd import address, offset, pointer_like
from .finish_jit import bits, codes, complete, scaled
from .products_plan import BORDER, FINISHES, PRODUCTS, TASK

SUMS, SCALED, BITS, BYTES = (FINISHES.index(name) for name in ("sums", "scaled", "bits", "bytes"))


@helper
def _class_along(plan, border, axis, position):  # type: ignore[no-untyped-def]
    low, high = plan[border + BORDER.low + axis], plan[border + BORDER.high + axis]
    if position >= high:
        return position - high + low + (1 if low < high else 0)
    return min(position, low)


@helper
def _starts_of_tile(plan, phase, border, position, rows, scratch, starts):  # type: ignore[no-untyped-def]
    """Where the numbers begin that the sums of each pixel start from."""
    _, d, h, w = position
    classes_h, classes_w = plan[border + BORDER.classes + 1], plan[border + BORDER.classes + 2]
    row, first = plan[PRODUCTS.start_row], plan[border + BORDER.first]
    if plan[border + BORDER.classes] * classes_h * classes_w == 1:
        for i in range(rows):
            scratch[starts + i] = first * row
        return
    for i in range(rows):
        of_d, of_h = _class_along(plan, border, 0, d), _class_along(plan, border, 1, h)
        of_w = _class_along(plan, border, 2, w)
        scratch[starts + i] = (first + (of_d * classes_h + of_h) * classes_w + of_w) * row
        w += 1
        if w == plan[phase + PHASE.positions + 2]:
            w = 0
            h += 1
            if h == plan[phase + PHASE.positions + 1]:
                h = 0
                d += 1
                if d == plan[phase + PHASE.positions]:
                    d = 0


@helper
def _sums_of_tile(  # type: ignore[no-untyped-def]
    plan, phase, rows, group, panel, table, taps, filters, tile
):
    """The counts or sums of a tile in a panel, to the address ``tile``; returns the columns of a row of it."""
    width, product = plan[PRODUCTS.width], phase + PHASE.product
    columns, micro = width, product + PRODUCT.whole
    if panel == plan[PRODUCTS.panels] - 1:
        columns, micro = plan[PRODUCTS.start_group] - panel * width, product + PRODUCT.last
    words = plan[PRODUCTS.depth]
    b = filters + group * plan[PRODUCTS.group_step] + panel * plan[PRODUCTS.panel_step]
    b += plan[phase + PHASE.first_tap] * words * WORD * columns
    dot(plan[micro + rows], table, taps, words, group * words * WORD, b, tile)
    return columns


def products(
    task: int, worker: int, source: Bytes, filters: Words, starts: Words, zeros: Bytes, target: Bytes, scale: Array,
    bias: Array, factor: Array, factors: int, threshold: Words, flip: Bytes, plan: Table, scratch: Table,
    scratch_words: int,
) -> None:  # fmt: skip
    """A range of tiles and panels: sums of products from ``starts``, finished into ``target``."""
    own = plan[PRODUCTS.tasks] + TASK.words * task
    phase, border = plan[own + TASK.phase], plan[own + TASK.border]
    part_first, part_last = plan[own + TASK.part_first], plan[own + TASK.part_last]
    tile_first, tile_last = plan[own + TASK.tile_first], plan[own + TASK.tile_last]
    panels, width, finish = plan[PRODUCTS.panels], plan[PRODUCTS.width], plan[PRODUCTS.finish]
    taps = plan[phase + PHASE.taps] * plan[phase + PHASE.taps + 1] * plan[phase + PHASE.taps + 2]
    coordinates = worker * scratch_words
    rows_of_c = coordinates + 4 * ROW_SLOTS
    starts_at = rows_of_c + ROW_SLOTS
    table = starts_at + ROW_SLOTS
    tile_at = (address(offset(scratch, table + taps * ROW_SLOTS)) + 63) // 64 * 64
    table_at = address(offset(scratch, table))
    first, _ = rows_of_tile(offset(plan, phase + PHASE.product), tile_first)
    position = position_of(plan, phase, first)
    for i in range(4 * ROW_SLOTS):  # missing rows of a tile must be readable, too
        scratch[coordinates + i] = 0
    for tile in range(tile_first, tile_last):
        _, rows = rows_of_tile(offset(plan, phase + PHASE.product), tile)
        _starts_of_tile(plan, phase, border, position, rows, scratch, starts_at)
        position = read_and_written(
            address(source), address(target) + plan[phase + PHASE.target], plan, phase, position, rows, scratch,
            coordinates, rows_of_c,
        )  # fmt: skip
        entries_of_tile(plan, phase, scratch, coordinates, table, address(zeros), 0, taps)
        group, panel = part_first // panels, part_first % panels
        for _ in range(part_first, part_last):
            padded = width
            if taps > 0:
                padded = _sums_of_tile(plan, phase, rows, group, panel, table_at, taps, address(filters), tile_at)
            else:
                sums = pointer_like(starts, tile_at)
                for i in range(rows * width):
                    sums[i] = 0
            column = group * plan[PRODUCTS.columns] + panel * width
            count = min(width, plan[PRODUCTS.columns] - panel * width)
            start = group * plan[PRODUCTS.start_group] + panel * width
            for i in range(rows):
                sums, to = pointer_like(starts, tile_at + i * padded * WORD), scratch[rows_of_c + i]
                begin = scratch[starts_at + i] + start
                if finish == SUMS:
                    complete(sums, starts, begin, plan[PRODUCTS.times], pointer_like(starts, to + column * WORD), count)
                    continue
                complete(sums, starts, begin, plan[PRODUCTS.times], sums, count)
                if finish == SCALED:
                    pixel = (to - address(target)) // plan[PRODUCTS.target_row] if factors else 0
                    scaled(sums, scale, bias, factor, factors, pixel, to, column, count)
                elif finish == BITS:
                    bits(sums, threshold, flip, target, to, column, count)
                else:
                    codes(
                        sums, scale, plan[PRODUCTS.zero_point], plan[PRODUCTS.low], plan[PRODUCTS.high],
                        1 if finish == BYTES else 2, to, column, count,
                    )  # fmt: skip
            panel += 1
            if panel == panels:
                group, panel = group + 1, 0
