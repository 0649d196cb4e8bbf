"""Plans that divide a depthwise convolution (one channel per group) into tasks: integers only, made once per shape.

Strides are in elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..machine.product import MOST_TASKS, PRODUCT
from ..machine.record import record
from .gather_plan import phases
from .plan import Axis
from .reduce_plan import MOST_PARTS, WINDOW, window_words

GATHER = record(  # the forward pass and the input gradient
    source=4,
    extent=3,  # of the tensor that is read: strides N, D, H, W, and extents D, H, W
    target=1,  # step of the tensor that is written along N
    channels=1,
    tasks=1,  # where the tasks begin
    phases=0,  # PHASE of gather_plan.py, without products, and then the tasks
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
