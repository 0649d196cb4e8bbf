"""Random numbers by position: each is computed from its number in the sequence alone, so tasks need no order.

Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011 (Philox-2x32 with ten rounds).
"""

from __future__ import annotations

from typing import Any

from ..compiler import Array, helper
from ..simd import full, lanes, load_first, positions, select, shift_right, store_first

_MULTIPLIER, _KEY_STEP, _WORD = 0xD256D193, 0x9E3779B9, 0xFFFFFFFF


@helper
def philox(number: Any, stream: int, key: int) -> Any:
    """The first of the two 32-bit words that Philox-2x32-10 makes of the counters (number, stream)."""
    low, high = number & _WORD, (shift_right(number, 32) & _WORD) ^ stream
    for _ in range(10):
        product = low * _MULTIPLIER
        low = (shift_right(product, 32) & _WORD) ^ key ^ high
        high = product & _WORD
        key = (key + _KEY_STEP) & _WORD
    return low


def dropout(
    task: int, worker: int, x: Array, y: Array, n: int, inner: int, middle: int, rows_per_task: int,
    outer_step: int, middle_step: int, inner_step: int, key: int, stream: int, threshold: int, scale: float,
) -> None:  # fmt: skip
    """y = x * (scale where the random word of its number is at least ``threshold``, else 0) over dense memory.

    Element (o, m, i) has the number o * outer_step + m * middle_step + i * inner_step. The last row may be shorter.
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
            kept = philox(steps + number, stream, key) >= threshold
            store_first(y, k, load_first(x, k, m) * select(kept, full(x, scale), 0.0), m)
            number += lanes(x) * inner_step
            k += lanes(x)
        row += 1
