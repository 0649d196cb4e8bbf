"""Input gradient for few input channels: one product per position with all taps, whose sums are the gradient.

Computed as a gather (``direct.py``), a tile would have only as many columns as the input has channels. Here g[o] @ w
has taps * channels columns. A task keeps these products for the lines of g that the next lines of gx need, and adds for
each line of gx those that reach it: along W, the taps whose distance is the stride, for ``stride * channels`` adjacent
elements at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import kernel
from ..machine.microkernel import MOST_TASKS, PRODUCT, ROW_SLOTS, TASK_WORK, even_product, tile
from ..machine.record import record
from ..machine.scratch import cores, per_thread
from ..memory.layout import usual_strides
from ..memory.packing import NO_TAPS, pack_weights, packed_elements, zeros_of
from .axes import WEIGHT_LAST, Axis, three_axes, three_strides
from .direct_plan import axis_phases

# ---- The plan of an input gradient with few input channels ----------------------------------------------------------

FOLD = record(
    depth=1,
    channels=1,  # channels of g, and of the input
    columns=1,  # taps times input channels
    product=PRODUCT.words,  # of a line of g
    pitch=1,  # elements of the products of a line
    span=2,  # lines of g between two that share their place, along D, H
    output=3,
    input=3,
    period=2,  # the strides along D, H
    stride=1,
    padding=1,
    steps=1,  # along W; the taps of a kernel row, divided by the stride
    part=1,  # elements of a kernel row beyond its last whole stride
    grad=4,  # strides of g in bytes: N, D, H, W
    lines=1,
    tasks=1,  # lines of gx; tasks that share them
    kinds_h=1,
    kinds=0,  # where the taps of each pair of residues begin; how many, and for each: offsets along D, H; its products
)

_MOST_PRODUCTS = 512 << 10  # bytes of products that stay in L2
_MOST_KINDS = 64
_AGAIN = 8  # a task computes the products of at most one in so many lines of g that another one computes, too


def fold_plan(axes: list[Axis], batch: int, outputs: int, inputs: int, dtype: str, g: Sequence[int]) -> np.ndarray:
    """The plan for ``outputs`` channels of g and ``inputs`` of the input."""
    columns, positions = prod(axis.kernel for axis in axes) * inputs, axes[2].output
    along = [axis_phases(axis, True) for axis in axes[:2]]
    moves = [[move for *_, taps in phases for move, _ in taps] or [0] for phases in along]
    span = [max(each) - min(each) + 1 for each in moves]
    row = axes[2].kernel * inputs
    kinds = [
        [
            len(of_d) * len(of_h),
            *(word for (d, a), (h, b) in product(of_d, of_h) for word in (d, h, (a * axes[1].kernel + b) * row)),
        ]
        for (*_, of_d), (*_, of_h) in product(*along)
    ]
    starts = np.cumsum([FOLD.words + len(kinds), *(len(kind) for kind in kinds)])[:-1]
    stride, kernel = axes[2].stride, axes[2].kernel
    lines = batch * axes[0].input * axes[1].input
    work = batch * prod(axis.output for axis in axes) * outputs * columns
    most_tasks = max(batch, lines // (_AGAIN * span[1] * axes[1].stride))
    steps = -(-kernel // stride)
    return FOLD.pack(
        depth=outputs,
        channels=inputs,
        columns=columns,
        product=even_product(dtype, "rows", tile(dtype, "rows", columns), positions),
        pitch=positions * columns,
        span=span,
        output=[a.output for a in axes],
        input=[a.input for a in axes],
        period=[a.stride for a in axes[:2]],
        stride=stride,
        padding=axes[2].low,
        steps=steps,
        part=(kernel - (steps - 1) * stride) * inputs,
        grad=g,
        lines=lines,
        tasks=max(1, min(MOST_TASKS, most_tasks, work // TASK_WORK)),
        kinds_h=len(along[1]),
        kinds=np.concatenate([starts, *kinds]),
    )


# ---- The input gradient for few input channels ----------------------------------------------------------------------

_input_grad = kernel("convolution.fold.input_grad")
_FEW = 8


def applies(channels: int, window: Window, dtype: str) -> bool:
    """Whether the products of all taps fill a tile better than the channels alone, and stay in the cache."""
    if window.groups > 1 or channels > _FEW or window.taps == 1 or window.dilation[-1] > 1:
        return False
    if prod(window.stride[:-1]) > _MOST_KINDS:
        return False
    alive = prod(
        (r - 1) * d // s + 2
        for r, d, s in zip(window.kernel[:-1], window.dilation[:-1], window.stride[:-1], strict=True)
    )
    bytes_of_line = window.output[-1] * window.taps * channels * (4 if dtype == "f" else 8)
    return alive * bytes_of_line <= _MOST_PRODUCTS


@lru_cache(maxsize=4096)
def _plan(
    window: Window, batch: int, outputs: int, inputs: int, dtype: str, strides: tuple[int, ...]
) -> tuple[np.ndarray, int]:
    """The plan, and the elements per thread: products, the initial row once per position of a stride, slack."""
    words = fold_plan(three_axes(window), batch, outputs, inputs, dtype, three_strides(strides))
    products = int(words[FOLD.span] * words[FOLD.span + 1] * words[FOLD.pitch])
    return words, products + window.stride[-1] * inputs + 2 * tile(dtype, "rows", 1).lanes


def input_grad(g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, gx: np.ndarray, window: Window) -> np.ndarray:
    """Fill ``gx``, dense and channels-last; ``g`` has contiguous channels."""
    outputs, inputs, dtype = w.shape[0], w.shape[1], g.dtype.char
    words, elements = _plan(window, g.shape[0], outputs, inputs, dtype, g.strides)
    matrix = np.ascontiguousarray(w.transpose(WEIGHT_LAST[w.ndim]), like=w).reshape(-1, outputs)  # (taps*I, O)
    packed = pack_weights(matrix, NO_TAPS, outputs, matrix.shape[0], 1, outputs, 1, 0)
    zeros = zeros_of(max(64, matrix.shape[0]), dtype)
    scratch_words = 2 * ROW_SLOTS + 2 * int(words[FOLD.span] * words[FOLD.span + 1]) + window.taps
    products, scratch = per_thread(elements, dtype), per_thread(scratch_words, "i8")
    init = zeros if bias is None else bias
    tasks = int(words[FOLD.tasks])
    _input_grad[dtype](tasks, g, packed, init, gx, zeros, products, elements, words, scratch, scratch_words)
    return gx


def temporary(window: Window, batch: int, inputs: int, outputs: int, dtype: str) -> int:
    """Bytes of temporary memory: packed weights, and the products of some lines for each thread."""
    size = 4 if dtype == "f" else 8
    _, elements = _plan(window, batch, outputs, inputs, dtype, usual_strides(batch, outputs, window.output, size))
    packed = packed_elements(1, outputs, window.taps * inputs, 1, dtype)
    return (packed + elements * cores()) * size
