"""How the engine adds and copies gradients: by NumPy, until `retrograd.ops` installs kernels that use all threads."""

from __future__ import annotations

import numpy as np


class Arithmetic:
    """`add` and `copy` return a new array; `copy` keeps the order of the axes in memory."""

    __slots__ = ("add", "copy")

    def __init__(self) -> None:
        self.add = add
        self.copy = copy


def add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y of one shape"""
    return np.asarray(np.add(x, y))


def copy(x: np.ndarray) -> np.ndarray:
    """The same numbers in an array of their own."""
    return x.copy(order="K")


arithmetic = Arithmetic()
