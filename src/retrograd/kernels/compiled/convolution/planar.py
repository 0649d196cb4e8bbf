"""Convolutions whose groups have fewer output channels than a vector has lanes: the lanes are positions instead.

Called by convolution.py, for strides of 1. Each task copies its part of the input channel by channel, so that
positions are contiguous; then every row of the micro-kernel's tile is an output channel, every column a position.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import kernel
from ..machine.microkernel import tile
from ..machine.scratch import cores, per_thread
from ..memory.channels_last import usual_strides
from ..memory.packing import zeros_of
from .partials import sum_parts
from .plan import three_axes, three_steps
from .planar_plan import Planar, planar_plan

_gather = kernel("convolution.planar.gather")
_weight_grad = kernel("convolution.planar.weight_grad")
_SHORT = 7  # lines of fewer positions leave most lanes empty


@lru_cache(maxsize=4096)
def applies(channels: int, window: Window, gradient: bool, dtype: str) -> bool:
    """Whether positions fill a vector better than the ``channels`` per group written."""
    line = (window.input if gradient else window.output)[-1]
    return channels < tile(dtype, "near", 1).lanes and line >= _SHORT and all(stride == 1 for stride in window.stride)


@lru_cache(maxsize=4096)
def _plan(
    window: Window,
    gradient: bool,
    batch: int,
    x_channels: int,
    channels: int,
    dtype: str,
    x: tuple[int, ...],
    other: tuple[int, ...],
    sums: bool,
) -> Planar:
    groups = window.groups
    return planar_plan(
        three_axes(window),
        gradient,
        batch,
        groups,
        x_channels // groups,
        channels // groups,
        dtype,
        three_steps(x, dtype),
        three_steps(other, dtype),
        sums,
    )


def gather(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, target: np.ndarray, window: Window, gradient: bool
) -> np.ndarray:
    """Fill ``target`` with the forward pass or the input gradient; both tensors have contiguous channels."""
    dtype, channels = x.dtype.char, target.shape[1]
    plan = _plan(window, gradient, x.shape[0], x.shape[1], channels, dtype, x.strides, target.strides, False)
    by_tap = w.reshape(window.groups, w.shape[0] // window.groups, w.shape[1], -1)
    order = (0, 3, 1, 2) if gradient else (0, 3, 2, 1)
    weights = np.ascontiguousarray(by_tap.transpose(order), like=w)  # (G, taps, in, out)
    planes, table = per_thread(plan.planes, dtype), per_thread(plan.table, "i8")
    init = zeros_of(channels, dtype) if bias is None else bias
    _gather[dtype](plan.tasks, x, weights, init, target, planes, plan.planes, plan.words, table, plan.table)
    return target


def weight_grad(x: np.ndarray, g: np.ndarray, window: Window) -> np.ndarray:
    """The weight gradient (taps, Ci/groups, Co)."""
    dtype = x.dtype.char
    plan = _plan(window, False, x.shape[0], x.shape[1], g.shape[1], dtype, x.strides, g.strides, True)
    partials = np.zeros((plan.parts, window.taps, x.shape[1] // window.groups, g.shape[1]), x.dtype, like=x)
    planes, table = per_thread(plan.planes, dtype), per_thread(plan.table, "i8")
    _weight_grad[dtype](plan.tasks, x, g, partials, planes, plan.planes, plan.words, table, plan.table)
    return sum_parts(partials, np.empty(partials.shape[1:], x.dtype, like=x))


def temporary(window: Window, job: str, batch: int, inputs: int, outputs: int, dtype: str) -> int:
    """Bytes of temporary memory: planes, and weights in another order or partial sums."""
    size, gradient, sums = 4 if dtype == "f" else 8, job == "conv_input_grad", job == "conv_weight_grad"
    x, y = usual_strides(batch, inputs, window.input, size), usual_strides(batch, outputs, window.output, size)
    if gradient:
        plan = _plan(window, True, batch, outputs, inputs, dtype, y, x, False)
    else:
        plan = _plan(window, False, batch, inputs, outputs, dtype, x, y, sums)
    weights = window.taps * inputs // window.groups * outputs
    return (plan.planes * cores() + weights * (plan.parts if sums else 1)) * size
