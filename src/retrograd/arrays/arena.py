"""An arena: one block of memory in which arrays have planned offsets.

Arrays that are never needed at the same time may share bytes. ``lay_out`` computes the offsets from lifetimes alone; an
``Arena`` is the memory and makes arrays at these offsets.

Source of the assignment: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020,
"Greedy by Size for Offset Calculation".
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from ..specs.array_spec import ArrayInterface, byte_bounds
from .protocol import address

Array = np.ndarray
CACHE_LINE = 64  # bytes of a cache line; every offset is a multiple


class Lifetime(NamedTuple):
    """A number of bytes that are needed from one step through another, both included."""

    bytes: int
    first: int
    last: int


class Layout(NamedTuple):
    """An offset for each lifetime. bytes: the size of the arena; least: the bytes alive at the most demanding step, a
    lower bound for every layout."""

    offsets: tuple[int, ...]
    bytes: int
    least: int


def lay_out(lifetimes: Sequence[Lifetime]) -> Layout:
    """Compute offsets at which overlapping lifetimes do not overlap in memory; equal input gives equal offsets.

    Lifetimes are placed largest first. Each goes into the smallest sufficient gap between those already placed that
    overlap it in time, or after them if no gap suffices. All sizes are rounded up to whole cache lines.
    """
    sizes = [-(-each.bytes // CACHE_LINE) * CACHE_LINE for each in lifetimes]
    offsets = [0] * len(sizes)
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first and last step
    for at in sorted(range(len(sizes)), key=lambda at: (-sizes[at], at)):
        size, (_, first, last) = sizes[at], lifetimes[at]
        if not size:
            break
        best, smallest, end = -1, inf, 0
        for begin, stop in sorted([one[:2] for one in placed if one[2] <= last and first <= one[3]]):
            if size <= begin - end < smallest:
                best, smallest = end, begin - end
            end = max(end, stop)
        offsets[at] = end if best < 0 else best
        placed.append((offsets[at], offsets[at] + size, first, last))
    return Layout(tuple(offsets), max([one[1] for one in placed], default=0), _most_alive(lifetimes, sizes))


def _most_alive(lifetimes: Sequence[Lifetime], sizes: Sequence[int]) -> int:
    """Return the largest sum of sizes that are alive at one step."""
    changes: dict[int, int] = {}
    for (_, first, last), size in zip(lifetimes, sizes, strict=True):
        changes[first] = changes.get(first, 0) + size
        changes[last + 1] = changes.get(last + 1, 0) - size
    most = alive = 0
    for step in sorted(changes):
        alive += changes[step]
        most = max(most, alive)
    return most


class Arena:
    """A zero-initialized block of memory, aligned to a cache line. memory: its bytes, a uint8 array."""

    def __init__(self, count: int) -> None:
        block = np.zeros(count + CACHE_LINE, np.uint8)
        begin = -address(block) % CACHE_LINE
        self.memory: np.ndarray = block[begin : begin + count]

    def part(self, offset: int, count: int) -> Array:
        """Return a range of the arena's bytes as an array that is no view of ``memory`` but keeps the arena alive.

        Raises:
            ValueError: they are not in the arena.
        """
        if not 0 <= offset <= offset + count <= self.memory.size:
            raise ValueError(f"bytes {offset} to {offset + count} are not in an arena of {self.memory.size} bytes")
        interface = {"data": (address(self.memory) + offset, False), "shape": (count,), "typestr": "|u1", "version": 3}
        return np.asarray(ArrayInterface(interface, self.memory))

    def array(self, offset: int, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...] | None = None) -> Array:
        """Return an array whose lowest byte is at an offset. strides: in bytes; None: C order.

        Raises:
            ValueError: it is not in the arena.
        """
        dtype = np.dtype(dtype)
        if strides is None:
            return Array(shape, dtype, self.part(offset, prod(shape) * dtype.itemsize))
        low, high = byte_bounds(shape, strides, dtype.itemsize)
        return Array(shape, dtype, self.part(offset, high - low), -low, strides)

    def offset(self, x: Array) -> int | None:
        """Return the byte offset in the arena of the first element of an array; None if it is elsewhere."""
        found = address(x) - address(self.memory)
        return found if 0 <= found < self.memory.size else None


def span(x: Array) -> tuple[int, int]:
    """Return the addresses of the first byte of an array and of the byte after the last."""
    low, high = byte_bounds(x.shape, x.strides, x.itemsize)
    return address(x) + low, address(x) + high
