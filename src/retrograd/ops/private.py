"""Integers and truth values that a backward will read, as arrays that nobody else can change."""

from __future__ import annotations

import numpy as np

from .kernel_set import kernels

__all__: list[str] = []

_LARGE = 1 << 12  # elements: from here on, several threads copy in less time than NumPy


def private(array: np.ndarray, recorded: bool = True) -> np.ndarray:
    """A copy of ``array``, which the user holds too; itself where no backward will follow.

    Places are checked in forward and trusted from there on, while ``tensor.numpy()`` lets anybody change them without a
    trace. So what is given to the user, or comes from him, is not what is saved.
    """
    if not recorded:
        return array
    if array.size < _LARGE:
        return array.copy(order="K")
    copy = np.empty_like(array)
    kernels.copy(copy, array)
    return copy
