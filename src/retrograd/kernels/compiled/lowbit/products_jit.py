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
from .bits_jit import bits
from .products_plan import BORDER, PRODUCTS, TASK


@helper
def _class_along(plan, border, axis, position):  # type: ignore[no-untyped-def]
    low, high = plan[border + BORDER.low + axis], plan[border + BORDER.high + axis]
    if position >= high:
        return position - high + low + (1 if low < high else 0)
    return min(position, low)


@helper
def _class_of_line(plan, border, d, h):  # type: ignore[no-untyped-def]
    classes_h = plan[border + BORDER.classes + 1]
    return _class_along(plan, border, 0, d) * classes_h + _class_along(plan, border, 1, h)


@helper
def _starts_of_tile(plan, phase, border, position, rows, scratch, starts, first):  # type: ignore[no-untyped-def]
    """The addresses of the numbers that the sums of each pixel start from."""
    _, d, h, w = position
    classes_w, row = plan[border + BORDER.classes + 2], plan[PRODUCTS.start_row] * WORD
    first += plan[border + BORDER.first] * row
    if plan[border + BORDER.classes] * plan[border + BORDER.classes + 1] * classes_w == 1:
        for i in range(rows):
            scratch[starts + i] = first
        return
    line = _class_of_line(plan, border, d, h) * classes_w
    low = plan[border + BORDER.low + 2]
    if w >= low and w + rows <= plan[border + BORDER.high + 2]:
        for i in range(rows):
            scratch[starts + i] = first + (line + low) * row
        return
    for i in range(rows):
        scratch[starts + i] = first + (line + _class_along(plan, border, 2, w)) * row
        w += 1
        if w == plan[phase + PHASE.positions + 2]:
            w = 0
            h += 1
            if h == plan[phase + PHASE.positions + 1]:
                h = 0
                d += 1
                if d == plan[phase + PHASE.positions]:
                    d = 0
            line = _class_of_line(plan, border, d, h) * classes_w


@helper
def _sums_of_tile(  # type: ignore[no-untyped-def]
    plan, phase, rows, group, panel, table, taps, filters, starts, start, c, c_step, zeros, scale, bias, factors
):
    """The results of a tile in a panel, to the row addresses in the table ``c``."""
    product, width, lanes = phase + PHASE.product, plan[PRODUCTS.width], plan[phase + PHASE.product + PRODUCT.lanes]
    columns, count, micro = width, width, product + PRODUCT.whole
    if panel == plan[PRODUCTS.panels] - 1:
        columns, count = plan[PRODUCTS.start_group] - panel * width, plan[PRODUCTS.columns] - panel * width
        micro = product + PRODUCT.last
    words, b = plan[PRODUCTS.depth], filters + group * plan[PRODUCTS.group_step] + panel * plan[PRODUCTS.panel_step]
    b += plan[phase + PHASE.first_tap] * words * WORD * columns
    move = group * words * WORD
    if taps == 0:  # no tap reaches these positions: products of words of zeros
        taps, words, b, move = 1, 1, zeros, 0
    dot(
        plan[micro + rows],
        table,
        taps,
        words,
        move,
        b,
        starts,
        start * WORD,
        c,
        c_step,
        count - (columns - lanes),
        scale,
        bias,
        factors,
    )


def products(
    task: int,
    worker: int,
    source: Bytes,
    filters: Words,
    starts: Words,
    zeros: Bytes,
    target: Bytes,
    scale: Bytes,
    bias: Bytes,
    factor: Bytes,
    factors: int,
    plan: Table,
    scratch: Table,
    scratch_words: int,
) -> None:
    """A range of tiles and panels: sums of products from ``starts``, finished into ``target``."""
    own = plan[PRODUCTS.tasks] + TASK.words * task
    phase, border = plan[own + TASK.phase], plan[own + TASK.border]
    part_first, part_last = plan[own + TASK.part_first], plan[own + TASK.part_last]
    tile_first, tile_last = plan[own + TASK.tile_first], plan[own + TASK.tile_last]
    panels, width = plan[PRODUCTS.panels], plan[PRODUCTS.width]
    taps = plan[phase + PHASE.taps] * plan[phase + PHASE.taps + 1] * plan[phase + PHASE.taps + 2]
    coordinates = worker * scratch_words
    rows_of_c = coordinates + 4 * ROW_SLOTS
    rows_of_tile_at = rows_of_c + ROW_SLOTS
    starts_at = rows_of_tile_at + ROW_SLOTS
    factors_at = starts_at + ROW_SLOTS
    table = factors_at + ROW_SLOTS
    table_at, starts_table = address(offset(scratch, table)), address(offset(scratch, starts_at))
    tile_at = (address(offset(scratch, table + max(taps, 1) * ROW_SLOTS)) + 63) // 64 * 64
    for i in range(ROW_SLOTS):
        scratch[rows_of_tile_at + i] = tile_at + i * width * WORD
        scratch[table + i] = address(zeros)
        scratch[factors_at + i] = address(factor)
    step, in_tile = plan[PRODUCTS.step], plan[PRODUCTS.in_tile]
    c_at, factors_table = rows_of_tile_at if in_tile else rows_of_c, address(offset(scratch, factors_at))
    c_at = address(offset(scratch, c_at))
    first, _ = rows_of_tile(offset(plan, phase + PHASE.product), tile_first)
    position = position_of(plan, phase, first)
    for i in range(4 * ROW_SLOTS):  # missing rows of a tile must be readable, too
        scratch[coordinates + i] = 0
    for tile in range(tile_first, tile_last):
        _, rows = rows_of_tile(offset(plan, phase + PHASE.product), tile)
        _starts_of_tile(plan, phase, border, position, rows, scratch, starts_at, address(starts))
        position = read_and_written(
            address(source),
            address(target) + plan[phase + PHASE.target],
            plan,
            phase,
            position,
            rows,
            scratch,
            coordinates,
            rows_of_c,
        )
        entries_of_tile(plan, phase, scratch, coordinates, table, address(zeros), 0, taps)
        if factors > 0:
            for i in range(rows):
                pixel = (scratch[rows_of_c + i] - address(target)) // plan[PRODUCTS.target_row]
                scratch[factors_at + i] = address(factor) + pixel * plan[PRODUCTS.scale]
        group, panel = part_first // panels, part_first % panels
        for _ in range(part_first, part_last):
            column = group * plan[PRODUCTS.columns] + panel * width
            count = min(width, plan[PRODUCTS.columns] - panel * width)
            _sums_of_tile(
                plan,
                phase,
                rows,
                group,
                panel,
                table_at,
                taps,
                address(filters),
                starts_table,
                group * plan[PRODUCTS.start_group] + panel * width,
                c_at,
                0 if in_tile else (column * step) >> 3,
                address(zeros),
                address(scale) + column * plan[PRODUCTS.scale],
                address(bias) + column * plan[PRODUCTS.bias],
                factors_table,
            )
            for i in range(rows if in_tile else 0):
                sums = pointer_like(starts, tile_at + i * width * WORD)
                threshold, flip = pointer_like(starts, address(scale)), pointer_like(starts, address(bias))
                bits(sums, pointer_like(target, scratch[rows_of_c + i]), column, count, threshold, flip)
            panel += 1
            if panel == panels:
                group, panel = group + 1, 0
