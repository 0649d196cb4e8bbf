"""Convolutions of 3x3 taps by Winograd's transforms: up to 4 times fewer multiplications; called by convolution.py.

Tiles of 4x4 outputs become products at 6x6 points: F(4x4, 3x3), beside it the smaller tiles that fill the output up.
The input gradient is the same with the weights turned round; the weight gradient has the transforms' adjoints.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from ..geometry import Window
from .launch import kernel
from .moves import copy
from .packing import zeros_of
from .plan import three_axes, three_steps, three_strides
from .scratch import aligned, per_thread, shared
from .winograd_plan import COLUMN_STEP, PANELS, POINTS, WIDTH, Transformed, transform_plan, transform_sum_plan

_gather = kernel("winograd.gather")
_weight_grad = kernel("winograd.weight_grad")
_transform = kernel("winograd.transform")
_multiply = kernel("winograd.multiply")
_accumulate = kernel("winograd.accumulate")
_transform_back = kernel("winograd.transform_back")
_weights = kernel("winograd_weights.weights")
_weights_back = kernel("winograd_weights.weights_back")


def can(window: Window) -> bool:
    """Whether the transforms exist for a window."""
    return (
        window.kernel == (3, 3) and window.stride == window.dilation == (1, 1) and window.groups == 1
        and min(window.output) > 1 and min(window.input) > 1
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _turned(window: Window) -> Window:
    """The window of the convolution with the kernel turned round that is the input gradient of this one."""
    padding = tuple((2 - low, 2 - high) for low, high in window.padding)
    return replace(window, input=window.output, output=window.input, padding=padding)


@lru_cache(maxsize=4096)
def _plan(
    window: Window, batch: int, depth: int, columns: int, dtype: str, x: tuple[int, ...], y: tuple[int, ...], sums: bool
) -> tuple[Transformed, np.ndarray, int, int, int]:
    """The plan, zeros that its kernel reads, and the words of it that the weights' kernels need."""
    build = transform_sum_plan if sums else transform_plan
    plan = build(three_axes(window), batch, depth, columns, dtype, three_strides(x), three_steps(y, dtype))
    words = plan.words
    zeros = zeros_of(max(depth, columns) + 64, dtype)
    return plan, zeros, int(words[WIDTH]), int(words[PANELS]), int(words[COLUMN_STEP])


def _dense(w: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """``w`` with its axes in this order in memory."""
    w = w.transpose(axes)
    if not w.flags.c_contiguous:
        dense = np.empty(w.shape, w.dtype)
        copy(dense, w)
        return dense
    return w


def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, y: np.ndarray, window: Window) -> np.ndarray:
    """Fill ``y`` with the forward pass; both tensors have neighbouring channels, the bias is dense."""
    return _transformed(x, _dense(w, (2, 3, 1, 0)), bias, y, window, 0)


def input_grad(g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, gx: np.ndarray, window: Window) -> np.ndarray:
    """Fill ``gx`` with the input gradient."""
    return _transformed(g, _dense(w, (2, 3, 0, 1)), bias, gx, _turned(window), 1)


def _transformed(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, y: np.ndarray, window: Window, turned: int
) -> np.ndarray:
    """``w`` is dense in the order (3, 3, channels of x, channels of y)."""
    dtype, depth, columns = x.dtype.char, w.shape[2], w.shape[3]
    plan, zeros, width, panels, _ = _plan(window, x.shape[0], depth, columns, dtype, x.strides, y.strides, False)
    transformed = aligned(plan.weights, dtype)
    _weights[dtype](depth, w, transformed, depth, columns, width, panels, turned)
    table = per_thread(plan.table, "q")
    init = zeros if bias is None else bias
    if not plan.blocks:
        work = per_thread(plan.work, dtype)
        _gather[dtype](plan.tasks, x, transformed, init, y, zeros, work, plan.work, plan.words, table, plan.table)
        return y
    work = shared(plan.work, dtype)
    for first, last in plan.blocks:
        _transform[dtype](last - first, x, y, zeros, work, plan.words, first, 0, table, plan.table)
        _multiply[dtype](POINTS * POINTS, transformed, zeros, work, plan.words, first, last, table, plan.table)
        _transform_back[dtype](last - first, work, init, y, plan.words, first)
    return y


def weight_grad(x: np.ndarray, g: np.ndarray, window: Window) -> np.ndarray:
    """The weight gradient in the order of memory (3, 3, Ci, Co); both tensors have neighbouring channels."""
    dtype, depth, columns = x.dtype.char, x.shape[1], g.shape[1]
    plan, zeros, _, _, step = _plan(window, x.shape[0], depth, columns, dtype, x.strides, g.strides, True)
    partials, gw = aligned(plan.weights, dtype), np.empty((3, 3, depth, columns), x.dtype)
    table = per_thread(plan.table, "q")
    if not plan.blocks:
        work = per_thread(plan.work, dtype)
        _weight_grad[dtype](plan.tasks, x, g, partials, zeros, work, plan.work, plan.words, table, plan.table)
    else:
        work = shared(plan.work, dtype)
    for part, blocks in enumerate(plan.blocks_of_parts):
        origin, end = blocks[0][0], blocks[-1][1]
        for first, last in blocks:
            _transform[dtype](last - first, x, g, zeros, work, plan.words, first, 1, table, plan.table)
            _accumulate[dtype](
                POINTS * POINTS, partials, part, zeros, work, plan.words, origin, first, last, end, table, plan.table
            )
    _weights_back[dtype](depth, partials, gw, depth, columns, step, plan.parts)
    return gw
