# mypy: ignore-errors
"""Tasks of low-bit codes and products."""

from __future__ import annotations

from .convolution.direct_jit import entries_of_tile, position_of, read_and_written
from .convolution.direct_plan import PHASE
from .lowbit import BORDER, PRODUCTS, TASK
from .machine.compiler import Array, Bytes, Table, Words, helper
from .machine.integer_microkernel_jit import dot
from .machine.microkernel import PRODUCT, ROW_SLOTS, WORD
from .machine.microkernel_jit import rows_of_tile
from .machine.simd import (
    address,
    bits_of_mask,
    full,
    lanes,
    load,
    load_first,
    nearest,
    offset,
    pointer_like,
    select,
    store_bytes,
    store_shorts,
)

# ---- Conversion of sums to bits, where the bits of a vector do not fill whole bytes ---------------------------------


@helper
def bits(sums, target, column, count, threshold, flip):  # type: ignore[no-untyped-def]
    """target[channel] = (sum >= threshold[channel]) != (flip[channel] != 0), channels from ``column`` on, one bit each.

    The memory after the sums is readable for one more register. The target, the bytes of one pixel, is 0 where nothing
    was written; bits of other channels in the same bytes are kept.
    """
    for j in range(0, count, lanes(sums)):
        at, some = column + j, count - j
        limit, turned = load_first(threshold, at, some), load_first(flip, at, some) != 0
        found = bits_of_mask(load(sums, j) >= limit) ^ bits_of_mask(turned)
        if some < lanes(sums):
            found &= (1 << some) - 1
        found <<= at & 7
        k = at >> 3
        while found != 0:
            target[k] |= found & 255
            found >>= 8
            k += 1


# ---- Kernels that make codes; see specs/low_bit.py ------------------------------------------------------------------


_BITS = 32


def signs(task: int, worker: int, x: Array, y: Words, rows: int, channels: int, words: int, per_task: int) -> None:
    """y[row, w] = the bits x[row, 32 w + i] >= 0."""
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin, end = row * channels, (row + 1) * channels
        for w in range(words):
            first, word = begin + w * _BITS, 0
            if first + _BITS <= end:
                for i in range(0, _BITS, lanes(x)):
                    word |= bits_of_mask(load(x, first + i) >= 0.0) << i
            else:
                for i in range(0, end - first, lanes(x)):
                    found = bits_of_mask(load_first(x, first + i, end - first - i) >= 0.0)
                    word |= found << i
                word &= (1 << (end - first)) - 1
            y[row * words + w] = word


def quantize(
    task: int,
    worker: int,
    x: Array,
    y: Bytes,
    rows: int,
    channels: int,
    codes: int,
    size: int,
    scale: float,
    zero_point: int,
    low: int,
    high: int,
    per_task: int,
) -> None:
    """y[row, c] = clip(round(x[row, c] / scale) + zero_point, low, high), numbers of ``size`` bytes."""
    divisor = full(x, scale)
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin, to = row * channels, address(y) + row * codes * size
        for c in range(0, channels, lanes(x)):
            some = channels - c
            value = load(x, begin + c) if some >= lanes(x) else load_first(x, begin + c, some)
            q = nearest(value / divisor) + zero_point
            q = select(q >= low, q, low)  # NaN is not
            q = select(q <= high, q, high)
            if size == 1:
                store_bytes(to + c, q, some)
            else:
                store_shorts(to + 2 * c, q, some)


# ---- One task of low-bit products. Its plan is made in lowbit.py ---------------------------------------------


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
