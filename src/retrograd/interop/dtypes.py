"""Lossless conversion of file dtypes to dtypes that a Tensor can have."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.dtype import ALLOWED

__all__ = ["bfloat16_numbers", "widened"]


def held(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which a Tensor stores numbers of this dtype: the same one if supported, else a wider one."""
    if dtype in ALLOWED:
        return dtype
    return np.dtype(np.float32 if dtype.kind == "f" else np.int64)


def widened(array: np.ndarray) -> np.ndarray:
    """Return the array in a dtype that a Tensor can have, without loss; without a copy if it already has one.

    Raises:
        ValueError: an unsigned integer does not fit int64.
    """
    dtype = held(array.dtype)
    if array.dtype == np.uint64 and dtype == np.int64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError("it holds uint64 numbers beyond int64")
    return array.astype(dtype, copy=False)


def bfloat16_numbers(halves: np.ndarray) -> np.ndarray:
    """Decode bfloat16 bits, which are the upper halves of float32, to float32."""
    return (halves.astype(np.uint32) << 16).view(np.float32)
