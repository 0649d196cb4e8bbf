"""NumPy arrays and numbers in a pickle: only integers, floats and bools.

Source: numpy/_core/src/multiarray/methods.c, array_reduce and array_setstate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._files.state import brief, checked_bools
from .refusal import Refused
from .values import Name, Pending

__all__ = ["ARRAYS"]

_NUMBERS = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248])")


def _numpy_dtype(text: Any, align: Any = False, copy: Any = True) -> Pending:
    if type(text) is not str or not _NUMBERS.fullmatch(text):
        raise Refused(f"an array has the dtype {brief(text)}; integers, floats and bools are read")

    def build(state: Any) -> np.dtype[Any]:
        order = state[1] if isinstance(state, tuple) and len(state) > 1 else None
        if order not in ("<", ">", "|", "="):
            raise Refused("a dtype of an array has no byte order")
        return np.dtype(text).newbyteorder(order)

    return Pending(build)


def _numpy_array(data: Any, dtype: Any, shape: Any, fortran: bool) -> np.ndarray:
    if type(data) is str:  # of Python 2
        data = data.encode("latin1")
    sizes = isinstance(shape, tuple) and len(shape) <= 32 and all(type(n) is int and 0 <= n < 2**62 for n in shape)
    if not sizes or not isinstance(dtype, np.dtype) or not isinstance(data, (bytes, bytearray)):
        raise Refused("an array has no shape, dtype or bytes")
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise Refused(f"an array of shape {shape} and dtype {dtype} has {len(data):,} bytes")
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C").astype(dtype.newbyteorder("="))
    return checked_bools("an array", array)


def _numpy_reconstruct(kind: Any, shape: Any, code: Any) -> Pending:
    if type(kind) is not Name or kind.text != "numpy.ndarray":
        raise Refused("an array is of a class of its own; save np.asarray(x)")

    def build(state: Any) -> np.ndarray:
        if not isinstance(state, tuple) or len(state) not in (4, 5):
            raise Refused("an array has no state")
        shape, dtype, fortran, data = state[-4:]
        return _numpy_array(data, dtype, shape, bool(fortran))

    return Pending(build)


def _numpy_scalar(dtype: Any, data: Any) -> Any:
    return _numpy_array(data, dtype, (), False)[()]


def _numpy_buffer(data: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray:
    return _numpy_array(data, dtype, shape, order == "F")


ARRAYS: dict[str, Callable[..., Any]] = {
    "numpy.dtype": _numpy_dtype,
    **{f"numpy.{core}.multiarray._reconstruct": _numpy_reconstruct for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray.scalar": _numpy_scalar for core in ("core", "_core")},
    **{f"numpy.{core}.numeric._frombuffer": _numpy_buffer for core in ("core", "_core")},
}
