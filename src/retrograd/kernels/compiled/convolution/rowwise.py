"""Forward pass of kernels of one tap: all pixels are equally spaced rows of one long matrix product."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import kernel
from ..machine.microkernel import (
    PRODUCT,
    SMALL_TASK_WORK,
    TASK_WORK,
    Tile,
    even_product,
    packed_tile,
    registers,
    task_count,
)
from ..machine.record import record
from ..machine.scratch import cores, page_of, per_thread
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
    buffer=1,  # elements for a piece of y that is then stored past the caches; 0: the tiles are stored in y
)

_PIECE = 16 << 10  # bytes of x that are read again for every panel of the weights
# A result that no cache holds waits for memory if x has few channels. Where its rows have several panels, stored one
# after the other, the CPU reads each line of it before it writes: twice the traffic. So the rows of a tile are put
# together in L1, then stored past the caches in order. With 16 registers, the arithmetic takes longer than memory.
STREAMED = 24 << 20  # bytes of such a result
_FEW = 8  # channels of x for each panel, at most
_BUFFER = 16 << 10  # bytes of such a tile, at most
ALIGNED = 16  # elements: the pieces of threads begin at multiples of so many
TABLE = page_of(1)  # words per thread for the address of a tile
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
    streamed = is_streamed(pixels, depth, columns, dtype)
    if streamed:
        piece = 1
    elif shape.panels > 1:
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
        buffer=-(-piece * shape.rows * columns // ALIGNED) * ALIGNED + ALIGNED if streamed else 0,
    )
    return words, shape


def is_streamed(pixels: int, depth: int, columns: int, dtype: str) -> bool:
    """Whether the result is stored past the caches."""
    shape, row = packed_tile(dtype, "line", columns, depth), columns * (4 if dtype == "f" else 8)
    few = registers() == 32 and depth <= _FEW * shape.panels
    return few and shape.panels > 1 and pixels * row > STREAMED and shape.rows * row <= _BUFFER


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
    scratch, buffers = per_thread(TABLE, "i8"), per_thread(int(words[ROWWISE.buffer]), dtype)
    _conv[dtype](int(words[ROWWISE.tasks]), x, w, init, y, words, scratch, buffers, *(finish or (y, y)))
    return y


def pointwise_bytes(pixels: int, inputs: int, outputs: int, dtype: str) -> int:
    """Bytes of temporary memory of ``pointwise``, at most: packed weights, and pieces of a result."""
    words, shape = _plan(pixels, inputs, outputs, dtype)
    elements = packed_elements(1, inputs, outputs, 1, dtype, shape) + int(words[ROWWISE.buffer]) * cores()
    return elements * (4 if dtype == "f" else 8)
