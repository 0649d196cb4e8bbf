# mypy: ignore-errors
"""One task of a deformable convolution. Its plans are made in deformable.py."""

from __future__ import annotations

from ..machine.compiler import Array, Table, helper
from ..machine.microkernel import MOST_ROWS, PRODUCT, ROW_SLOTS
from ..machine.microkernel_jit import NO_FINISH, multiply, multiply_panels, rows_of_tile
from ..machine.simd import address, fma, full, lanes, load, load_first, offset, pointer_like, store, store_first, total
from .deformable import DEFORM, TASK


@helper
def _below(at, extent):  # type: ignore[no-untyped-def]
    """The position at or below ``at``, and the distance to ``at``; -2 if both neighbors are outside."""
    if at >= -1.0 and at < extent:
        low = int(at)
        if at < low:
            low -= 1
        return low, at - low
    return -2, 0.0 if at == at else at  # NaN stays NaN


@helper
def _corner(image, h, w, plan, nothing):  # type: ignore[no-untyped-def]
    """Address of the channels of a position, or of zeros if it is outside."""
    if h < 0 or h >= plan[DEFORM.extent] or w < 0 or w >= plan[DEFORM.extent + 1]:
        return nothing
    return image + (h * plan[DEFORM.x + 1] + w * plan[DEFORM.x + 2]) * plan[DEFORM.size]


@helper
def _place(offsets, masks, plan, n, h, w, tap, d):  # type: ignore[no-untyped-def]
    """The position of a tap of group d at output (h, w) of image n: row, column, their fractions, and the mask."""
    channel = d * plan[DEFORM.taps] + tap
    at = n * plan[DEFORM.offset] + h * plan[DEFORM.offset + 2] + w * plan[DEFORM.offset + 3]
    at += 2 * channel * plan[DEFORM.offset + 1]
    start_h = h * plan[DEFORM.stride] + plan[DEFORM.moves + 2 * tap]
    start_w = w * plan[DEFORM.stride + 1] + plan[DEFORM.moves + 2 * tap + 1]
    top, down = _below(start_h + offsets[at], plan[DEFORM.extent])
    left, right = _below(start_w + offsets[at + plan[DEFORM.offset + 1]], plan[DEFORM.extent + 1])
    factor = 1.0
    if plan[DEFORM.masked] == 1:
        at = n * plan[DEFORM.mask] + h * plan[DEFORM.mask + 2] + w * plan[DEFORM.mask + 3]
        factor = masks[at + channel * plan[DEFORM.mask + 1]]
    return top, left, down, right, factor


@helper
def _position(plan, position):  # type: ignore[no-untyped-def]
    """Image, row and column of an output."""
    width = plan[DEFORM.output + 1]
    rest = position // width
    n = rest // plan[DEFORM.output]
    return n, rest - n * plan[DEFORM.output], position - rest * width


@helper
def _sample(x, offsets, masks, zeros, plan, begin, count, tap_first, tap_last, first, last, columns, target):  # type: ignore[no-untyped-def]
    """Columns of ``count`` positions from ``begin`` on, at some taps of the channels from ``first`` to ``last``."""
    n, h, w = _position(plan, begin)
    shared, size = plan[DEFORM.shared], plan[DEFORM.size]
    for _ in range(count):
        image = address(x) + n * plan[DEFORM.x] * size
        for tap in range(tap_first, tap_last):
            c = first
            while c < last:
                d = c // shared
                end_of_group = min(last, (d + 1) * shared)
                top, left, down, right, factor = _place(offsets, masks, plan, n, h, w, tap, d)
                nothing = address(zeros)
                a = pointer_like(x, _corner(image, top, left, plan, nothing))
                b = pointer_like(x, _corner(image, top, left + 1, plan, nothing))
                e = pointer_like(x, _corner(image, top + 1, left, plan, nothing))
                f = pointer_like(x, _corner(image, top + 1, left + 1, plan, nothing))
                of_a, of_b = full(x, (1.0 - down) * (1.0 - right) * factor), full(x, (1.0 - down) * right * factor)
                of_e, of_f = full(x, down * (1.0 - right) * factor), full(x, down * right * factor)
                while c + lanes(x) <= end_of_group:
                    upper = fma(load(a, c), of_a, load(b, c) * of_b)
                    store(columns, target, fma(load(e, c), of_e, fma(load(f, c), of_f, upper)))
                    target += lanes(x)
                    c += lanes(x)
                if c < end_of_group:
                    few = end_of_group - c
                    upper = fma(load_first(a, c, few), of_a, load_first(b, c, few) * of_b)
                    lower = fma(load_first(f, c, few), of_f, upper)
                    store_first(columns, target, fma(load_first(e, c, few), of_e, lower), few)
                    target += few
                    c = end_of_group
        w += 1
        if w == plan[DEFORM.output + 1]:
            w = 0
            h += 1
            if h == plan[DEFORM.output]:
                h = 0
                n += 1


@helper
def _rows(scratch, table, first, step, rows, count):  # type: ignore[no-untyped-def]
    """Addresses of ``rows`` rows, of which ``count`` exist; the last one is repeated for the others."""
    for i in range(rows):
        scratch[table + i] = first + min(i, count - 1) * step


def forward(
    task: int,
    worker: int,
    x: Array,
    offsets: Array,
    masks: Array,
    packed: Array,
    init: Array,
    y: Array,
    zeros: Array,
    columns: Array,
    columns_words: int,
    plan: Table,
    scratch: Table,
    scratch_words: int,
    positions: int,
) -> None:
    """``y[position] = init + columns[position] @ weights`` for a range of positions; y is dense and channels-last."""
    size, taps, channels, groups = plan[DEFORM.size], plan[DEFORM.taps], plan[DEFORM.channels], plan[DEFORM.groups]
    depth, wide, entries = plan[DEFORM.depth], plan[DEFORM.wide], plan[DEFORM.entries]
    product, rows, row = offset(plan, DEFORM.product), plan[DEFORM.rows], taps * channels
    panels, row_of_panel = product[PRODUCT.panels], product[PRODUCT.row]
    last_position = (task + 1) * positions // plan[DEFORM.tasks]
    begin = task * positions // plan[DEFORM.tasks]
    own, table = worker * columns_words, worker * scratch_words
    slots = (entries + 1) * ROW_SLOTS  # of a tile: the rows of A for each entry, then those of C
    while begin < last_position:
        count = min(plan[DEFORM.chunk], last_position - begin)
        _sample(x, offsets, masks, zeros, plan, begin, count, 0, taps, 0, channels, columns, own)
        tiles = (count + rows - 1) // rows
        for tile in range(tiles):
            at, p = table + tile * slots, tile * rows
            for e in range(entries):
                a_from = address(offset(columns, own + p * row + e * channels))
                _rows(scratch, at + e * ROW_SLOTS, a_from, row * size, rows, count - p)
            y_from = address(y) + (begin + p) * groups * wide * size
            _rows(scratch, at + entries * ROW_SLOTS, y_from, groups * wide * size, rows, count - p)
        for group in range(groups):
            for panel in range(panels):
                column = group * wide * size + panel * row_of_panel
                b = address(packed) + (group * panels + panel) * taps * depth * row_of_panel
                for tap in range(0, taps, plan[DEFORM.tap_chunk]):
                    some = min(plan[DEFORM.tap_chunk], taps - tap)
                    used, deep, skip = some, depth, group * depth
                    if groups == 1:  # the columns of one tap follow those of another
                        used, deep, skip = 1, some * depth, tap * depth
                    for tile in range(tiles):
                        at = table + tile * slots
                        first = at if groups == 1 else at + tap * ROW_SLOTS
                        multiply(
                            product,
                            rows,
                            panel,
                            address(offset(scratch, first)),
                            used,
                            deep,
                            skip,
                            b + tap * depth * row_of_panel,
                            depth * row_of_panel,
                            row_of_panel,
                            address(offset(scratch, at + entries * ROW_SLOTS)),
                            column,
                            address(init) + column,
                            0 if tap == 0 else 1,
                            NO_FINISH,
                        )
        begin += count


@helper
def _scatter(gx, at, weight, columns, source, first, last):  # type: ignore[no-untyped-def]
    """Channels of a position of gx += weight * columns."""
    into, factor = pointer_like(gx, at), full(gx, weight)
    c = first
    while c + lanes(gx) <= last:
        store(into, c, fma(load(columns, source + c - first), factor, load(into, c)))
        c += lanes(gx)
    if c < last:
        few = last - c
        moved = fma(load_first(columns, source + c - first, few), factor, load_first(into, c, few))
        store_first(into, c, moved, few)


def grad(
    task: int,
    worker: int,
    g: Array,
    x: Array,
    offsets: Array,
    masks: Array,
    packed: Array,
    gx: Array,
    goffset: Array,
    gmask: Array,
    zeros: Array,
    columns: Array,
    columns_words: int,
    plan: Table,
    scratch: Table,
    scratch_words: int,
    want_x: int,
    want_places: int,
) -> None:
    """A block of channels of one image: ``gcolumns = g @ weights``, then the gradients to x, offset and mask.

    gx, goffset and gmask are dense and channels-last; of the latter two there is one for each part of the channels
    that share an offset.
    """
    size, taps, channels, block = plan[DEFORM.size], plan[DEFORM.taps], plan[DEFORM.channels], plan[DEFORM.block]
    groups, depth, wide, shared = plan[DEFORM.groups], plan[DEFORM.depth], plan[DEFORM.wide], plan[DEFORM.shared]
    product, rows, row = offset(plan, DEFORM.product), plan[DEFORM.rows], taps * block
    panels, row_of_panel = product[PRODUCT.panels], product[PRODUCT.row]
    height, extent = plan[DEFORM.extent], plan[DEFORM.extent + 1]
    n, of_block = task // (channels // block), task % (channels // block)
    low = of_block * block
    each = min(block, depth)  # channels of a product
    area = plan[DEFORM.output] * plan[DEFORM.output + 1]
    many = channels // shared * taps  # channels of gmask
    part = of_block % plan[DEFORM.parts] * plan[DEFORM.part]
    own, table = worker * columns_words, worker * scratch_words
    nothing = address(zeros)
    x_image, gx_image = address(x) + n * plan[DEFORM.x] * size, address(gx) + n * height * extent * channels * size
    if want_x == 1:
        for i in range(height * extent):
            at = (n * height * extent + i) * channels + low
            for c in range(0, block, lanes(gx)):
                store_first(gx, at + c, full(gx, 0.0), block - c)
    begin = 0
    while begin < area:
        count = min(plan[DEFORM.chunk], area - begin)
        tiles = (count + rows - 1) // rows
        for tile in range(tiles):
            at, p = table + tile * 2 * ROW_SLOTS, tile * rows
            g_from = address(g) + (n * area + begin + p) * groups * wide * size
            _rows(scratch, at, g_from, groups * wide * size, rows, count - p)
            c_from = address(offset(columns, own + p * row))
            _rows(scratch, at + ROW_SLOTS, c_from, row * size, rows, count - p)
        for c in range(0, block, each):
            of_weights = (low + c) // each  # as packed: groups, or blocks of the only one
            group = (low + c) // depth
            for panel in range(panels):
                for tap in range(taps):
                    b = address(packed) + ((of_weights * panels + panel) * taps + tap) * wide * row_of_panel
                    for tile in range(tiles):
                        at = table + tile * 2 * ROW_SLOTS
                        multiply(
                            product,
                            rows,
                            panel,
                            address(offset(scratch, at)),
                            1,
                            wide,
                            group * wide,
                            b,
                            0,
                            row_of_panel,
                            address(offset(scratch, at + ROW_SLOTS)),
                            (tap * block + c) * size + panel * row_of_panel,
                            nothing,
                            0,
                            NO_FINISH,
                        )
        _, h, w = _position(plan, begin)
        for p in range(count):
            for tap in range(taps):
                source = own + p * row + tap * block
                c = low
                while c < low + block:
                    d = c // shared
                    end_of_group = min(low + block, (d + 1) * shared)
                    top, left, down, right, factor = _place(offsets, masks, plan, n, h, w, tap, d)
                    if want_places == 1:
                        a = pointer_like(x, _corner(x_image, top, left, plan, nothing))
                        b = pointer_like(x, _corner(x_image, top, left + 1, plan, nothing))
                        e = pointer_like(x, _corner(x_image, top + 1, left, plan, nothing))
                        f = pointer_like(x, _corner(x_image, top + 1, left + 1, plan, nothing))
                        sum_a, sum_b, sum_e, sum_f = full(x, 0.0), full(x, 0.0), full(x, 0.0), full(x, 0.0)
                        i, from_c = c, source
                        while i + lanes(x) <= end_of_group:
                            value = load(columns, from_c)
                            sum_a, sum_b = fma(load(a, i), value, sum_a), fma(load(b, i), value, sum_b)
                            sum_e, sum_f = fma(load(e, i), value, sum_e), fma(load(f, i), value, sum_f)
                            i += lanes(x)
                            from_c += lanes(x)
                        if i < end_of_group:
                            few = end_of_group - i
                            value = load_first(columns, from_c, few)
                            sum_a = fma(load_first(a, i, few), value, sum_a)
                            sum_b = fma(load_first(b, i, few), value, sum_b)
                            sum_e = fma(load_first(e, i, few), value, sum_e)
                            sum_f = fma(load_first(f, i, few), value, sum_f)
                        of_a, of_b = total(sum_a), total(sum_b)
                        of_e, of_f = total(sum_e), total(sum_f)
                        at = part + (n * area + begin + p) * many + d * taps + tap
                        upper, lower = of_a + (of_b - of_a) * right, of_e + (of_f - of_e) * right
                        goffset[2 * at] = (lower - upper) * factor
                        goffset[2 * at + 1] = ((1.0 - down) * (of_b - of_a) + down * (of_f - of_e)) * factor
                        gmask[at] = (1.0 - down) * upper + down * lower
                    if want_x == 1:
                        # of gx only what is inside; its steps are those of a dense image
                        for corner in range(4):
                            i, j = top + corner // 2, left + corner % 2
                            if 0 <= i < height and 0 <= j < extent:
                                weight = (down if corner >= 2 else 1.0 - down) * factor
                                weight *= right if corner % 2 == 1 else 1.0 - right
                                into = gx_image + (i * extent + j) * channels * size
                                _scatter(gx, into, weight, columns, source, c, end_of_group)
                    source += end_of_group - c
                    c = end_of_group
            w += 1
            if w == plan[DEFORM.output + 1]:
                w = 0
                h += 1
        begin += count


def weight_grad(
    task: int,
    worker: int,
    x: Array,
    offsets: Array,
    masks: Array,
    g: Array,
    target: Array,
    zeros: Array,
    columns: Array,
    columns_words: int,
    plan: Table,
    scratch: Table,
    scratch_words: int,
) -> None:
    """``target[tap, c] = sum over the task's positions of columns[position, (tap, c)] * g[position]``; g is dense."""
    task_at = plan[DEFORM.tasks] + TASK.words * task
    target_at = address(target) + plan[task_at + TASK.part] * plan[DEFORM.part] * plan[DEFORM.size]
    tap_first, tap_last = plan[task_at + TASK.tap_first], plan[task_at + TASK.tap_last]
    low, begin, end = plan[task_at + TASK.low], plan[task_at + TASK.first], plan[task_at + TASK.last]
    size, groups, depth = plan[DEFORM.size], plan[DEFORM.groups], plan[DEFORM.depth]
    product, wide, block = offset(plan, DEFORM.product), plan[DEFORM.wide], plan[DEFORM.block]
    row, each = (tap_last - tap_first) * block, min(block, depth)
    own, rows_of_c = worker * columns_words, worker * scratch_words
    table = rows_of_c + MOST_ROWS
    accumulate = 0
    while begin < end:
        count = min(plan[DEFORM.chunk], end - begin)
        _sample(x, offsets, masks, zeros, plan, begin, count, tap_first, tap_last, low, low + block, columns, own)
        scratch[table] = address(offset(columns, own))
        scratch[table + 1] = address(g) + begin * groups * wide * size
        for tap in range(tap_first, tap_last):
            for c in range(0, block, each):
                group = (low + c) // depth
                for tile in range(product[PRODUCT.tiles]):
                    first, rows = rows_of_tile(product, tile)
                    c_row = tap * depth + (low + c) % depth + first
                    for i in range(rows):
                        scratch[rows_of_c + i] = target_at + ((c_row + i) * groups + group) * wide * size
                    multiply_panels(
                        product,
                        rows,
                        0,
                        product[PRODUCT.panels],
                        address(offset(scratch, table)),
                        1,
                        count,
                        row * size,
                        group * wide * size,
                        product[PRODUCT.row],
                        ((tap - tap_first) * block + c + first) * size,
                        groups * wide * size,
                        address(offset(scratch, rows_of_c)),
                        address(zeros),
                        accumulate,
                        NO_FINISH,
                    )
        accumulate = 1
        begin += count
