"""Depthwise convolution (one input and one output channel per group): the three kernels, called by convolution.py."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..geometry import Window
from .gather_plan import Gather, depthwise_plan
from .launch import kernel
from .layout import fill
from .partials import add_parts, sum_parts
from .plan import three_axes, three_steps
from .reduce_plan import TASKS, Reduce, depthwise_reduce_plan
from .scratch import per_thread

_gather = kernel("depthwise.gather")
_weight_grad = kernel("depthwise.weight_grad")
_TASK_WORDS = 2  # of a task of the weight gradient


@lru_cache(maxsize=4096)
def _plan(
    window: Window,
    gradient: bool,
    batch: int,
    channels: int,
    dtype: str,
    source: tuple[int, ...],
    target: tuple[int, ...],
) -> Gather:
    taps = [0] * (3 - window.ndim) + [channels * step for step in _steps(window.kernel)]
    axes = three_axes(window)
    return depthwise_plan(
        axes, gradient, batch, channels, dtype, three_steps(source, dtype), three_steps(target, dtype), taps
    )


def _steps(extents: tuple[int, ...]) -> list[int]:
    return [int(np.prod(extents[axis + 1 :], dtype=int)) for axis in range(len(extents))]


def gather(
    source: np.ndarray, w: np.ndarray, init: np.ndarray, target: np.ndarray, window: Window, gradient: bool
) -> np.ndarray:
    """Fill ``target`` with the forward pass or the input gradient; all arrays are channels-last in memory."""
    channels, dtype = source.shape[1], source.dtype.char
    plan = _plan(window, gradient, source.shape[0], channels, dtype, source.strides, target.strides)
    by_tap = np.ascontiguousarray(w.reshape(channels, -1).T)  # (taps, C)
    scratch = per_thread(plan.scratch, "i8")
    if plan.filled:
        fill(target, init)
    _gather[dtype](plan.tasks, source, by_tap, init, target, plan.words, plan.taps, scratch, plan.scratch)
    return target


@lru_cache(maxsize=4096)
def _reduce_plan(
    window: Window, batch: int, channels: int, dtype: str, x: tuple[int, ...], g: tuple[int, ...]
) -> Reduce:
    return depthwise_reduce_plan(three_axes(window), batch, channels, three_steps(x, dtype), three_steps(g, dtype))


def weight_grad(x: np.ndarray, g: np.ndarray, window: Window, limit: int | None = None) -> np.ndarray:
    """The weight gradient (taps, C). ``limit``: bytes that its partial sums may take; the bits are the same."""
    channels, dtype = x.shape[1], x.dtype.char
    plan = _reduce_plan(window, x.shape[0], channels, dtype, x.strides, g.strides)
    gw = np.empty((window.taps, channels), x.dtype)
    some = plan.parts if limit is None else min(plan.parts, limit // (2 * gw.nbytes))
    memory = np.empty((2, some, window.taps, channels), x.dtype)  # partial sums, and those of some rows of each
    partials = memory[0]
    scratch = per_thread(plan.scratch, "i8")
    if some == plan.parts:
        _weight_grad[dtype](plan.tasks, x, g, memory, partials.size, plan.words, scratch, plan.scratch)
        return sum_parts(partials, gw)
    for first in range(0, plan.parts, some):  # there is a task for each part
        count = min(some, plan.parts - first)
        words = plan.words.copy()
        words[TASKS] += first * _TASK_WORDS
        _weight_grad[dtype](count, x, g, memory, partials.size, words, scratch, plan.scratch)
        add_parts(partials[:count], gw, first == 0)
    return gw


def parts(window: Window, batch: int, channels: int, dtype: str, x: tuple[int, ...], g: tuple[int, ...]) -> int:
    """How many partial sums the weight gradient has."""
    return _reduce_plan(window, batch, channels, dtype, x, g).parts
