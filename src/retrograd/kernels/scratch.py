"""Memory that the tasks of a kernel use while they run; it is kept for the next call.

Beside the time of an allocation this saves the time of denormal numbers: a kernel may compute with elements that
nobody asked for, and what was left behind by other numbers is as good as zeros, but the bits of a fresh array are not.
"""

from __future__ import annotations

from threading import local

import numpy as np

from .launch import get_num_threads

_MOST = 8 << 20  # bytes kept for each element type


class _Kept(local):  # a second thread that calls kernels has its own
    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}


_kept = _Kept()


def per_thread(count: int, dtype: str) -> np.ndarray:
    """At least ``count`` elements for each thread, one part after the other; the next call may give the same ones."""
    needed = count * get_num_threads()
    arrays = _kept.arrays
    array = arrays.get(dtype)
    if array is None or array.size < needed:
        array = np.zeros(needed, dtype)
        if array.nbytes <= _MOST:
            arrays[dtype] = array
    return array
