# mypy: ignore-errors
"""One task of an input gradient with few input channels; see fold.py."""

from __future__ import annotations

from ..machine.compiler import Array, Table
from ..machine.microkernel import PRODUCT, ROW_SLOTS
from ..machine.microkernel_jit import multiply_panels, rows_of_tile
from ..machine.simd import address, lanes, load_first, offset, store_first
from .fold import FOLD


def input_grad(
    task: int,
    worker: int,
    g: Array,
    packed: Array,
    init: Array,
    gx: Array,
    zeros: Array,
    products: Array,
    plan: Table,
    scratch: Table,
) -> None:
    """One image: ``gx[o*stride + r*dilation - low, c] += sum over k of g[o, k] * w[k, (r, c)]``, from the bias on."""
    product, depth = offset(plan, FOLD.product), plan[FOLD.depth]
    channels, width, row = plan[FOLD.channels], plan[FOLD.columns], product[PRODUCT.row]
    positions_d, positions_h, positions_w = plan[FOLD.output], plan[FOLD.output + 1], plan[FOLD.output + 2]
    kernel_d, kernel_h, kernel_w = plan[FOLD.kernel], plan[FOLD.kernel + 1], plan[FOLD.kernel + 2]
    extent_d, extent_h, extent_w = plan[FOLD.input], plan[FOLD.input + 1], plan[FOLD.input + 2]
    image = task * extent_d * extent_h * extent_w * channels
    for i in range(extent_d * extent_h * extent_w):
        for c in range(0, channels, lanes(gx)):
            store_first(gx, image + i * channels + c, load_first(init, c, channels - c), channels - c)
    table = worker * 2 * ROW_SLOTS
    rows_of_c = table + ROW_SLOTS
    table_at, rows_at = address(offset(scratch, table)), address(offset(scratch, rows_of_c))
    line_products = worker * plan[FOLD.products]
    for line in range(positions_d * positions_h):
        d, h = line // positions_h, line % positions_h
        source = address(g) + task * plan[FOLD.grad] + d * plan[FOLD.grad + 1] + h * plan[FOLD.grad + 2]
        # the products of one line of g with all taps stay in L1 or L2
        for tile in range(product[PRODUCT.tiles]):
            first, rows = rows_of_tile(product, tile)
            for i in range(rows):
                scratch[table + i] = source + (first + i) * plan[FOLD.grad + 3]
                scratch[rows_of_c + i] = address(offset(products, line_products + (first + i) * width))
            multiply_panels(
                product,
                rows,
                0,
                product[PRODUCT.panels],
                table_at,
                1,
                depth,
                0,
                address(packed),
                depth * row,
                0,
                row,
                rows_at,
                address(zeros),
                0,
            )
        for w in range(positions_w):
            at = line_products + w * width
            first_w = w * plan[FOLD.stride + 2] - plan[FOLD.padding + 2]
            for a in range(kernel_d):
                in_d = d * plan[FOLD.stride] - plan[FOLD.padding] + a * plan[FOLD.dilation]
                for b in range(kernel_h):
                    in_h = h * plan[FOLD.stride + 1] - plan[FOLD.padding + 1] + b * plan[FOLD.dilation + 1]
                    tap = at + (a * kernel_h + b) * kernel_w * channels
                    if in_d < 0 or in_d >= extent_d or in_h < 0 or in_h >= extent_h:
                        continue
                    target = image + (in_d * extent_h + in_h) * extent_w * channels
                    if plan[FOLD.dilation + 2] == 1:  # a row of taps is contiguous
                        skip = max(0, -first_w)
                        count = (min(kernel_w, extent_w - first_w) - skip) * channels
                        target += (first_w + skip) * channels
                        tap += skip * channels
                        for i in range(0, count, lanes(gx)):
                            total = load_first(gx, target + i, count - i) + load_first(products, tap + i, count - i)
                            store_first(gx, target + i, total, count - i)
                    else:
                        for c in range(kernel_w):
                            in_w = first_w + c * plan[FOLD.dilation + 2]
                            if 0 <= in_w < extent_w:
                                for i in range(channels):
                                    gx[target + in_w * channels + i] += products[tap + c * channels + i]
