"""Convolutions of 3x3 taps by Winograd's transforms: up to 4 times fewer multiplications; called by convolution.py.

Tiles of 4x4 outputs become products at 6x6 points: F(4x4, 3x3), plus smaller tiles that fill up the output.
The input gradient is the same with flipped weights; the weight gradient uses the adjoint transforms.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from ....specs.convolution_options import suits
from ....specs.geometry import Window
from ..machine.launch import kernel
from ..machine.product import PRODUCT
from ..machine.scratch import aligned, cores, per_thread, shared
from ..memory.channels_last import usual_strides
from ..memory.moves import copy
from ..memory.packing import zeros_of
from .plan import three_axes, three_steps, three_strides
from .winograd_plan import PAIRS, WINOGRAD, Transformed, transform_plan, transform_sum_plan

_gather = kernel("convolution.winograd.gather")
_weight_grad = kernel("convolution.winograd.weight_grad")
_transform = kernel("convolution.winograd.transform")
_transform_both = kernel("convolution.winograd.transform_both")
_multiply = kernel("convolution.winograd.multiply_pairs")
_accumulate = kernel("convolution.winograd.accumulate")
_transform_back = kernel("convolution.winograd.transform_back")
_weights = kernel("convolution.winograd_weights.weights")
_two_weights = kernel("convolution.winograd_weights.two_weights")
_weights_back = kernel("convolution.winograd_weights.weights_back")


def can(window: Window) -> bool:
    """Whether the transforms exist for a window."""
    return suits("winograd", window, window.groups, window.groups)


@lru_cache(maxsize=4096)
def _turned(window: Window) -> Window:
    """The window of the convolution with a flipped kernel that is the input gradient of this one."""
    padding = tuple((r - 1 - low, r - 1 - high) for r, (low, high) in zip(window.kernel, window.padding, strict=True))
    return replace(window, input=window.output, output=window.input, padding=padding)


def can_by_phases(window: Window) -> bool:
    """Whether the input gradient's phases, one for each residue of a position modulo the stride, have 2x2 taps each."""
    return window.kernel == (4, 4) and suits("winograd", window, window.groups, window.groups, True)


def tiles_of_phases(window: Window) -> int:
    """Tiles of an image, in all four phases."""
    return sum(-(-phase.output[0] // 3) * -(-phase.output[1] // 3) for _, _, phase in _phases(window))


@lru_cache(maxsize=4096)
def _phases(window: Window) -> list[tuple[tuple[int, int], tuple[int, int], Window]]:
    """For each phase: its residues, its first taps, and its window, a correlation of g with the flipped taps.

    Position i = 2q + residue reads o = q + base - t through the taps first + 2t, with base = (residue + low) // 2.
    """
    found = []
    ((low_h, _), (low_w, _)), (height, width) = window.padding, window.input
    for h, w in product((0, 1), repeat=2):
        extents = (height - h + 1) // 2, (width - w + 1) // 2
        padding = (1 - (h + low_h) // 2, 0), (1 - (w + low_w) // 2, 0)
        phase = Window(window.output, (2, 2), extents, (1, 1), (1, 1), padding)
        found.append(((h, w), ((h + low_h) % 2, (w + low_w) % 2), phase))
    return found


class _Call(NamedTuple):
    """The plan and other values for a call."""

    plan: Transformed
    zeros: np.ndarray
    taps: int  # along D
    width: int
    panels: int
    step: int  # of a row of the weights' gradient
    together: int  # pairs that a task multiplies


@lru_cache(maxsize=4096)
def _call(
    window: Window, batch: int, depth: int, columns: int, dtype: str, x: tuple[int, ...], y: tuple[int, ...], sums: bool
) -> _Call:
    axes = three_axes(window)
    build = transform_sum_plan if sums else transform_plan
    plan = build(axes, batch, depth, columns, dtype, three_strides(x), three_steps(y, dtype))
    panels = WINOGRAD.product + PRODUCT.panels
    words = [int(plan.words[at]) for at in (WINOGRAD.width, panels, WINOGRAD.column_step, WINOGRAD.together)]
    return _Call(plan, zeros_of(max(depth, columns) + 64, dtype), axes[0].kernel, *words)


def _dense(w: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """``w`` (O, I, *R) with its axes in this order in memory."""
    w = w.transpose(order)
    if not w.flags.c_contiguous:
        dense = aligned(w.size, w.dtype.char).reshape(w.shape)
        copy(dense, w)
        return dense
    return w


def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, y: np.ndarray, window: Window) -> np.ndarray:
    """Fill ``y`` with the forward pass; both tensors have contiguous channels, the bias is dense."""
    return _transformed(x, _dense(w, (*range(2, w.ndim), 1, 0)), bias, y, window, 0)


def _temporary_of_phases(window: Window, batch: int, inputs: int, outputs: int, dtype: str) -> int:
    size = 4 if dtype == "f" else 8
    x, y = usual_strides(batch, inputs, window.input, size), usual_strides(batch, outputs, window.output, size)
    most = 0
    for _, _, phase in _phases(window):
        target = (x[0], x[1], 2 * x[2], 2 * x[3])
        plan = _call(phase, batch, outputs, inputs, dtype, y, target, False).plan
        most = max(most, plan.weights + plan.work * (1 if plan.shared else cores()))
    return (most + 4 * inputs * outputs) * size  # plus the merged taps of a phase


def input_grad(g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, gx: np.ndarray, window: Window) -> np.ndarray:
    """Fill ``gx`` with the input gradient."""
    if window.kernel[-1] == 4:
        return _input_grad_by_phases(g, w, bias, gx, window)
    return _transformed(g, _dense(w, (*range(2, w.ndim), 0, 1)), bias, gx, _turned(window), 1)


def _input_grad_by_phases(
    g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, gx: np.ndarray, window: Window
) -> np.ndarray:
    """Fill ``gx`` with the input gradient of a 4x4 kernel at stride 2: F(3x3, 2x2) for each of its four phases."""
    for (down, right), (tap_h, tap_w), phase in _phases(window):
        some = _dense(w[:, :, tap_h::2, tap_w::2], (2, 3, 0, 1))
        _transformed(g, some, bias, gx[:, :, down::2, right::2], phase, 1)
    return gx


def _transformed(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, y: np.ndarray, window: Window, turned: int
) -> np.ndarray:
    """``w`` is dense in the order (*R, channels of x, channels of y)."""
    dtype, depth, columns = x.dtype.char, w.shape[-2], w.shape[-1]
    plan, zeros, taps, width, panels, _, together = _call(
        window, x.shape[0], depth, columns, dtype, x.strides, y.strides, False
    )
    transformed = aligned(plan.weights, dtype)
    if window.kernel[-1] == 2:
        _two_weights[dtype](depth, w, transformed, depth, columns, width, panels)
    else:
        _weights[dtype](taps * depth, w, transformed, depth, columns, width, panels, taps, turned)
    table = per_thread(plan.table, "i8")
    init = zeros if bias is None else bias
    if not plan.shared:
        work = per_thread(plan.work, dtype)
        _gather[dtype](len(plan.blocks), x, transformed, init, y, zeros, work, plan.work, plan.words, table, plan.table)
        return y
    work = shared(plan.work, dtype)
    for index, block in enumerate(plan.blocks):
        _transform[dtype](block.inputs * block.lines, x, zeros, work, plan.words, index, table, plan.table)
        _multiply[dtype](PAIRS // together, transformed, zeros, work, plan.words, index, table, plan.table)
        _transform_back[dtype](
            (block.last - block.first) * block.lines, work, init, y, plan.words, index, table, plan.table
        )
    return y


def weight_grad(x: np.ndarray, g: np.ndarray, window: Window) -> np.ndarray:
    """The weight gradient in the order of memory (*R, Ci, Co); both tensors have contiguous channels."""
    dtype, depth, columns = x.dtype.char, x.shape[1], g.shape[1]
    plan, zeros, taps, _, _, step, _ = _call(window, x.shape[0], depth, columns, dtype, x.strides, g.strides, True)
    partials, gw = aligned(plan.weights, dtype), np.empty((*window.kernel, depth, columns), x.dtype, like=x)
    elements = plan.weights // len(plan.parts)
    table = per_thread(plan.table, "i8")
    if not plan.shared:
        work = per_thread(plan.work, dtype)
        _weight_grad[dtype](
            len(plan.parts),
            x,
            g,
            partials,
            elements,
            len(plan.blocks),
            zeros,
            work,
            plan.work,
            plan.words,
            table,
            plan.table,
        )
    else:
        work = shared(plan.work, dtype)
        for index, block in enumerate(plan.blocks):
            lines = block.inputs * block.lines
            count = lines + (block.last - block.first) * block.lines
            _transform_both[dtype](count, x, g, zeros, work, plan.words, index, lines, table, plan.table)
            _accumulate[dtype](taps * PAIRS, partials, zeros, work, plan.words, index, table, plan.table)
    _weights_back[dtype](taps * depth, partials, gw, depth, columns, step, taps, len(plan.parts))
    return gw


def temporary(window: Window, job: str, batch: int, inputs: int, outputs: int, dtype: str) -> int:
    """Bytes of temporary memory: transformed weights or their partial sums, and blocks of tiles."""
    size, gradient = 4 if dtype == "f" else 8, job == "conv_input_grad"
    x, y = usual_strides(batch, inputs, window.input, size), usual_strides(batch, outputs, window.output, size)
    if window.kernel[-1] == 4:
        return _temporary_of_phases(window, batch, inputs, outputs, dtype)
    if gradient:
        plan = _call(_turned(window), batch, outputs, inputs, dtype, y, x, False).plan
    else:
        plan = _call(window, batch, inputs, outputs, dtype, x, y, job == "conv_weight_grad").plan
    turned = inputs * outputs * window.taps if gradient else 0  # weights in another order
    blocks = plan.work * (1 if plan.shared else cores())
    return (plan.weights + blocks + turned) * size
