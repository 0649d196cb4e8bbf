"""Input gradient for few input channels: one product per position, then col2im.

Computed as a gather (``direct.py``), a tile would have only as many columns as the input has channels. Here g[o] @ w
has taps * channels columns; the products of one line of g are folded into gx before the next line is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import kernel
from ..machine.microkernel import PRODUCT, ROW_SLOTS, even_product, tile
from ..machine.record import record
from ..machine.scratch import cores, per_thread
from ..memory.layout import usual_strides
from ..memory.packing import NO_TAPS, pack_weights, packed_elements, zeros_of
from .axes import WEIGHT_LAST, Axis, three_axes, three_strides

# ---- The plan of an input gradient with few input channels ----------------------------------------------------------

FOLD = record(
    depth=1,
    channels=1,  # channels of g, and of the input
    columns=1,  # taps times input channels
    product=PRODUCT.words,  # of a line of g
    products=1,  # elements of the products of a line
    output=3,
    kernel=3,
    input=3,
    stride=3,
    padding=3,
    dilation=3,
    grad=4,  # strides of g in bytes: N, D, H, W
)


def fold_plan(axes: list[Axis], outputs: int, inputs: int, dtype: str, g: Sequence[int]) -> np.ndarray:
    """The plan for ``outputs`` channels of g and ``inputs`` of the input."""
    columns, positions = prod(axis.kernel for axis in axes) * inputs, axes[2].output
    return FOLD.pack(
        depth=outputs,
        channels=inputs,
        columns=columns,
        product=even_product(dtype, "rows", tile(dtype, "rows", columns), positions),
        products=positions * columns,
        output=[a.output for a in axes],
        kernel=[a.kernel for a in axes],
        input=[a.input for a in axes],
        stride=[a.stride for a in axes],
        padding=[a.low for a in axes],
        dilation=[a.dilation for a in axes],
        grad=g,
    )


# ---- The input gradient for few input channels ----------------------------------------------------------------------

_input_grad = kernel("convolution.fold.input_grad")
_FEW = 8


def applies(channels: int, window: Window) -> bool:
    """Whether the products of all taps fill a tile better than the channels alone."""
    return window.groups == 1 and channels <= _FEW and window.taps > 1


@lru_cache(maxsize=4096)
def _plan(window: Window, outputs: int, inputs: int, dtype: str, strides: tuple[int, ...]) -> np.ndarray:
    return fold_plan(three_axes(window), outputs, inputs, dtype, three_strides(strides))


def input_grad(g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, gx: np.ndarray, window: Window) -> np.ndarray:
    """Fill ``gx``, dense and channels-last; ``g`` has contiguous channels."""
    outputs, inputs, dtype = w.shape[0], w.shape[1], g.dtype.char
    words = _plan(window, outputs, inputs, dtype, g.strides)
    matrix = np.ascontiguousarray(w.transpose(WEIGHT_LAST[w.ndim]), like=w).reshape(-1, outputs)  # (taps*I, O)
    packed = pack_weights(matrix, NO_TAPS, outputs, matrix.shape[0], 1, outputs, 1, 0)
    zeros = zeros_of(max(64, matrix.shape[0]), dtype)
    products, scratch = per_thread(int(words[FOLD.products]), dtype), per_thread(2 * ROW_SLOTS, "i8")
    init = zeros if bias is None else bias
    _input_grad[dtype](g.shape[0], g, packed, init, gx, zeros, products, words, scratch)
    return gx


def temporary(window: Window, batch: int, inputs: int, outputs: int, dtype: str) -> int:
    """Bytes of temporary memory: packed weights, and the products of a line for each thread."""
    size = 4 if dtype == "f" else 8
    words = _plan(window, outputs, inputs, dtype, usual_strides(batch, outputs, window.output, size))
    packed = packed_elements(1, outputs, window.taps * inputs, 1, dtype)
    return (packed + int(words[FOLD.products]) * cores()) * size
