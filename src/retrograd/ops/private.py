"""Integers and truth values that a backward will read, as arrays that nobody else can change."""

from __future__ import annotations

import numpy as np

__all__: list[str] = []


def private(array: np.ndarray, recorded: bool = True) -> np.ndarray:
    """A copy of ``array``, which the user holds too; itself where no backward will follow.

    Places are checked in forward and trusted from there on, while ``tensor.numpy()`` lets anybody change them without a
    trace. So what is given to the user, or comes from him, is not what is saved.
    """
    return array.copy(order="K") if recorded else array
