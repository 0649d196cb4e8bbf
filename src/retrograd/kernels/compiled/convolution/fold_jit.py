# mypy: ignore-errors
"""One task of an input gradient with few input channels; see fold.py."""

from __future__ import annotations

from ..machine.compiler import Array, Table, helper
from ..machine.microkernel import PRODUCT, ROW_SLOTS
from ..machine.microkernel_jit import NO_FINISH, multiply_panels, rows_of_tile
from ..machine.simd import address, lanes, load, load_first, offset, store_first
from .fold import FOLD


@helper
def _multiply_line(source, packed, zeros, products, line, plan, scratch, table):  # type: ignore[no-untyped-def]
    """The products of the line of g at the address ``source`` with all taps, from element ``line`` on."""
    product, depth = offset(plan, FOLD.product), plan[FOLD.depth]
    row, rows_of_c = product[PRODUCT.row], table + ROW_SLOTS
    for tile in range(product[PRODUCT.tiles]):
        first, rows = rows_of_tile(product, tile)
        for i in range(rows):
            scratch[table + i] = source + (first + i) * plan[FOLD.grad + 3]
            scratch[rows_of_c + i] = address(offset(products, line + (first + i) * plan[FOLD.columns]))
        multiply_panels(
            product,
            rows,
            0,
            product[PRODUCT.panels],
            address(offset(scratch, table)),
            1,
            depth,
            0,
            address(packed),
            depth * row,
            0,
            row,
            address(offset(scratch, rows_of_c)),
            address(zeros),
            0,
            NO_FINISH,
        )


@helper
def _fold_line(products, pattern, plan, taps, count, scratch, gx, at):  # type: ignore[no-untyped-def]
    """A line of gx from the products of ``count`` kernel rows, that of each from ``scratch[taps + row]`` on."""
    channels, stride, steps, width = plan[FOLD.channels], plan[FOLD.stride], plan[FOLD.steps], plan[FOLD.columns]
    positions, extent, low = plan[FOLD.output + 2], plan[FOLD.input + 2], plan[FOLD.padding]
    group = stride * channels  # elements whose products come from the same positions of g
    first, last = low // stride, (extent - 1 + low) // stride + 1
    whole_first, whole_last = (low + stride - 1) // stride, (extent + low) // stride
    for v in range(0, group, lanes(gx)):
        left, part = group - v, plan[FOLD.part] - v
        initial = load(products, pattern + v)
        for q in range(whole_first, whole_last):
            begin, end = max(0, q - positions + 1), min(steps, q + 1)
            total = initial
            for row in range(count):
                tap = scratch[taps + row] + q * width + v
                for m in range(begin, min(end, steps - 1)):
                    total = total + load(products, tap + m * (group - width))
                if begin < steps and end == steps:
                    total = total + load_first(products, tap + (steps - 1) * (group - width), part)
            store_first(gx, at + (q * stride - low) * channels + v, total, left)
    for q in range(first, last):  # those across an end of the line
        if q < whole_first or q >= whole_last:
            for i in range(max(0, q * stride - low), min(extent, (q + 1) * stride - low)):
                for c in range(channels):
                    place = (i + low - q * stride) * channels + c
                    total = products[pattern + place]
                    for row in range(count):
                        for m in range(max(0, q - positions + 1), min(steps, q + 1)):
                            if m < steps - 1 or place < plan[FOLD.part]:
                                total += products[scratch[taps + row] + (q - m) * width + m * group + place]
                    gx[at + i * channels + c] = total


def input_grad(
    task: int,
    worker: int,
    g: Array,
    packed: Array,
    init: Array,
    gx: Array,
    zeros: Array,
    products: Array,
    elements: int,
    plan: Table,
    scratch: Table,
    scratch_words: int,
) -> None:
    """Lines of ``gx[o*stride + r*dilation - low, c] = init + sum over o, r, k of g[o, k] * w[k, (r, c)]``."""
    channels, lines, tasks = plan[FOLD.channels], plan[FOLD.lines], plan[FOLD.tasks]
    positions_d, positions_h = plan[FOLD.output], plan[FOLD.output + 1]
    extent_d, extent_h = plan[FOLD.input], plan[FOLD.input + 1]
    slots, own = plan[FOLD.span] * plan[FOLD.span + 1], worker * elements
    pattern = own + slots * plan[FOLD.pitch]
    table = worker * scratch_words
    tags = table + 2 * ROW_SLOTS
    taps = tags + slots
    for i in range(plan[FOLD.stride] * channels):
        products[pattern + i] = init[i % channels]
    for slot in range(slots):
        scratch[tags + slot] = -1
    for line in range(task * lines // tasks, (task + 1) * lines // tasks):
        h, rest = line % extent_h, line // extent_h
        d, n = rest % extent_d, rest // extent_d
        kind = plan[FOLD.kinds + d % plan[FOLD.period] * plan[FOLD.kinds_h] + h % plan[FOLD.period + 1]]
        count = 0
        for row in range(plan[kind]):
            in_d = d // plan[FOLD.period] + plan[kind + 1 + 3 * row]
            in_h = h // plan[FOLD.period + 1] + plan[kind + 2 + 3 * row]
            if 0 <= in_d < positions_d and 0 <= in_h < positions_h:
                slot = in_d % plan[FOLD.span] * plan[FOLD.span + 1] + in_h % plan[FOLD.span + 1]
                begin, tag = own + slot * plan[FOLD.pitch], (n * positions_d + in_d) * positions_h + in_h
                if scratch[tags + slot] != tag:
                    scratch[tags + slot] = tag
                    source = address(g) + n * plan[FOLD.grad] + in_d * plan[FOLD.grad + 1] + in_h * plan[FOLD.grad + 2]
                    _multiply_line(source, packed, zeros, products, begin, plan, scratch, table)
                scratch[taps + count] = begin + plan[kind + 3 + 3 * row]
                count += 1
        _fold_line(products, pattern, plan, taps, count, scratch, gx, line * plan[FOLD.input + 2] * channels)
