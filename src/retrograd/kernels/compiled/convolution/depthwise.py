"""Depthwise convolution (one input and one output channel per group): the three kernels, called by convolution.py."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import kernel
from ..machine.scratch import per_thread
from ..memory.channels_last import fill, usual_strides
from ..memory.packing import zeros_of
from .depthwise_plan import SUMS, SUMS_TASK, Depthwise, depthwise_plan, depthwise_sums_plan
from .partials import add_parts, sum_parts
from .plan import three_axes, three_steps

_gather = kernel("convolution.depthwise.gather")
_weight_grad = kernel("convolution.depthwise.weight_grad")


@lru_cache(maxsize=4096)
def _plan(
    window: Window,
    gradient: bool,
    batch: int,
    channels: int,
    dtype: str,
    source: tuple[int, ...],
    target: tuple[int, ...],
) -> Depthwise:
    taps = [0] * (3 - window.ndim) + [channels * step for step in _steps(window.kernel)]
    steps = three_steps(source, dtype), three_steps(target, dtype)
    return depthwise_plan(three_axes(window), gradient, batch, channels, *steps, taps)


def _steps(extents: tuple[int, ...]) -> list[int]:
    return [int(np.prod(extents[axis + 1 :], dtype=int)) for axis in range(len(extents))]


def gather(
    source: np.ndarray, w: np.ndarray, bias: np.ndarray | None, target: np.ndarray, window: Window, gradient: bool
) -> np.ndarray:
    """Fill ``target`` with the forward pass or the input gradient.

    Both tensors have contiguous channels, the bias is dense.
    """
    channels, dtype = source.shape[1], source.dtype.char
    init = zeros_of(channels, dtype) if bias is None else bias
    plan = _plan(window, gradient, source.shape[0], channels, dtype, source.strides, target.strides)
    by_tap = np.ascontiguousarray(w.reshape(channels, -1).T, like=w)  # (taps, C)
    scratch = per_thread(plan.scratch, "i8")
    if plan.filled:
        fill(target, init)
    _gather[dtype](plan.tasks, source, by_tap, init, target, plan.words, plan.taps, scratch, plan.scratch)
    return target


@lru_cache(maxsize=4096)
def _sums_plan(
    window: Window, batch: int, channels: int, dtype: str, x: tuple[int, ...], g: tuple[int, ...]
) -> Depthwise:
    return depthwise_sums_plan(three_axes(window), batch, channels, three_steps(x, dtype), three_steps(g, dtype))


def weight_grad(x: np.ndarray, g: np.ndarray, window: Window, limit: int | None = None) -> np.ndarray:
    """The weight gradient (taps, C). ``limit``: bytes that its partial sums may take; the bits are the same."""
    channels, dtype = x.shape[1], x.dtype.char
    plan = _sums_plan(window, x.shape[0], channels, dtype, x.strides, g.strides)
    gw = np.empty((window.taps, channels), x.dtype, like=x)
    some = plan.tasks if limit is None else min(plan.tasks, limit // (2 * gw.nbytes))
    memory = np.empty((2, some, window.taps, channels), x.dtype, like=x)  # partial sums, and those of some rows of each
    partials = memory[0]
    scratch = per_thread(plan.scratch, "i8")
    if some == plan.tasks:
        _weight_grad[dtype](plan.tasks, x, g, memory, partials.size, plan.words, scratch, plan.scratch)
        return sum_parts(partials, gw)
    for first in range(0, plan.tasks, some):  # one task per part
        count = min(some, plan.tasks - first)
        words = plan.words.copy()
        words[SUMS.tasks] += first * SUMS_TASK.words
        _weight_grad[dtype](count, x, g, memory, partials.size, words, scratch, plan.scratch)
        add_parts(partials[:count], gw, first == 0)
    return gw


def temporary(window: Window, job: str, batch: int, inputs: int, outputs: int, dtype: str) -> tuple[int, int]:
    """Bytes of temporary memory, and the least: weights in another order, or partial sums, of which one suffices."""
    size = 4 if dtype == "f" else 8
    one = window.taps * inputs * size
    if job != "conv_weight_grad":
        return (0, 0) if window.taps == 1 else (one, one)
    x, g = usual_strides(batch, inputs, window.input, size), usual_strides(batch, outputs, window.output, size)
    return _sums_plan(window, batch, inputs, dtype, x, g).tasks * 2 * one, 2 * one
