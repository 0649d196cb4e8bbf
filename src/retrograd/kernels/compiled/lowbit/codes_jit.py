# mypy: ignore-errors
"""Kernels that make codes; see specs/low_bit.py."""

from __future__ import annotations

from ..machine.compiler import Array, Bytes, Words
from ..machine.simd import (
    address,
    bits_of_mask,
    full,
    lanes,
    load,
    load_first,
    nearest,
    select,
    store_bytes,
    store_shorts,
)

_BITS = 32


def signs(task: int, worker: int, x: Array, y: Words, rows: int, channels: int, words: int, per_task: int) -> None:
    """y[row, w] = the bits x[row, 32 w + i] >= 0."""
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin, end = row * channels, (row + 1) * channels
        for w in range(words):
            first, word = begin + w * _BITS, 0
            if first + _BITS <= end:
                for i in range(0, _BITS, lanes(x)):
                    word |= bits_of_mask(load(x, first + i) >= 0.0) << i
            else:
                for i in range(0, end - first, lanes(x)):
                    found = bits_of_mask(load_first(x, first + i, end - first - i) >= 0.0)
                    word |= found << i
                word &= (1 << (end - first)) - 1
            y[row * words + w] = word


def quantize(
    task: int,
    worker: int,
    x: Array,
    y: Bytes,
    rows: int,
    channels: int,
    codes: int,
    size: int,
    scale: float,
    zero_point: int,
    low: int,
    high: int,
    per_task: int,
) -> None:
    """y[row, c] = clip(round(x[row, c] / scale) + zero_point, low, high), numbers of ``size`` bytes."""
    divisor = full(x, scale)
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin, to = row * channels, address(y) + row * codes * size
        for c in range(0, channels, lanes(x)):
            some = channels - c
            value = load(x, begin + c) if some >= lanes(x) else load_first(x, begin + c, some)
            q = nearest(value / divisor) + zero_point
            q = select(q >= low, q, low)  # NaN is not
            q = select(q <= high, q, high)
            if size == 1:
                store_bytes(to + c, q, some)
            else:
                store_shorts(to + 2 * c, q, some)
