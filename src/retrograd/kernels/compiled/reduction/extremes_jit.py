# mypy: ignore-errors
"""Kernels that find the index of the largest or smallest number along one axis of a dense array, given that number."""

from __future__ import annotations

from collections.abc import Callable

from ..machine.compiler import Array, Table, helper
from ..machine.simd import (
    PART,
    WIDE,
    Access,
    any_lane,
    bits_of,
    either,
    four_times,
    full,
    full_like,
    lanes,
    load_wide,
    select,
)
from ..memory.axes_jit import columns_of

# A NaN is among the numbers only if the extreme is one.


def place_in_rows(
    task: int, worker: int, x: Array, values: Array, indices: Table, rows: int, length: int, per_task: int
) -> None:
    """The first index of values[row] in each row."""
    four = 4 * lanes(x)
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin, value = row * length, values[row]
        end, wanted = begin + length, four_times(full(x, value))
        i = begin
        while i + four <= end:
            v = load_wide(x, i)
            if any_lane(either(v == wanted, v != v)):
                break
            i += four
        while not (x[i] == value or x[i] != x[i]):
            i += 1
        indices[row] = i - begin


def _block(access: Access) -> Callable[..., None]:
    load, store_integers = access.load, access.store_integers

    @helper
    def columns(x: Array, p: int, length: int, inner: int, n: int, values: Array, indices: Table, q: int) -> None:
        value = load(values, q, n)
        place = bits_of(full_like(value, 0.0))
        zero = place
        for r in range(length - 1, -1, -1):
            v = load(x, p + r * inner, n)
            place = select(either(v == value, v != v), zero + r, place)
        store_integers(indices, q, place, n)

    return columns


_four, _part = _block(WIDE), _block(PART)


def place_in_columns(
    task: int, worker: int, x: Array, values: Array, indices: Table, length: int, inner: int, width: int
) -> None:
    """The first index of values[o, i] in x[o, :, i]; a task is ``width`` columns of one o."""
    o, i, end = columns_of(task, inner, width)
    first, result = o * length * inner, o * inner
    while i + 4 * lanes(x) <= end:
        _four(x, first + i, length, inner, 0, values, indices, result + i)
        i += 4 * lanes(x)
    while i < end:
        _part(x, first + i, length, inner, end - i, values, indices, result + i)
        i += lanes(x)
