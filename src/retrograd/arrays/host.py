"""Reads of array values by Python. A read waits until the array is computed, and recorded steps cannot replay it.

``why`` says in a few words what the value decides; it is passed to ``listeners``, with the ``Decision`` if the read
answers a question with yes or no.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .protocol import is_array

Array = np.ndarray


class Decision(NamedTuple):
    """A decision that can be repeated: what ``ask`` answered about some arrays, with further arguments."""

    why: str
    ask: Callable[..., bool]
    arrays: tuple[Array, ...]
    others: tuple[Any, ...]
    found: bool

    def holds(self) -> bool:
        """Whether the decision would be the same now."""
        return self.ask(*self.arrays, *self.others) == self.found


listeners: list[Callable[[str, Decision | None], None]] = []  # almost always empty


def is_recorded() -> bool:
    """Return whether reads are listened to: a question that can be asked again is then better than a value."""
    return bool(listeners)


def _read(why: str, made: Decision | None = None) -> None:
    for listener in listeners:
        listener(why, made)


def _decided(why: str, ask: Callable[..., bool], arrays: tuple[Array, ...], *others: Any) -> bool:
    found = ask(*arrays, *others)
    if listeners:
        _read(why, Decision(why, ask, arrays, others, found))
    return found


def to_host(x: Array, why: str) -> Array:
    """Return x as a NumPy array: a NumPy array as it is, another library's array copied by its ``to_host``."""
    _read(why)
    if is_array(x) and not isinstance(x, np.ndarray):
        found: Array = x.to_host()
        return found
    return np.asarray(x)


def shared(x: Array, why: str) -> Array:
    """Return x itself, whose elements Python may read from now on."""
    _read(why)
    return x


def number(x: Array, why: str) -> Any:
    """Return the only element of x as a Python bool, int, float or complex."""
    _read(why)
    return x.item()


def integers(x: Array, why: str) -> list[int]:
    """Return the elements of the one-dimensional x as Python ints."""
    _read(why)
    found: list[int] = x.tolist()
    return found


def numbers(x: Array, why: str) -> list[Any]:
    """Return the elements of the one-dimensional x as Python numbers."""
    if listeners:
        _read(why)
    found: list[Any] = x.tolist()
    return found


def any_true(mask: Array, why: str) -> bool:
    """Return whether any element is nonzero."""
    return _decided(why, _any_true, (mask,))


def _any_true(mask: Array) -> bool:
    return bool(mask.any())


def all_true(mask: Array, why: str) -> bool:
    """Return whether all elements are nonzero."""
    return _decided(why, _all_true, (mask,))


def _all_true(mask: Array) -> bool:
    return bool(mask.all())


def within(x: Array, low: float, high: float, why: str) -> bool:
    """Return whether all elements are in [low, high]; NaN is not."""
    if (require := getattr(x, "require_within", None)) is not None:  # an array of a plan, which has no elements
        require(low, high)
        return True
    return _decided(why, _all_within, (x,), low, high)


_INT64, _FEW = np.dtype(np.int64), 32  # for so few elements, Python is faster than NumPy


def _all_within(x: Array, low: float, high: float) -> bool:
    if type(x) is np.ndarray and x.dtype is _INT64 and 0 < x.size <= _FEW:
        elements = x.ravel().tolist()
        return bool(low <= min(elements) and max(elements) <= high)
    if low == 0 and x.dtype == np.int64:  # as unsigned numbers, negative ones are huge: one comparison checks both ends
        return not x.size or int(np.maximum.reduce(x.view(np.uint64), axis=None)) <= high
    return bool(((x >= low) & (x <= high)).all())


def first_outside(x: Array, low: float, high: float, why: str) -> tuple[list[int], Any]:
    """Return the index and value of the first element, in C order, that is not in [low, high]; one must exist."""
    _read(why)
    place = np.argwhere(~((x >= low) & (x <= high)))[0].tolist()
    return place, x[tuple(place)].item()


def first_true(mask: Array, why: str) -> tuple[int, ...] | None:
    """Return the index of the first true element of a mask, in C order; None if there is none."""
    _read(why)
    flat = mask.reshape(-1)
    at = int(flat.argmax()) if flat.size else 0
    return tuple(map(int, np.unravel_index(at, mask.shape))) if flat.size and flat[at] else None


def count_true(mask: Array, why: str) -> int:
    """Return the number of nonzero elements."""
    _read(why)
    return int(np.count_nonzero(mask))


def any_below(x: Array, low: float, why: str) -> bool:
    """Return whether any element is below low; NaN is not."""
    return _decided(why, _any_below, (x,), low)


def _any_below(x: Array, low: float) -> bool:
    return bool((x < low).any())


def all_finite(x: Array, why: str) -> bool:
    """Return whether all elements are finite."""
    return _decided(why, _all_finite, (x,))


def _all_finite(x: Array) -> bool:
    return bool(np.isfinite(x).all())


def any_nan(x: Array, why: str) -> bool:
    """Return whether any element is NaN."""
    return _decided(why, _any_nan, (x,))


def _any_nan(x: Array) -> bool:
    return x.dtype.kind in "fc" and bool((x != x).any())


def same(a: Array, b: Array, why: str, equal_nan: bool = False) -> bool:
    """Return whether a and b have the same shape and equal elements; equal_nan: NaN equals NaN."""
    return _decided(why, _same, (a, b), equal_nan)


def _same(a: Array, b: Array, equal_nan: bool) -> bool:
    return bool(np.array_equal(a, b, equal_nan))


def extremes(x: Array, why: str) -> tuple[Any, Any]:
    """Return the smallest and the largest element as Python numbers; x must not be empty."""
    _read(why)
    return np.minimum.reduce(x, axis=None).item(), np.maximum.reduce(x, axis=None).item()


def increasing(x: Array, why: str) -> bool:
    """Return whether no element of the one-dimensional x is smaller than the one before it."""
    return _decided(why, _increasing, (x,))


def _increasing(x: Array) -> bool:
    return not (x[1:] < x[:-1]).any()
