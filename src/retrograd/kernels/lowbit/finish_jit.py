# mypy: ignore-errors
"""What becomes of the sums of one pixel in a panel; see codes.py.

Of ``count`` sums, number j belongs to channel ``column + j`` of the pixel at the address ``to``; they can be read a
register past their end.
"""

from __future__ import annotations

from ..machine.compiler import helper
from ..machine.simd import (
    bits_of_mask,
    lanes,
    load,
    load_first,
    load_first_mask,
    load_words,
    nearest,
    pointer_like,
    rounded_product,
    select,
    store_bytes,
    store_shorts,
    whole,
)


@helper
def bits(sums, to, column, count, threshold, flip):  # type: ignore[no-untyped-def]
    """Bits into zeros; those of other channels in the same bytes stay."""
    for j in range(0, count, lanes(sums)):
        at, some = column + j, count - j
        limit = load(threshold, at) if some >= lanes(sums) else load_first(threshold, at, some)
        found = bits_of_mask(load(sums, j) >= limit) ^ bits_of_mask(load_first_mask(flip, at, limit, some))
        if some < lanes(sums):
            found &= (1 << some) - 1
        found <<= at & 7
        target, k = pointer_like(flip, to + (at >> 3)), 0
        while found != 0:
            target[k] |= found & 255
            found >>= 8
            k += 1


@helper
def codes(sums, to, column, count, scale, zero_point, low, high, size):  # type: ignore[no-untyped-def]
    """Codes of ``size`` bytes, 1 or 2."""
    for j in range(0, count, lanes(scale)):
        at, some = column + j, count - j
        a = load(scale, at) if some >= lanes(scale) else load_first(scale, at, some)
        q = code_of(rounded_product(whole(load_words(sums, j, scale), scale), a), zero_point, low, high)
        if size == 1:
            store_bytes(to + at, q, some)
        else:
            store_shorts(to + 2 * at, q, some)


@helper
def code_of(value, zero_point, low, high):  # type: ignore[no-untyped-def]
    """clip(round(value) + zero_point, low, high); NaN becomes ``low``."""
    q = nearest(value) + zero_point
    q = select(q >= low, q, low)
    return select(q <= high, q, high)
