"""Values that Python reads from arrays: each waits for what computes the array, and a recording ends there.

``why`` says what is decided by the value, in a few words; ``listeners`` hear of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray

listeners: list[Callable[[str], None]] = []  # called with ``why``; empty nearly always


def _read(why: str) -> None:
    for listener in listeners:
        listener(why)


def to_host(x: Array, why: str) -> Array:
    """x as an array of NumPy; one of NumPy stays itself."""
    _read(why)
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


def any_true(mask: Array, why: str) -> bool:
    """Whether an element is not 0."""
    _read(why)
    return bool(mask.any())


def all_true(mask: Array, why: str) -> bool:
    """Whether no element is 0."""
    _read(why)
    return bool(mask.all())


def all_finite(x: Array, why: str) -> bool:
    """Whether no element is infinite or NaN."""
    _read(why)
    return bool(np.isfinite(x).all())


def same(a: Array, b: Array, why: str, equal_nan: bool = False) -> bool:
    """Whether a and b have one shape and equal elements; equal_nan: NaN equals NaN."""
    _read(why)
    return bool(np.array_equal(a, b, equal_nan))
