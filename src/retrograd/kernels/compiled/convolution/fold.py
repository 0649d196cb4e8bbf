"""The input gradient for few input channels: the products of all taps of a position at once, then a scatter-add.

As a gather (``convolution.py``) its tile would have as many columns as the input has channels. Here g[o] @ w has
taps * channels of them; the products of one line of g are folded into gx before the next line is computed.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import kernel
from ..machine.microkernel import ROW_SLOTS
from ..machine.scratch import cores, per_thread
from ..memory.channels_last import usual_strides
from ..memory.packing import NO_TAPS, pack_weights, packed_elements, zeros_of
from .fold_plan import FOLD, fold_plan
from .narrow import WEIGHT_LAST
from .plan import three_axes, three_strides

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
