# mypy: ignore-errors
"""Sums as bits."""

from __future__ import annotations

from ..machine.compiler import helper
from ..machine.simd import bits_of_mask, lanes, load, load_first, pointer_like


@helper
def bits(sums, to, column, count, threshold, flip, like):  # type: ignore[no-untyped-def]
    """Bits of channels ``column`` to ``column + count`` into the zeros of the pixel at the address ``to``;
    ``like`` is a pointer to bytes.

    The sums can be read a register past their end. Bits of other channels in the same bytes stay.
    """
    for j in range(0, count, lanes(sums)):
        at, some = column + j, count - j
        limit, turned = load_first(threshold, at, some), load_first(flip, at, some) != 0
        found = bits_of_mask(load(sums, j) >= limit) ^ bits_of_mask(turned)
        if some < lanes(sums):
            found &= (1 << some) - 1
        found <<= at & 7
        target, k = pointer_like(like, to + (at >> 3)), 0
        while found != 0:
            target[k] |= found & 255
            found >>= 8
            k += 1
