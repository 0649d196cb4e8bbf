# mypy: ignore-errors
"""What becomes of the sums of a tile: they are completed, and scaled, compared or rounded; see codes.py."""

from __future__ import annotations

from ..machine.compiler import helper
from ..machine.simd import (
    bits_of_mask,
    full,
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
    store_first,
    store_shorts,
)


@helper
def complete(sums, starts, start, times, target, count):  # type: ignore[no-untyped-def]
    """target[j] = starts[start + j] + times * sums[j]: ``count`` int32 numbers."""
    for j in range(0, count, lanes(sums)):
        some = count - j
        if some >= lanes(sums):
            store_first(target, j, load(starts, start + j) + load(sums, j) * times, some)
        else:
            store_first(target, j, load_first(starts, start + j, some) + load_first(sums, j, some) * times, some)


@helper
def scaled(sums, scale, bias, factor, factors, pixel, to, column, count):  # type: ignore[no-untyped-def]
    """The numbers of one pixel from the channel ``column`` on, to the address ``to`` of its first one."""
    target = pointer_like(scale, to)
    of_pixel = full(scale, factor[pixel] if factors else 1.0)
    for j in range(0, count, lanes(scale)):
        at, some = column + j, count - j
        y = rounded_product(load_words(sums, j, scale), load_first(scale, at, some))
        if factors:
            y = rounded_product(y, of_pixel)
        store_first(target, at, y + load_first(bias, at, some), some)


@helper
def bits(sums, threshold, flip, target, to, column, count):  # type: ignore[no-untyped-def]
    """Bits into the zeros at the address ``to``; those of other channels in the same bytes stay."""
    for j in range(0, count, lanes(sums)):
        at, some = column + j, count - j
        value, limit = load(sums, j), load_first(threshold, at, some)
        found = bits_of_mask(value >= limit) ^ bits_of_mask(load_first_mask(flip, at, value, some))
        if some < lanes(sums):
            found &= (1 << some) - 1
        found <<= at & 7
        place, i = pointer_like(target, to + (at >> 3)), 0
        while found != 0:
            place[i] |= found & 255
            found >>= 8
            i += 1


@helper
def codes(sums, scale, zero_point, low, high, size, to, column, count):  # type: ignore[no-untyped-def]
    """Codes of ``size`` bytes, 1 or 2."""
    for j in range(0, count, lanes(scale)):
        at, some = column + j, count - j
        q = code_of(rounded_product(load_words(sums, j, scale), load_first(scale, at, some)), zero_point, low, high)
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
