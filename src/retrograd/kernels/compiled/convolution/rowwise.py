"""Forward pass of kernels of one tap: all pixels are equally spaced rows of one long matrix product."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import kernel
from ..machine.microkernel import PRODUCT, SMALL_TASK_WORK, TASK_WORK, Tile, even_product, packed_tile, task_count
from ..machine.record import record
from ..machine.scratch import per_thread
from ..memory.finish import Finish
from ..memory.packing import NO_TAPS, pack_weights, packed_elements, zeros_of
from .axes import LARGE_WEIGHTS

# ---- The plan -------------------------------------------------------------------------------------------------------

ROWWISE = record(
    step=1,  # bytes from one pixel of x to the next
    target_step=1,  # of y
    depth=1,  # channels of x
    product=PRODUCT.words,
    piece=1,  # tiles in one
    pieces=1,
    tasks=1,
)

_PIECE = 16 << 10  # bytes of x that are read again for every panel of the weights
_LEAST_WORK = 4 * TASK_WORK  # multiply-adds that pay for packing the weights

_conv = kernel("convolution.rowwise.conv")


@lru_cache(maxsize=4096)
def _plan(pixels: int, depth: int, columns: int, dtype: str) -> tuple[np.ndarray, Tile]:
    size = 4 if dtype == "f" else 8
    shape = packed_tile(dtype, "line", columns, depth)
    product = even_product(dtype, "line", shape, pixels)
    tiles = int(product[PRODUCT.tiles])
    target_tasks = task_count(pixels * depth * columns, SMALL_TASK_WORK)
    piece = -(-tiles // min(tiles, target_tasks))
    if shape.panels > 1:
        piece = min(piece, max(1, _PIECE // (shape.rows * depth * size)))
    pieces = -(-tiles // piece)
    words = ROWWISE.pack(
        step=depth * size,
        target_step=columns * size,
        depth=depth,
        product=product,
        piece=piece,
        pieces=pieces,
        tasks=min(target_tasks, pieces),
    )
    return words, shape


def is_line(window: Window, batch: int, inputs: int, outputs: int, dtype: str) -> bool:
    """Whether a product with one tap is one long line, and large enough."""
    weights = inputs * outputs
    return (
        window.taps == window.groups == 1
        and set(window.stride) == {1}
        and all(sides == (0, 0) for sides in window.padding)
        and weights * (4 if dtype == "f" else 8) <= LARGE_WEIGHTS
        and batch * prod(window.input) * weights >= _LEAST_WORK
    )


def pointwise(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, y: np.ndarray, finish: Finish | None = None
) -> np.ndarray:
    """Fill ``y`` with the product of every pixel of x and w (columns, channels of x, *1); both are channels-last."""
    dtype, depth, columns = x.dtype.char, x.shape[1], y.shape[1]
    words, shape = _plan(x.size // depth, depth, columns, dtype)
    column_step, depth_step = (stride // w.itemsize for stride in w.strides[:2])
    if column_step != 1 or not columns == depth_step == shape.width:  # else they are read in place
        w = pack_weights(w, NO_TAPS, depth, columns, depth_step, column_step, 1, 0, shape=shape)
    init = zeros_of(columns, dtype) if bias is None else bias
    _conv[dtype](int(words[ROWWISE.tasks]), x, w, init, y, words, per_thread(8, "i8"), *(finish or (y, y)))
    return y


def pointwise_bytes(inputs: int, outputs: int, dtype: str) -> int:
    """Bytes of temporary memory of ``pointwise``, at most: packed weights."""
    shape = packed_tile(dtype, "line", outputs, inputs)
    return packed_elements(1, inputs, outputs, 1, dtype, shape) * (4 if dtype == "f" else 8)
