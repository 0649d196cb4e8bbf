# mypy: ignore-errors
"""One task of a convolution with few output channels. Its plan is made in planar.py."""

from __future__ import annotations

from ..machine.compiler import Array, Table, helper
from ..machine.dot_jit import dot
from ..machine.microkernel import MOST_ROWS, PRODUCT
from ..machine.microkernel_jit import (
    NO_FINISH,
    begin_of_tile,
    finish_line,
    finish_vector,
    multiply_panels,
    rows_of_tile,
)
from ..machine.simd import (
    MOST_INTERLEAVED,
    address,
    deinterleave_first,
    evens,
    exceeds,
    full,
    interleave_first,
    lanes,
    load,
    load_first,
    odds,
    offset,
    select,
    store,
    store_first,
    transpose,
    transpose_first,
)
from .planar import GATHER, PLANAR, SUMS

_STEPS = 128  # of whole registers


@helper
def _copy(source, at, target, to, count):  # type: ignore[no-untyped-def]
    """``target[to + i] = source[at + i]`` for i < count: the last register overlaps the one before."""
    one = lanes(source)
    for i in range(0, count - one + 1, one):
        store(target, to + i, load(source, at + i))
    if count >= one:
        store(target, to + count - one, load(source, at + count - one))
    else:
        store_first(target, to, load_first(source, at, count), count)


@helper
def _flip(source, at, source_step, target, to, target_step, rows, columns):  # type: ignore[no-untyped-def]
    """``target[to + j*target_step + i] = source[at + i*source_step + j]`` for i < rows, j < columns."""
    if columns == 1 and source_step == 1:
        _copy(source, at, target, to, rows)
        return
    if rows == 1 and target_step == 1:
        _copy(source, at, target, to, columns)
        return
    one = lanes(source)  # a constant, for which the masks of whole blocks are optimized away
    if target_step == rows and rows <= min(one, MOST_INTERLEAVED):
        for j in range(0, columns - one + 1, one):
            interleave_first(offset(source, at + j), source_step, offset(target, to + j * rows), rows, one)
        j = columns // one * one
        if j < columns:
            interleave_first(offset(source, at + j), source_step, offset(target, to + j * rows), rows, columns - j)
        return
    if source_step == columns and columns <= min(one, MOST_INTERLEAVED):
        for i in range(0, rows - one + 1, one):
            deinterleave_first(offset(source, at + i * columns), offset(target, to + i), target_step, columns, one)
        i = rows // one * one
        if i < rows:
            begin = offset(source, at + i * columns)
            deinterleave_first(begin, offset(target, to + i), target_step, columns, rows - i)
        return
    for j in range(0, columns, lanes(source)):
        for i in range(0, rows, lanes(source)):
            begin, end = offset(source, at + i * source_step + j), offset(target, to + j * target_step + i)
            if rows - i >= lanes(source) and columns - j >= lanes(source):
                transpose(begin, source_step, end, target_step)
            else:
                transpose_first(begin, source_step, end, target_step, rows - i, columns - j)


@helper
def _clear(planes, at, count, step, channels):  # type: ignore[no-untyped-def]
    """Zero ``count`` elements of every channel's plane."""
    zero, one = full(planes, 0.0), lanes(planes)
    for _ in range(channels if count > 0 else 0):
        for i in range(0, count - one + 1, one):
            store(planes, at + i, zero)
        for i in range(count // one * one, count):
            planes[at + i] = 0.0
        at += step


@helper
def _fill_planes(x, image, first_line, lines, first_channel, channels, plan, planes, own):  # type: ignore[no-untyped-def]
    """The planes of some channels of an image, for ``lines`` lines from ``first_line`` of the output on."""
    pitch, plane, left, count = plan[PLANAR.pitch], plan[PLANAR.plane], plan[PLANAR.left], plan[PLANAR.count]
    for d in range(plan[PLANAR.depths]):
        x_d = d + plan[PLANAR.low]
        for h in range(lines):
            x_h = first_line + h + plan[PLANAR.low + 1]
            at = own + (d * plan[PLANAR.lines] + h) * pitch
            if x_d < 0 or x_d >= plan[PLANAR.extent] or x_h < 0 or x_h >= plan[PLANAR.extent + 1]:
                _clear(planes, at, pitch, plane, channels)
                continue
            source = (
                image * plan[PLANAR.x]
                + x_d * plan[PLANAR.x + 1]
                + x_h * plan[PLANAR.x + 2]
                + plan[PLANAR.begin] * plan[PLANAR.x + 3]
                + first_channel
            )
            _clear(planes, at, left, plane, channels)
            _flip(x, source, plan[PLANAR.x + 3], planes, at + left, plane, count, channels)
            _clear(planes, at + left + count, pitch - left - count, plane, channels)
        _clear(planes, own + (d * plan[PLANAR.lines] + lines) * pitch, plan[PLANAR.right], plane, channels)


@helper
def _larger(value, best):  # type: ignore[no-untyped-def]
    return select(exceeds(value, best), value, best)


@helper
def _halve(planes, at, lines, pitch, line, target, residual, bounds):  # type: ignore[no-untyped-def]
    """Finish the lines of a plane, and put the maxima of every two by two positions one after the other at its begin.

    Of equal elements the first one counts, as in ``max_pool``. Lines are read before they are overwritten; what is
    written past the end of one is overwritten by the next, unless the lines are shorter than a register.
    """
    one, to = lanes(planes), at
    for h in range(0, lines - 1, 2):
        for w in range(0, line - 1, 2 * one):
            begin = at + h * pitch + w
            a = finish_vector(load(planes, begin), target, 0, 0, residual, bounds)
            b = finish_vector(load(planes, begin + one), target, 0, 0, residual, bounds)
            c = finish_vector(load(planes, begin + pitch), target, 0, 0, residual, bounds)
            d = finish_vector(load(planes, begin + pitch + one), target, 0, 0, residual, bounds)
            best = _larger(odds(c, d), _larger(evens(c, d), _larger(odds(a, b), evens(a, b))))
            if 2 * pitch >= line // 2 + one:
                store(planes, to + w // 2, best)
            else:
                store_first(planes, to + w // 2, best, (line - w) // 2)
        to += line // 2


def gather(
    task: int,
    worker: int,
    x: Array,
    weights: Array,
    init: Array,
    target: Array,
    planes: Array,
    plane_words: int,
    plan: Table,
    scratch: Table,
    scratch_words: int,
    residual: Array,
    bounds: Array,
) -> None:
    """Some lines of one image, some groups, of ``target[q] = init + sum over taps of x[q + tap] @ weights[tap]``.

    Or the maxima of every two by two of these.
    """
    groups, group_block = plan[PLANAR.groups], plan[PLANAR.group_block]
    group_blocks = (groups + group_block - 1) // group_block
    first_group = task % group_blocks * group_block
    some = min(group_block, groups - first_group)
    block = task // group_blocks % plan[PLANAR.blocks]
    image = task // group_blocks // plan[PLANAR.blocks]
    first_line = block * plan[PLANAR.block]
    lines = min(plan[PLANAR.block], plan[PLANAR.positions + 1] - first_line)
    if lines <= 0:
        return
    size = address(offset(x, 1)) - address(x)
    depth, columns, taps = plan[PLANAR.x_channels], plan[PLANAR.other_channels], plan[PLANAR.taps]
    pitch, plane, step, width = plan[PLANAR.pitch], plan[PLANAR.plane], plan[PLANAR.other_plane], plan[GATHER.width]
    own = worker * plane_words
    others = own + group_block * depth * plane
    span, run, line = plan[PLANAR.lines] - plan[PLANAR.block], plan[PLANAR.run], plan[PLANAR.positions + 2]
    halved = plan[GATHER.halved] == 1
    first_out, lines_out, pitch_out = first_line, lines, pitch
    if halved:
        line //= 2
        first_out, lines_out, pitch_out = first_line // 2, lines // 2, line
    _fill_planes(x, image, first_line, lines + span, first_group * depth, some * depth, plan, planes, own)
    rows_of_c = worker * scratch_words
    table = rows_of_c + MOST_ROWS
    for tap in range(taps):
        scratch[table + 2 * tap] = address(weights) + tap * depth * columns * size
        scratch[table + 2 * tap + 1] = address(planes) + (own + plan[GATHER.offsets + tap]) * size
    product = offset(plan, GATHER.product)
    panels = (lines * pitch + width - 1) // width
    for d in range(plan[PLANAR.positions]):
        for group in range(some):
            for tile in range(product[PRODUCT.tiles]):
                first, rows = rows_of_tile(product, tile)
                for i in range(rows):
                    channel = group * columns + first + i
                    row = others + channel * step
                    scratch[rows_of_c + i] = address(planes) + row * size
                    bias = full(planes, init[first_group * columns + channel])
                    for p in range(0, panels * width, lanes(planes)):
                        store(planes, row + p, bias)
                multiply_panels(
                    product,
                    rows,
                    0,
                    panels,
                    address(offset(scratch, table)),
                    taps,
                    depth,
                    columns * size,
                    (group * depth * plane + d * plan[PLANAR.lines] * pitch) * size,
                    width * size,
                    ((first_group + group) * taps * depth * columns + first) * size,
                    plane * size,
                    address(offset(scratch, rows_of_c)),
                    address(init),
                    1,
                    NO_FINISH,
                )
        if halved:
            for channel in range(some * columns):
                row = others + channel * step
                _halve(planes, row, lines, pitch, plan[PLANAR.positions + 2], target, residual, bounds)
        for h in range(0, lines_out, run):
            at = image * plan[PLANAR.other] + d * plan[PLANAR.other + 1] + (first_out + h) * plan[PLANAR.other + 2]
            _flip(
                planes,
                others + h * pitch_out,
                step,
                target,
                at + first_group * columns,
                plan[PLANAR.other + 3],
                some * columns,
                min(run, lines_out) * line,
            )
            at += first_group * columns
            if halved:
                continue
            if plan[PLANAR.other + 3] == some * columns:
                finish_line(target, at, min(run, lines) * line * some * columns, residual, bounds)
            else:
                for pixel in range(min(run, lines) * line):
                    finish_line(target, at + pixel * plan[PLANAR.other + 3], some * columns, residual, bounds)


def weight_grad(
    task: int,
    worker: int,
    x: Array,
    g: Array,
    target: Array,
    planes: Array,
    plane_words: int,
    plan: Table,
    scratch: Table,
    scratch_words: int,
) -> None:
    """One part of ``target[part, tap, i, j] = sum over images, positions of x[position + tap, i] * g[position, j]``."""
    groups, group_block = plan[PLANAR.groups], plan[PLANAR.group_block]
    group_blocks = (groups + group_block - 1) // group_block
    first_group = task % group_blocks * group_block
    some = min(group_block, groups - first_group)
    part = task // group_blocks
    size = address(offset(x, 1)) - address(x)
    depth, columns, taps = plan[PLANAR.x_channels], plan[PLANAR.other_channels], plan[PLANAR.taps]
    pitch, plane, other_plane = plan[PLANAR.pitch], plan[PLANAR.plane], plan[PLANAR.other_plane]
    line = plan[PLANAR.positions + 2]
    own = worker * plane_words
    others = own + group_block * depth * plane
    span, run = plan[PLANAR.lines] - plan[PLANAR.block], plan[PLANAR.run]
    rows = worker * scratch_words
    x_table, targets = rows + MOST_ROWS, rows + MOST_ROWS + taps * depth
    begin = address(target) + (part * taps * depth * groups * columns) * size
    for tap in range(taps):
        for i in range(depth):
            pair = tap * depth + i
            scratch[x_table + pair] = address(planes) + (own + i * plane + plan[SUMS.offsets + tap]) * size
            scratch[targets + pair] = begin + pair * groups * columns * size
    row_tiles, column_tiles = plan[SUMS.row_tiles], plan[SUMS.column_tiles]
    least_rows, more_rows = columns // row_tiles, columns % row_tiles
    least_columns, more_columns = taps * depth // column_tiles, taps * depth % column_tiles
    # lines, or positions of one, that are summed before they are added to the others
    segment = _STEPS * lanes(x)
    together = max(1, segment // line)
    items, parts = plan[SUMS.items], plan[SUMS.parts]
    for item in range(part * items // parts, (part + 1) * items // parts):
        image, first_line = item // plan[PLANAR.blocks], item % plan[PLANAR.blocks] * plan[PLANAR.block]
        lines = min(plan[PLANAR.block], plan[PLANAR.positions + 1] - first_line)
        if lines <= 0:
            continue
        _fill_planes(x, image, first_line, lines + span, first_group * depth, some * depth, plan, planes, own)
        for d in range(plan[PLANAR.positions]):
            for h in range(0, lines, run):
                at = image * plan[PLANAR.other] + d * plan[PLANAR.other + 1] + (first_line + h) * plan[PLANAR.other + 2]
                _flip(
                    g,
                    at + first_group * columns,
                    plan[PLANAR.other + 3],
                    planes,
                    others + (d * plan[PLANAR.block] + h) * line,
                    other_plane,
                    min(run, lines) * line,
                    some * columns,
                )
            for group in range(some):
                for i in range(row_tiles):
                    first = begin_of_tile(i, least_rows, more_rows)
                    more_i = 1 if i < more_rows else 0
                    for k in range(least_rows + more_i):
                        channel = group * columns + first + k
                        scratch[rows + k] = (
                            address(planes) + (others + channel * other_plane + d * plan[PLANAR.block] * line) * size
                        )
                    for j in range(column_tiles):
                        pair = begin_of_tile(j, least_columns, more_columns)
                        more_j = 1 if j < more_columns else 0
                        for k in range(0, lines, together):
                            for p in range(0, line, segment):
                                whole = (min(segment, line - p) - 1) // lanes(x) * lanes(x)
                                dot(
                                    plan[SUMS.dots + 2 * more_i + more_j],
                                    address(offset(scratch, rows)),
                                    (k * line + p) * size,
                                    line * size,
                                    address(offset(scratch, x_table + pair)),
                                    (group * depth * plane + (d * plan[PLANAR.lines] + k) * pitch + p) * size,
                                    pitch * size,
                                    min(together, lines - k),
                                    whole * size,
                                    min(segment, line - p) - whole,
                                    address(offset(scratch, targets + pair)),
                                    ((first_group + group) * columns + first) * size,
                                )
