"""Checks that Python's and NumPy's objects have the memory layout that the launch expects.

``launch`` of threads_jit.py reads the fields of an array directly from memory and calls NumPy's C interface. Both are
checked before the first launch; if they differ, ``ctypes_launch`` launches instead.
"""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from typing import Any

import numpy as np

_CORES = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")  # of NumPy 2, and of NumPy 1
_INTERFACES = (0x01000009, 0x02000000)  # of NumPy 1 and 2: versions for which the table below holds
_GET_INTERFACE, _NEW_LIKE_ARRAY = 0, 277
_HEADER = object.__basicsize__


@lru_cache(maxsize=1)
def fault() -> str:
    """Describe how arrays differ from the layout that the machine code expects; "" if they do not."""
    probe = np.zeros((3, 5, 2), np.float32).transpose(1, 0, 2)
    if not _has_known_fields(probe):
        return "arrays have an unknown memory layout"
    if not (address := new_like()):
        return "NumPy's C interface is unknown"
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
    like = prototype(address)(probe, 2, None, 0)
    if type(like) is not np.ndarray or (like.shape, like.strides) != (probe.shape, probe.strides):
        return "NumPy's C interface makes arrays with an unexpected layout"
    return ""


def _words(thing: Any, start: int, count: int) -> list[int]:
    """64-bit words in an object, from a byte on."""
    return list((ctypes.c_int64 * count).from_address(id(thing) + start))


def _has_known_fields(probe: np.ndarray) -> bool:
    """Whether the fields of an array of three axes, and of the dtypes, are where the machine code reads them."""
    (kind,) = _words(probe, _HEADER - 8, 1)
    data, axes, extents, strides, _, dtype = _words(probe, _HEADER, 6)
    if (kind, data, axes & 0xFFFFFFFF, dtype) != (id(np.ndarray), probe.ctypes.data, 3, id(probe.dtype)):
        return False
    three = ctypes.c_int64 * 3
    if (*three.from_address(extents), *three.from_address(strides)) != (*probe.shape, *probe.strides):
        return False
    known = [np.dtype(name) for name in ("f4", "f8", "i8", "?")]
    return all(_words(dtype, _HEADER + 8, 1)[0] >> 32 == dtype.num for dtype in known)


def new_like() -> int:
    """Address of PyArray_NewLikeArray, from the table of NumPy's C interface; 0 if it is not available."""
    core = next((sys.modules[name] for name in _CORES if name in sys.modules), None)
    capsule = getattr(core, "_ARRAY_API", None)
    if capsule is None:
        return 0
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    table = ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    if ctypes.CFUNCTYPE(ctypes.c_uint)(table[_GET_INTERFACE] or 0)() not in _INTERFACES:
        return 0
    return table[_NEW_LIKE_ARRAY] or 0
