"""Values of a graph: Tensors where ours has the dtype, NumPy arrays otherwise, and None for what is left out."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from ..engine.tensor import Tensor, wrap
from .errors import OnnxError, UnsupportedError
from .package import onnx

Value = Any

MOST_ENTRIES = 2**30  # of what an operator makes
_OURS = frozenset(np.dtype(name) for name in ("bool", "u1", "i1", "i2", "i4", "i8", "f4", "f8"))


def value_of(array: Any) -> Value:
    """A value for an array."""
    array = np.asarray(array)
    return wrap(array) if array.dtype in _OURS else array


def array_of(value: Value) -> np.ndarray:
    """The array of a value."""
    return value.array if isinstance(value, Tensor) else np.asarray(value)


def floating(value: Value) -> Tensor:
    """A value that must be float32 or float64.

    Raises:
        UnsupportedError: it is of another type.
    """
    if isinstance(value, Tensor) and value.array.dtype.kind == "f":
        return value
    raise UnsupportedError(f"operands of {array_of(value).dtype}: it computes in float32 and float64")


def ints(value: Value) -> list[int]:
    """The numbers of a value of one axis, or of none."""
    array = array_of(value)
    if array.dtype.kind not in "iu":
        raise OnnxError(f"{array.dtype} where whole numbers are needed")
    return [int(number) for number in array.reshape(-1)]


def extents(sizes: Iterable[Any]) -> list[int]:
    """Extents of an array that is to be made.

    Raises:
        OnnxError: one is negative, or the array would have more entries than a file should ask for.
    """
    found = [int(size) for size in sizes]
    if any(size < 0 for size in found) or prod(found) > MOST_ENTRIES:
        raise OnnxError(f"an array of shape {found}: extents are 0 or more, entries at most {MOST_ENTRIES}")
    return found


def scalar(value: Value) -> Any:
    """The number of a value of one element."""
    array = array_of(value)
    if array.size != 1:
        raise OnnxError(f"an array of shape {array.shape} where one number is needed")
    return array.reshape(-1)[0].item()


def dtype_of(code: int) -> np.dtype[Any]:
    """NumPy's dtype for the number of a type of ONNX."""
    try:
        return np.dtype(onnx().helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, ValueError) as error:
        raise UnsupportedError(f"the type {code} of ONNX") from error
