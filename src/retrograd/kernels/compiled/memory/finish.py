"""What is done to a sum before it is stored, or right after: an array is added, and the result is clamped.

A formula of the result may follow, by rows that are still in the cache. Its machine code is a function of its own that
any kernel calls by its address, so there is one for each formula and not one for each formula and kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..machine.microkernel import FINISH_FORMULA
from ..pointwise import kernel_of, tile_address
from .layout import like

Finish = tuple[np.ndarray, np.ndarray]  # what is added to a result, and bounds, as microkernel.py describes them
# the residual or None, low, high, a formula or None, and its numbers
Given = tuple[np.ndarray | None, float, float, Callable[..., Any] | None, tuple[float, ...]]


def finish_arrays(y: np.ndarray, given: Given) -> Finish:
    """The finish of a result y, for its kernel; y in place of the residual stands for none."""
    residual, low, high, formula, numbers = given
    # a product turns a number of a plan into a plain one, and keeps the sign of 0
    texts = tuple([repr(number * 1.0) for number in (low, high, *numbers)])
    return y if residual is None else like(residual, y), _bounds(texts, y.dtype.char, formula)


@lru_cache(maxsize=256)
def _bounds(texts: tuple[str, ...], dtype: str, formula: Callable[..., Any] | None) -> np.ndarray:
    low, high, *numbers = map(float, texts)
    words = np.zeros(FINISH_FORMULA + 2 + len(numbers), np.int64)
    words.view(dtype)[:2] = low, high
    words[FINISH_FORMULA] = 0 if formula is None else tile_address(formula, dtype)
    words.view(np.float64)[FINISH_FORMULA + 2 :] = numbers
    return words.view(dtype)


def finish_by_numpy(y: np.ndarray, given: Given) -> np.ndarray:
    """The finish of a result that no kernel computed."""
    residual, low, high, formula, numbers = given
    if y.size == 0:
        return y
    if residual is not None:
        y += residual
    y[y < low] = low
    y[y > high] = high
    if formula is not None:
        y[...] = kernel_of(formula)(y, *numbers)
    return y
