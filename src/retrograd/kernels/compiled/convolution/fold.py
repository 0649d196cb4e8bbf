"""Input gradient for few input channels: a product per position with a whole kernel row, whose sums are the gradient.

Computed as a gather (``direct.py``), a tile would have only as many columns as the input has channels. Here a position
of g has as many columns as a kernel row has taps, times the channels. For each line of gx, the micro-kernel adds the
products of all lines of g that reach it; then those of adjacent positions are added where they overlap: the taps whose
distance is the stride, for ``stride * channels`` adjacent elements at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import kernel
from ..machine.microkernel import MOST_TASKS, PRODUCT, TASK_WORK, even_product, tile
from ..machine.record import record
from ..machine.scratch import cores, page_of, per_thread
from ..memory.finish import Finish
from ..memory.layout import usual_strides
from ..memory.packing import pack_weights, packed_elements, zeros_of
from .axes import WEIGHT_LAST, Axis, three_axes, three_strides
from .direct_plan import axis_phases

# ---- The plan of an input gradient with few input channels ----------------------------------------------------------

FOLD = record(
    depth=1,
    channels=1,  # channels of g, and of the input
    columns=1,  # taps of a kernel row times input channels
    product=PRODUCT.words,  # of a line of g
    panel_step=1,  # bytes from panel to panel of the weights
    output=3,
    input=3,
    period=2,  # the strides along D, H
    stride=1,
    padding=1,
    steps=1,  # along W; the taps of a kernel row, divided by the stride
    part=1,  # elements of a kernel row beyond its last whole stride
    around=1,  # zeros on both sides of the products of a line
    grad=4,  # strides of g in bytes: N, D, H, W
    lines=1,
    tasks=1,  # lines of gx; tasks that share them
    kinds_h=1,
    kinds=0,  # where the kernel rows of each pair of residues begin
)
FOLD_KIND = record(depths=1, lines=1, first=1, list=0)  # taps along D, H; the first packed row; offsets along D, H

_MOST_KINDS = 64


def fold_plan(
    axes: list[Axis], batch: int, outputs: int, inputs: int, dtype: str, g: Sequence[int]
) -> tuple[np.ndarray, list[int]]:
    """The plan for ``outputs`` channels of g and ``inputs`` of the input, and the kernel rows as they are packed."""
    columns, positions = axes[2].kernel * inputs, axes[2].output
    along = [axis_phases(axis, True) for axis in axes[:2]]
    shape = tile(dtype, "line", columns)
    kinds: list[np.ndarray] = []
    rows: list[int] = []
    for (*_, of_d), (*_, of_h) in product(*along):
        moves = [move for taps in (of_d, of_h) for move, _ in taps]
        kinds.append(FOLD_KIND.pack(depths=len(of_d), lines=len(of_h), first=len(rows), list=moves))
        rows += [a * axes[1].kernel + b for (_, a), (_, b) in product(of_d, of_h)]
    starts = np.cumsum([FOLD.words + len(kinds), *(len(kind) for kind in kinds)])[:-1]
    stride, kernel = axes[2].stride, axes[2].kernel
    lines = batch * axes[0].input * axes[1].input
    work = batch * prod(axis.output for axis in axes) * outputs * columns * prod(axis.kernel for axis in axes[:2])
    steps = -(-kernel // stride)
    last = (axes[2].input - 1 + axes[2].low) // stride  # of the positions whose products are added
    words = FOLD.pack(
        depth=outputs,
        channels=inputs,
        columns=columns,
        product=even_product(dtype, "line", shape, positions),
        panel_step=len(rows) * outputs * shape.width * (4 if dtype == "f" else 8),
        output=[a.output for a in axes],
        input=[a.input for a in axes],
        period=[a.stride for a in axes[:2]],
        stride=stride,
        padding=axes[2].low,
        steps=steps,
        part=(kernel - (steps - 1) * stride) * inputs,
        around=max(steps - 1, last + 1 - positions) * columns,
        grad=g,
        lines=lines,
        tasks=max(1, min(MOST_TASKS, lines, work // TASK_WORK)),
        kinds_h=len(along[1]),
        kinds=np.concatenate([starts, *kinds]),
    )
    return words, rows


# ---- The input gradient for few input channels ----------------------------------------------------------------------

_input_grad = kernel("convolution.fold.input_grad")
_FEW = 8


def applies(channels: int, window: Window) -> bool:
    """Whether the products of a kernel row fill a tile better than the channels alone."""
    if window.groups > 1 or channels > _FEW or window.kernel[-1] == 1 or window.dilation[-1] > 1:
        return False
    return prod(window.stride[:-1]) <= _MOST_KINDS


@lru_cache(maxsize=4096)
def _plan(
    window: Window, batch: int, outputs: int, inputs: int, dtype: str, strides: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, int]:
    """The plan, the packed kernel rows, and elements per thread: two lines and zeros, the initial row, slack."""
    words, rows = fold_plan(three_axes(window), batch, outputs, inputs, dtype, three_strides(strides))
    columns = window.kernel[-1] * inputs
    taps = np.array([row * columns * outputs for row in rows] or [0], np.int64)
    products = 2 * window.output[-1] * columns + 3 * int(words[FOLD.around])
    elements = products + window.stride[-1] * inputs + 2 * tile(dtype, "line", 1).lanes
    return words, taps, page_of(elements, 4 if dtype == "f" else 8)


def input_grad(
    g: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    gx: np.ndarray,
    window: Window,
    finish: Finish | None = None,
) -> np.ndarray:
    """Fill ``gx``, dense and channels-last; ``g`` has contiguous channels."""
    outputs, inputs, dtype = w.shape[0], w.shape[1], g.dtype.char
    words, taps, elements = _plan(window, g.shape[0], outputs, inputs, dtype, g.strides)
    columns = window.kernel[-1] * inputs
    matrix = np.ascontiguousarray(w.transpose(WEIGHT_LAST[w.ndim]), like=w).reshape(-1, outputs)  # (taps*I, O)
    packed = pack_weights(matrix, taps, outputs, columns, 1, outputs, 1, 0, shape=tile(dtype, "line", columns))
    zeros = zeros_of(max(64, columns), dtype)
    scratch_words = page_of(max(window.kernel[-2:-1], default=1))
    products, scratch = per_thread(elements, dtype), per_thread(scratch_words, "i8")
    init = zeros if bias is None else bias
    tasks = int(words[FOLD.tasks])
    after = finish or (gx, gx)
    _input_grad[dtype](tasks, g, packed, init, gx, zeros, products, elements, words, scratch, scratch_words, *after)
    return gx


def temporary(window: Window, batch: int, inputs: int, outputs: int, dtype: str) -> int:
    """Bytes of temporary memory: packed weights, and the products of two lines for each thread."""
    size, columns = 4 if dtype == "f" else 8, window.kernel[-1] * inputs
    strides = usual_strides(batch, outputs, window.output, size)
    _, taps, elements = _plan(window, batch, outputs, inputs, dtype, strides)
    packed = packed_elements(len(taps), outputs, columns, 1, dtype, tile(dtype, "line", columns))
    return (packed + elements * cores()) * size
