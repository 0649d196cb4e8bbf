"""What the plans of the convolution kernels share: axes, and the choice of micro-kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..geometry import Window
from .microkernel import Tile, micro

LARGE_WEIGHTS = 1 << 19  # bytes of weights from which on a panel of them is kept in cache rather than pixels
TASK_WORK = 4_000_000  # multiply-adds that are worth a task of their own, about 50 us
TASK_WORK_DEPTHWISE = 400_000
MOST_TASKS = 32


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a window: input, kernel and output extent, stride, dilation, zeros in front."""

    input: int
    kernel: int
    output: int
    stride: int
    dilation: int
    low: int


def three_axes(window: Window) -> list[Axis]:
    """The axes of a window, filled up in front to three."""
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


def micro_kernels(
    dtype: str, form: str, pixels: int, shape: Tile, columns: int, masked: bool = False
) -> tuple[int, list[int]]:
    """How many tiles ``pixels`` are cut into evenly, and the eight micro-kernels that a kernel chooses from.

    Fewest rows, wide and narrow; one row more, wide and narrow; the same four for a last panel that must not be read
    beyond its end (``masked``). Those that nobody will choose are 0.
    """
    tiles = -(-pixels // shape.rows)
    least = pixels // tiles
    last = (columns - 1) % shape.columns // shape.lanes + 1  # vectors of the last panel
    found = []
    for guarded in (False, True):
        for rows in (least, least + 1):
            for vectors in (2, 1):
                used = rows == least or pixels % tiles != 0
                if guarded:
                    used = used and masked and columns % shape.lanes != 0 and vectors == last
                else:
                    used = used and (columns > shape.columns or vectors == last)
                found.append(micro(dtype, form, rows, vectors, guarded) if used else 0)
    return tiles, found
