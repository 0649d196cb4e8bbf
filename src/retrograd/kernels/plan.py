"""What the plans of the convolution kernels share: axes, and the choice of micro-kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ..geometry import AdaptiveWindow, Window
from .microkernel import Tile, micro

LARGE_WEIGHTS = 640 << 10  # bytes of weights that no longer stay in the second-level cache while pixels stream by
TASK_WORK = 500_000  # multiply-adds that are worth a task of their own, about 8 us
TASK_WORK_DEPTHWISE = 400_000
MOST_TASKS = 32


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a window: input, kernel and output extent, stride, dilation, zeros in front.

    A stride of 0: the windows share the input out evenly, see AdaptiveWindow; ``kernel`` is then the largest one's.
    """

    input: int
    kernel: int
    output: int
    stride: int
    dilation: int
    low: int


def three_axes(window: Window | AdaptiveWindow) -> list[Axis]:
    """The axes of a window, filled up in front to three."""
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


def usual_strides(batch: int, channels: int, extents: Sequence[int], size: int) -> tuple[int, ...]:
    """The strides N, C, ... in bytes of a dense, channels-last array with elements of ``size`` bytes."""
    return nested_strides((batch, *extents, channels), size, (0, -1, *range(1, len(extents) + 1)))


def nested_strides(memory: Sequence[int], size: int, axes: Sequence[int]) -> tuple[int, ...]:
    """The strides along these axes of a dense array that has the extents ``memory``."""
    found = [size * prod(memory[axis + 1 :]) for axis in range(len(memory))]
    return tuple(found[axis] for axis in axes)


def three_steps(strides: Sequence[int], dtype: str) -> list[int]:
    """As ``three_strides``, in elements: a division per line in a kernel would cost as much as a tap."""
    return [stride // (4 if dtype == "f" else 8) for stride in three_strides(strides)]


def micro_kernels(dtype: str, form: str, extent: int, shape: Tile, masked: bool = False) -> tuple[int, list[int]]:
    """How many tiles ``extent`` rows are cut into evenly, and the four micro-kernels that a kernel chooses from.

    Those of a whole panel with the fewest rows and with one row more, then those of the last panel. With ``masked`` the
    last panel is not read beyond its end. Those that nobody will choose are 0.
    """
    tiles = -(-extent // shape.rows)
    least = extent // tiles
    last = (shape.last_vectors, masked and shape.tail != shape.lanes)
    found = []
    for used, (vectors, guarded) in ((shape.panels > 1, (shape.vectors, False)), (True, last)):
        for rows, exists in ((least, True), (least + 1, extent % tiles != 0)):
            found.append(micro(dtype, form, rows, vectors, guarded) if used and exists else 0)
    return tiles, found
