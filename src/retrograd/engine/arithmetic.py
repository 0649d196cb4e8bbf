"""How the engine adds and copies arrays: by NumPy, until `retrograd.ops` installs kernels that use all threads."""

from __future__ import annotations

import numpy as np


class Arithmetic:
    """`add` and `copy` return a new array, `copy` in the same order of axes; the others write into their first."""

    __slots__ = ("accumulate", "add", "assign", "copy")

    def __init__(self) -> None:
        self.add = add
        self.copy = copy
        self.accumulate = accumulate
        self.assign = assign


def add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y of one shape; silent where infinities cancel or sums overflow, as the kernels are"""
    with np.errstate(all="ignore"):
        return np.asarray(np.add(x, y))


def copy(x: np.ndarray) -> np.ndarray:
    """The same numbers in an array of their own."""
    return x.copy(order="K")


def accumulate(y: np.ndarray, x: np.ndarray) -> None:
    """y += x, of one shape and type; silent as ``add``"""
    with np.errstate(all="ignore"):
        np.add(y, x, out=y)


def assign(y: np.ndarray, x: np.ndarray) -> None:
    """y[...] = x, of one shape and type"""
    np.copyto(y, x)


arithmetic = Arithmetic()
