"""Helpers shared by the convolution plans: the axes of a window and the strides of an array, padded to three axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....specs.geometry import AdaptiveWindow, Window

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
