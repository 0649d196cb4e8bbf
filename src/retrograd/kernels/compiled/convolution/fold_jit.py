# mypy: ignore-errors
"""One task of an input gradient with few input channels; see fold.py."""

from __future__ import annotations

from ..machine.compiler import Array, Table, helper
from ..machine.microkernel import PRODUCT
from ..machine.microkernel_jit import NO_FINISH, finish_line, multiply, rows_of_tile
from ..machine.simd import address, lanes, load, load_first, offset, store, store_first
from .fold import FOLD, FOLD_KIND


@helper
def _multiply_lines(table, count, packed, zeros, products, plan, accumulate):  # type: ignore[no-untyped-def]
    """The sums of the products of ``count`` lines of g, whose addresses are in ``table``, with kernel rows."""
    product, depth = offset(plan, FOLD.product), plan[FOLD.depth]
    row, size = product[PRODUCT.row], address(offset(products, 1)) - address(products)
    c_step = plan[FOLD.columns] * size
    for panel in range(product[PRODUCT.panels]):
        for tile in range(product[PRODUCT.tiles]):
            first, rows = rows_of_tile(product, tile)
            for line in range(count):
                table[line] += first * plan[FOLD.grad + 3]
            multiply(
                product,
                rows,
                panel,
                address(table),
                count,
                depth,
                plan[FOLD.grad + 3],
                packed + panel * plan[FOLD.panel_step],
                depth * row,
                row,
                address(products) + first * c_step + panel * row,
                c_step,
                address(zeros) + panel * row,
                accumulate,
                NO_FINISH,
            )
            for line in range(count):
                table[line] -= first * plan[FOLD.grad + 3]


@helper
def _fold_line(products, pattern, plan, gx, at):  # type: ignore[no-untyped-def]
    """A line of gx from the products of a line of g, with zeros on both sides; ``pattern`` is the initial row."""
    channels, stride, steps, width = plan[FOLD.channels], plan[FOLD.stride], plan[FOLD.steps], plan[FOLD.columns]
    extent, low = plan[FOLD.input + 2], plan[FOLD.padding]
    group = stride * channels  # elements whose products come from the same positions of g
    first, last = low // stride, (extent - 1 + low) // stride + 1
    whole_first, whole_last = (low + stride - 1) // stride, (extent + low) // stride
    for v in range(0, group, lanes(gx)):
        left, part = group - v, plan[FOLD.part] - v
        initial, unmasked = load(pattern, v), steps if part == left else steps - 1
        for q in range(whole_first, whole_last):
            tap, total = q * width + v, initial
            for _ in range(unmasked):
                total = total + load(products, tap)
                tap += group - width
            if unmasked < steps:
                total = total + load_first(products, tap, part)
            to = (q * stride - low) * channels + v
            if group <= lanes(gx) <= extent * channels - to:  # the next sum overwrites what is no sum
                store(gx, at + to, total)
            else:
                store_first(gx, at + to, total, left)
    for q in range(first, last):  # those across an end of the line
        if q < whole_first or q >= whole_last:
            for i in range(max(0, q * stride - low), min(extent, (q + 1) * stride - low)):
                for c in range(channels):
                    place = (i + low - q * stride) * channels + c
                    total = pattern[place]
                    for m in range(steps if place < plan[FOLD.part] else steps - 1):
                        total += products[(q - m) * width + m * group + place]
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
    residual: Array,
    bounds: Array,
) -> None:
    """Lines of ``gx[o*stride + r*dilation - low, c] = init + sum over o, r, k of g[o, k] * w[k, (r, c)]``."""
    channels, lines, tasks = plan[FOLD.channels], plan[FOLD.lines], plan[FOLD.tasks]
    extent_d, extent_h, positions = plan[FOLD.input], plan[FOLD.input + 1], plan[FOLD.output + 2]
    of_row = plan[FOLD.depth] * plan[FOLD.product + PRODUCT.row]
    columns, around = plan[FOLD.columns], plan[FOLD.around]
    own, pitch = offset(products, worker * elements), positions * columns + around
    pattern, table = offset(own, 2 * pitch + around), offset(scratch, worker * scratch_words)
    for i in range(plan[FOLD.stride] * channels):
        pattern[i] = init[i % channels]
    for place in range(3):  # zeros before, between and after two lines
        for i in range(around):
            own[place * pitch + i] = 0.0
    own = offset(own, around)
    begin, end = task * lines // tasks, (task + 1) * lines // tasks
    for line in range(begin, end + 1):
        now, count = offset(own, line % 2 * pitch), 0
        if line < end:
            h, rest = line % extent_h, line // extent_h
            d, n = rest % extent_d, rest // extent_d
            kind = plan[FOLD.kinds + d % plan[FOLD.period] * plan[FOLD.kinds_h] + h % plan[FOLD.period + 1]]
            depths, rows = plan[kind + FOLD_KIND.depths], plan[kind + FOLD_KIND.lines]
            for i in range(depths):
                in_d = d // plan[FOLD.period] + plan[kind + FOLD_KIND.list + i]
                row, found = plan[kind + FOLD_KIND.first] + i * rows, 0
                for j in range(rows if 0 <= in_d < plan[FOLD.output] else 0):
                    in_h = h // plan[FOLD.period + 1] + plan[kind + FOLD_KIND.list + depths + j]
                    if 0 <= in_h < plan[FOLD.output + 1]:  # adjacent kernel rows
                        if found == 0:
                            row += j
                        place = n * plan[FOLD.grad] + in_d * plan[FOLD.grad + 1] + in_h * plan[FOLD.grad + 2]
                        table[found] = address(g) + place
                        found += 1
                if found > 0:
                    weights = address(packed) + row * of_row
                    _multiply_lines(table, found, weights, zeros, now, plan, 1 if count > 0 else 0)
                    count += found
            for i in range(positions * columns if count == 0 else 0):
                now[i] = 0.0
        if line > begin:  # the line before: loads soon after overlapping stores are slow
            before = offset(own, (line - 1) % 2 * pitch)
            at, count = (line - 1) * plan[FOLD.input + 2] * channels, plan[FOLD.input + 2] * channels
            _fold_line(before, pattern, plan, gx, at)
            finish_line(gx, at, count, residual, bounds)
