# mypy: ignore-errors
"""Sums as bits, where vectors of them are not whole bytes of their own."""

from __future__ import annotations

from ..machine.compiler import helper
from ..machine.simd import bits_of_mask, lanes, load, load_first


@helper
def bits(sums, target, column, count, threshold, flip):  # type: ignore[no-untyped-def]
    """target[channel] = (sum >= threshold[channel]) != (flip[channel] != 0), channels from ``column`` on, one bit each.

    The sums can be read a register past their end. The target, bytes of one pixel, is 0 where nothing was written;
    bits of other channels in the same bytes stay.
    """
    for j in range(0, count, lanes(sums)):
        at, some = column + j, count - j
        limit, turned = load_first(threshold, at, some), load_first(flip, at, some) != 0
        found = bits_of_mask(load(sums, j) >= limit) ^ bits_of_mask(turned)
        if some < lanes(sums):
            found &= (1 << some) - 1
        found <<= at & 7
        k = at >> 3
        while found != 0:
            target[k] |= found & 255
            found >>= 8
            k += 1
