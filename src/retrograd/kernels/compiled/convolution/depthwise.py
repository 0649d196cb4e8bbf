"""Depthwise convolution: the three kernels and the plan of their tasks. Strides are in elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import kernel
from ..machine.microkernel import MOST_TASKS, PRODUCT
from ..machine.record import record
from ..machine.scratch import per_thread
from ..memory.layout import fill, usual_strides
from ..memory.packing import zeros_of
from .axes import Axis, three_axes, three_steps
from .direct import add_parts, sum_parts
from .direct_plan import MOST_PARTS, WINDOW, phases, window_words

# ---- Plans that divide a depthwise convolution (one channel per group) into tasks -----------------------------------

GATHER = record(  # the forward pass and the input gradient
    source=4,
    extent=3,  # of the tensor that is read: strides N, D, H, W, and extents D, H, W
    target=1,  # step of the tensor that is written along N
    channels=1,
    tasks=1,  # where the tasks begin
    phases=0,  # PHASE of direct_plan.py, without products, and then the tasks
)
GATHER_TASK = record(phase=1, row_first=1, row_last=1)
SUMS = record(  # the weight gradient
    window=WINDOW.words,
    channels=1,
    tasks=1,  # where the tasks begin
    list=0,
)
SUMS_TASK = record(row_first=1, row_last=1)

_TASK_WORK = 400_000  # multiply-adds that are worth a separate task


@dataclass(frozen=True, slots=True)
class Depthwise:
    """A plan of one of the three kernels."""

    words: np.ndarray
    tasks: int
    scratch: int  # words per thread
    taps: np.ndarray  # offset of each tap in the weights; none for the weight gradient
    filled: bool = False  # see ``Gather.filled``


def depthwise_plan(
    axes: list[Axis],
    gradient: bool,
    batch: int,
    channels: int,
    source: Sequence[int],
    target: Sequence[int],
    weight_taps: Sequence[int],
) -> Depthwise:
    """Plan of the forward pass, or (``gradient``) of the input gradient."""
    no_product = np.zeros(PRODUCT.words, np.int64)
    found, taps, filled = phases(axes, gradient, batch, target, weight_taps, lambda pixels: no_product)
    tasks = []
    start = GATHER.words
    for phase in found:
        rows = phase.lines
        cuts = max(1, min(rows, MOST_TASKS, phase.pixels * max(1, phase.taps) * channels // _TASK_WORK))
        for cut in range(cuts):
            ends = {"row_first": cut * rows // cuts, "row_last": (cut + 1) * rows // cuts}
            tasks.append(GATHER_TASK.pack(phase=start, **ends))
        start += len(phase.words)
    words = GATHER.pack(
        source=source,
        extent=[axis.output if gradient else axis.input for axis in axes],
        target=target[0],
        channels=channels,
        tasks=start,
        phases=np.concatenate([*(phase.words for phase in found), *tasks]) if found else (),
    )
    return Depthwise(words, len(tasks), 3 * max(1, len(taps)), np.array(taps or [0], np.int64), filled)


def depthwise_sums_plan(axes: list[Axis], batch: int, channels: int, x: Sequence[int], g: Sequence[int]) -> Depthwise:
    """Plan of the weight gradient; there is a partial sum for each task."""
    taps = axes[0].kernel * axes[1].kernel * axes[2].kernel
    lines = batch * axes[0].output * axes[1].output
    parts = max(1, min(MOST_PARTS, lines, lines * axes[2].output * taps * channels // _TASK_WORK))
    tasks = [SUMS_TASK.pack(row_first=i * lines // parts, row_last=(i + 1) * lines // parts) for i in range(parts)]
    words = SUMS.pack(window=window_words(axes, x, g), channels=channels, tasks=SUMS.words, list=np.concatenate(tasks))
    return Depthwise(words, parts, 3 * taps, np.empty(0, np.int64))


# ---- Depthwise convolution (one input and one output channel per group) ---------------------------------------------

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
