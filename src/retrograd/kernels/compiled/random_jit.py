# mypy: ignore-errors
"""Counter-based random numbers: each depends only on its number in the sequence, so tasks need no order.

Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011 (Philox-2x32 with ten rounds).
"""

from __future__ import annotations

from typing import Any

from .machine.compiler import Array, Truth, helper
from .machine.simd import (
    ahead,
    full,
    lanes,
    load,
    load_first,
    load_first_mask,
    load_mask,
    positions,
    select,
    shift_right,
    store,
    store_first,
    store_first_mask,
    until_aligned,
)
from .memory.layout import CHUNK

_MULTIPLIER, _KEY_STEP, _WORD = 0xD256D193, 0x9E3779B9, 0xFFFFFFFF


@helper
def philox(number: Any, stream: int, key: int) -> Any:
    """The first of the two 32-bit words of Philox-2x32-10 for the counter (number, stream)."""
    low, high = number & _WORD, (shift_right(number, 32) & _WORD) ^ stream
    for _ in range(10):
        product = low * _MULTIPLIER
        low = (shift_right(product, 32) & _WORD) ^ key ^ high
        high = product & _WORD
        key = (key + _KEY_STEP) & _WORD
    return low


def dropout(
    task: int,
    worker: int,
    x: Array,
    y: Array,
    kept: Truth,
    n: int,
    inner: int,
    middle: int,
    rows_per_task: int,
    outer_step: int,
    middle_step: int,
    inner_step: int,
    key: int,
    stream: int,
    threshold: int,
    scale: float,
) -> None:
    """kept: whether the random word of its number is at least ``threshold``; y = x * (scale where kept, else 0).

    All over dense memory. Element (o, m, i) has the number o * outer_step + m * middle_step + i * inner_step. The last
    row may be shorter.
    """
    row = task * rows_per_task
    last_row = min((n + inner - 1) // inner, row + rows_per_task)
    steps = positions(x) * inner_step
    while row < last_row:
        o = row // middle
        number = o * outer_step + (row - o * middle) * middle_step
        k = row * inner
        last = min(n, k + inner)
        while k < last:
            m = min(lanes(x), last - k)
            chosen = philox(steps + number, stream, key) >= threshold
            store_first(y, k, load_first(x, k, m) * select(chosen, full(x, scale), 0.0), m)
            store_first_mask(kept, k, chosen, m)
            number += lanes(x) * inner_step
            k += lanes(x)
        row += 1


def dropout_grad(task: int, worker: int, g: Array, kept: Truth, y: Array, n: int, scale: float) -> None:
    """y = g * (scale where kept, else 0) over dense memory."""
    i = task * CHUNK
    last = min(n, i + CHUNK)
    few = until_aligned(y, i)
    kept_scale = full(g, scale)
    while i < last:
        m = min(lanes(g), last - i)
        if few > 0:
            m = min(few, last - i)
            few = 0
        if m == lanes(g):
            ahead(g, i)
            ahead(y, i)
            store(y, i, load(g, i) * select(load_mask(kept, i, kept_scale), kept_scale, 0.0))
        else:
            chosen = load_first_mask(kept, i, kept_scale, m)
            store_first(y, i, load_first(g, i, m) * select(chosen, kept_scale, 0.0), m)
        i += m
