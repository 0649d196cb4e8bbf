"""Positions whose taps read padding, computed again where a weight is infinite or NaN.

The kernels multiply weights with the zeros of the padding, and 0 * inf is NaN. By the definition padding adds nothing.
A weight that is not finite then shows as NaN at the first or the last position, which together use every tap that reads
padding anywhere. Clamps keep NaN; where a formula does not, the weights themselves are looked at.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import kernel
from ..machine.record import record
from ..machine.scratch import per_thread
from ..memory.finish import Finish
from .axes import Axis, three_axes, three_steps

BORDERS = record(
    gradient=1,  # 1: of the input gradient
    batch=1,
    groups=1,
    depth=1,  # channels per group that are read
    columns=1,  # and written
    halved=1,  # 2: the target holds the maximum of every two by two positions; else 1
    source=4,
    read=3,  # strides N, D, H, W of the tensor read; its extents D, H, W
    target=4,
    written=3,  # the same of the tensor written
    near=3,  # positions at each end of the axes that together use every tap that reads padding
    kernel=3,
    stride=3,
    dilation=3,
    low=3,
    taps=3,  # steps of the weights along the kernel's axes
    depth_step=1,
    column_step=1,
    group_step=1,
)
_SCRATCH = 8  # words per thread

_fill = kernel("convolution.borders.fill")


@lru_cache(maxsize=4096)
def reads_padding(window: Window, gradient: bool) -> bool:
    """Whether a tap reads padding at one of the positions that are written."""
    return any(_reads_padding(axis, gradient) for axis in three_axes(window))


def _reads_padding(axis: Axis, gradient: bool) -> bool:
    """The same for one axis."""
    if not gradient:
        return (
            axis.low > 0 or (axis.output - 1) * axis.stride + (axis.kernel - 1) * axis.dilation >= axis.low + axis.input
        )
    ends = {*range(min(axis.stride, axis.input)), *range(max(0, axis.input - axis.stride), axis.input)}
    reached = [at + axis.low - r * axis.dilation for at in ends for r in range(axis.kernel)]
    return any(at % axis.stride == 0 and not 0 <= at // axis.stride < axis.output for at in reached)


def border_words(
    window: Window,
    gradient: bool,
    batch: int,
    w_shape: tuple[int, ...],
    w_strides: tuple[int, ...],
    dtype: str,
    source: tuple[int, ...],
    target: tuple[int, ...],
    halved: bool = False,
) -> np.ndarray | None:
    """The words of ``BORDERS``; None if no tap reads padding. ``halved``: see ``planar.gather``."""
    if not reads_padding(window, gradient):
        return None
    axes, groups = three_axes(window), window.groups
    outputs, inputs = w_shape[0] // groups, w_shape[1]
    output_step, input_step, *steps = (stride // (4 if dtype == "f" else 8) for stride in w_strides)
    inner, outer = [axis.input for axis in axes], [axis.output for axis in axes]
    return BORDERS.pack(
        gradient=int(gradient),
        batch=batch,
        groups=groups,
        depth=outputs if gradient else inputs,
        columns=inputs if gradient else outputs,
        halved=2 if halved else 1,
        source=three_steps(source, dtype),
        read=outer if gradient else inner,
        target=three_steps(target, dtype),
        written=inner if gradient else outer,
        near=[min(axis.stride, axis.input) if gradient else 1 for axis in axes],
        kernel=[axis.kernel for axis in axes],
        stride=[axis.stride for axis in axes],
        dilation=[axis.dilation for axis in axes],
        low=[axis.low for axis in axes],
        taps=[0] * (3 - len(steps)) + steps,
        depth_step=output_step if gradient else input_step,
        column_step=input_step if gradient else output_step,
        group_step=outputs * output_step,
    )


def correct(
    words: np.ndarray,
    source: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    target: np.ndarray,
    finish: Finish | None,
) -> None:
    """Correct ``target``, the results of a kernel with what follows them, where a weight is not finite.

    All strides are whole elements, and channels are contiguous.
    """
    dtype = source.dtype.char
    scratch, init = per_thread(_SCRATCH, "i8"), target if bias is None else bias
    _fill[dtype](1, source, w, init, target, words, scratch, *(finish or (target, target)))
