"""Convolution windows padded to three axes, and kernel rows merged into channels.

In the weight gradient, a product per tap has as many rows as there are input channels. Where these are few, the taps of
a kernel row replace them. For the other passes see ``narrow.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ....specs.geometry import AdaptiveWindow, Window

# ---- Helpers shared by the convolution plans ------------------------------------------------------------------------

LARGE_WEIGHTS = 640 << 10  # bytes of weights that no longer stay in L2 while pixels stream by


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a window: input, kernel and output extent, stride, dilation, zeros in front.

    A stride of 0: the windows divide the input evenly, see AdaptiveWindow; ``kernel`` is then that of the largest.
    """

    input: int
    kernel: int
    output: int
    stride: int
    dilation: int
    low: int


def three_axes(window: Window | AdaptiveWindow) -> list[Axis]:
    """The axes of a window, padded in front to three."""
    if isinstance(window, AdaptiveWindow):
        sizes = zip(window.input, window.kernel, window.output, strict=True)
        axes = [Axis(i, r, o, 0 if i % o else r, 1, 0) for i, r, o in sizes]
        return [Axis(1, 1, 1, 1, 1, 0)] * (3 - len(axes)) + axes
    axes = [
        Axis(i, r, o, s, d, lo)
        for i, r, o, s, d, (lo, _) in zip(
            window.input, window.kernel, window.output, window.stride, window.dilation, window.padding, strict=True
        )
    ]
    return [Axis(1, 1, 1, 1, 1, 0)] * (3 - len(axes)) + axes


def three_strides(strides: Sequence[int]) -> list[int]:
    """The strides N, D, H, W of an array (N, C, ...)."""
    space = list(strides[2:])
    return [strides[0]] + [0] * (3 - len(space)) + space


def three_steps(strides: Sequence[int], dtype: str) -> list[int]:
    """As ``three_strides``, in elements: a division per line in a kernel would cost as much as a tap."""
    return [stride // (4 if dtype == "f" else 8) for stride in three_strides(strides)]


# ---- Convolutions with few input channels, seen as ones that fill the micro-kernel's tile ---------------------------

_Orders = dict[int, tuple[int, ...]]
WEIGHT: _Orders = {3: (2, 1, 0), 4: (3, 2, 0, 1), 5: (4, 3, 0, 1, 2)}  # (*R, I, O) seen as (O, I, *R)
WEIGHT_LAST: _Orders = {3: (2, 1, 0), 4: (2, 3, 1, 0), 5: (2, 3, 4, 1, 0)}  # (O, I, *R) seen as (*R, I, O)
_NARROW = 16  # most channels that are read together with the adjacent positions


def is_narrow(channels: int, window: Window) -> bool:
    return window.groups == 1 and channels <= _NARROW and window.kernel[-1] > 1 and window.dilation[-1] == 1


@lru_cache(maxsize=4096)
def merge_window(window: Window) -> Window:
    """The window in which a row of the kernel is one tap, whose channels are already contiguous.

    A single channel would be a product of depth 1. The kernels handle the padding along the last axis: they copy
    the parts that read past the ends of a line.
    """
    return Window(
        input=(*window.input[:-1], (window.output[-1] - 1) * window.stride[-1] + 1),
        kernel=(*window.kernel[:-1], 1),
        output=window.output,
        stride=window.stride,
        dilation=window.dilation,
        padding=(*window.padding[:-1], (0, 0)),
    )
