"""What one task of an input gradient with few input channels does; see ../fold.py."""

from __future__ import annotations

from .. import fold_plan as word
from ..microkernel import ROW_SLOTS
from ..simd import address, lanes, load_first, offset, store_first
from .convolution import tile_begin
from .microkernel import brgemm


def input_grad(
    task: int, worker: int, g: Array, packed: Array, init: Array, gx: Array, zeros: Array, products: Array, plan: Table,
    scratch: Table,
) -> None:  # fmt: skip
    """One image: ``gx[o*stride + r*dilation - low, c] += sum over k of g[o, k] * w[k, (r, c)]``, from the bias on."""
    size, columns, panels, depth = plan[word.SIZE], plan[word.WIDTH], plan[word.PANELS], plan[word.DEPTH]
    channels, width = plan[word.CHANNELS], plan[word.COLUMNS]
    positions_d, positions_h, positions_w = plan[word.OUTPUT], plan[word.OUTPUT + 1], plan[word.OUTPUT + 2]
    kernel_d, kernel_h, kernel_w = plan[word.KERNEL], plan[word.KERNEL + 1], plan[word.KERNEL + 2]
    extent_d, extent_h, extent_w = plan[word.INPUT], plan[word.INPUT + 1], plan[word.INPUT + 2]
    image = task * extent_d * extent_h * extent_w * channels
    for i in range(extent_d * extent_h * extent_w):
        for c in range(0, channels, lanes(gx)):
            store_first(gx, image + i * channels + c, load_first(init, c, channels - c), channels - c)
    table = worker * 2 * ROW_SLOTS
    rows_of_c = table + ROW_SLOTS
    line_products = worker * plan[word.PRODUCTS]
    least, extra, tiles = plan[word.LEAST], plan[word.EXTRA], plan[word.TILES]
    for line in range(positions_d * positions_h):
        d, h = line // positions_h, line % positions_h
        source = address(g) + task * plan[word.GRAD] + d * plan[word.GRAD + 1] + h * plan[word.GRAD + 2]
        # the products of one line of g with all taps stay in the first or second cache
        for tile in range(tiles):
            first, rows = tile_begin(tile, least, extra), least + (1 if tile < extra else 0)
            for i in range(rows):
                scratch[table + i] = source + (first + i) * plan[word.GRAD + 3]
                scratch[rows_of_c + i] = address(offset(products, line_products + (first + i) * width))
            for panel in range(panels):
                last = 1 if panel == panels - 1 else 0
                brgemm(
                    plan[word.MICRO + 2 * last + (1 if tile < extra else 0)],
                    address(offset(scratch, table)), 1, depth, 0,
                    address(offset(packed, panel * depth * columns)), 0, columns * size,
                    address(offset(scratch, rows_of_c)), panel * columns * size,
                    plan[word.TAIL] if last == 1 else lanes(g), address(zeros), 0,
                )  # fmt: skip
        for w in range(positions_w):
            at = line_products + w * width
            first_w = w * plan[word.STRIDE + 2] - plan[word.PADDING + 2]
            for a in range(kernel_d):
                in_d = d * plan[word.STRIDE] - plan[word.PADDING] + a * plan[word.DILATION]
                for b in range(kernel_h):
                    in_h = h * plan[word.STRIDE + 1] - plan[word.PADDING + 1] + b * plan[word.DILATION + 1]
                    tap = at + (a * kernel_h + b) * kernel_w * channels
                    if in_d < 0 or in_d >= extent_d or in_h < 0 or in_h >= extent_h:
                        continue
                    target = image + (in_d * extent_h + in_h) * extent_w * channels
                    if plan[word.DILATION + 2] == 1:  # a row of taps meets neighbours
                        skip = max(0, -first_w)
                        count = (min(kernel_w, extent_w - first_w) - skip) * channels
                        target += (first_w + skip) * channels
                        tap += skip * channels
                        for i in range(0, count, lanes(gx)):
                            total = load_first(gx, target + i, count - i) + load_first(products, tap + i, count - i)
                            store_first(gx, target + i, total, count - i)
                    else:
                        for c in range(kernel_w):
                            in_w = first_w + c * plan[word.DILATION + 2]
                            if 0 <= in_w < extent_w:
                                for i in range(channels):
                                    gx[target + in_w * channels + i] += products[tap + c * channels + i]
