"""Values that Python reads from arrays: each waits for what computes the array, and a recording ends there.

``why`` says what is decided by the value, in a few words; ``listeners`` hear of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .protocol import is_array

Array = np.ndarray

listeners: list[Callable[[str], None]] = []  # called with ``why``; empty nearly always


def _read(why: str) -> None:
    for listener in listeners:
        listener(why)


def to_host(x: Array, why: str) -> Array:
    """x as an array of NumPy; one of NumPy stays itself, one of another library is copied by its ``to_host``."""
    _read(why)
    if is_array(x) and not isinstance(x, np.ndarray):
        found: Array = x.to_host()
        return found
    return np.asarray(x)


def number(x: Array, why: str) -> Any:
    """The one element of x, as Python's bool, int, float or complex."""
    _read(why)
    return x.item()


def integers(x: Array, why: str) -> list[int]:
    """The elements of x, which has one axis, as Python's integers."""
    _read(why)
    found: list[int] = x.tolist()
    return found


def numbers(x: Array, why: str) -> list[Any]:
    """The elements of x, which has one axis, as Python's numbers."""
    if listeners:
        _read(why)
    found: list[Any] = x.tolist()
    return found


def any_true(mask: Array, why: str) -> bool:
    """Whether an element is not 0."""
    _read(why)
    return bool(mask.any())


def all_true(mask: Array, why: str) -> bool:
    """Whether no element is 0."""
    _read(why)
    return bool(mask.all())


def within(x: Array, low: float, high: float, why: str) -> bool:
    """Whether all elements are from low to high; NaN is not."""
    _read(why)
    if low == 0 and x.dtype == np.int64:  # as unsigned numbers, negative ones are huge: one comparison checks both ends
        return not x.size or int(np.maximum.reduce(x.view(np.uint64), axis=None)) <= high
    return bool(((x >= low) & (x <= high)).all())


def first_outside(x: Array, low: float, high: float, why: str) -> tuple[list[int], Any]:
    """The place, in C order, and the value of the first element that is not from low to high; there is one."""
    _read(why)
    place = np.argwhere(~((x >= low) & (x <= high)))[0].tolist()
    return place, x[tuple(place)].item()


def first_true(mask: Array, why: str) -> tuple[int, ...] | None:
    """The index of the first true element of truth values, in C order; None if there is none."""
    _read(why)
    flat = mask.reshape(-1)
    at = int(flat.argmax()) if flat.size else 0
    return tuple(map(int, np.unravel_index(at, mask.shape))) if flat.size and flat[at] else None


def count_true(mask: Array, why: str) -> int:
    """The number of elements that are not 0."""
    _read(why)
    return int(np.count_nonzero(mask))


def any_below(x: Array, low: float, why: str) -> bool:
    """Whether an element is below low; NaN is not."""
    _read(why)
    return bool((x < low).any())


def all_finite(x: Array, why: str) -> bool:
    """Whether no element is infinite or NaN."""
    _read(why)
    return bool(np.isfinite(x).all())


def any_nan(x: Array, why: str) -> bool:
    """Whether an element is NaN."""
    _read(why)
    return x.dtype.kind in "fc" and bool((x != x).any())


def same(a: Array, b: Array, why: str, equal_nan: bool = False) -> bool:
    """Whether a and b have one shape and equal elements; equal_nan: NaN equals NaN."""
    _read(why)
    return bool(np.array_equal(a, b, equal_nan))


def extremes(x: Array, why: str) -> tuple[Any, Any]:
    """The smallest and the largest element, as Python's numbers; x has elements."""
    _read(why)
    return np.minimum.reduce(x, axis=None).item(), np.maximum.reduce(x, axis=None).item()


def increasing(x: Array, why: str) -> bool:
    """Whether no element of x, which has one axis, is smaller than the one before it."""
    _read(why)
    return not (x[1:] < x[:-1]).any()
