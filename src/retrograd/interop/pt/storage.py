"""The numbers of a .pt file, and the tensors that are views of them."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ..._files.state import checked_bools
from ..widened import bfloat16_numbers, widened
from .refusal import Refused

__all__ = ["BFLOAT16", "DTYPES", "UNTYPED", "Storage", "bytes_of"]

BFLOAT16, UNTYPED = "bfloat16", "untyped"
_LEGACY = {
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": BFLOAT16,
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "Untyped": UNTYPED,
}

# a storage's class -> the dtype of its numbers
DTYPES = {
    f"{module}{kind}Storage": dtype
    for kind, dtype in _LEGACY.items()
    for module in ("torch.", "torch.cuda.", "torch.storage.")
}


def bytes_of(dtype: str) -> int:
    """Bytes of a number of a storage."""
    return {BFLOAT16: 2, UNTYPED: 1}.get(dtype) or np.dtype(dtype).itemsize


class Storage:
    """A block of numbers in a file.

    data: its bytes, writable, or None while only what asks for them is read. dtype: the name of its numbers' dtype, or
        "untyped".
    """

    def __init__(self, data: np.ndarray | None, dtype: str, big_endian: bool = False) -> None:
        self.data, self.dtype, self.big_endian = data, dtype, big_endian
        self._numbers: dict[str, np.ndarray] = {}
        self._parts: dict[tuple[int, int], Storage] = {}

    def part(self, first: int, size: int) -> Storage:
        """The storage of these bytes of it; the same one for the same bytes.

        Raises:
            Refused: there are not so many.
        """
        assert self.data is not None
        if first + size > self.data.size:
            raise Refused("a part of a storage goes beyond its end")
        key = first, size
        if key not in self._parts:
            self._parts[key] = Storage(self.data[first : first + size], self.dtype, self.big_endian)
        return self._parts[key]

    def numbers(self, dtype: str) -> np.ndarray:
        """All numbers, in a dtype that a Tensor can have; tensors of one storage share them."""
        if dtype not in self._numbers:
            self._numbers[dtype] = self._read(dtype)
        return self._numbers[dtype]

    def _read(self, dtype: str) -> np.ndarray:
        assert self.data is not None
        order: Literal["<", ">"] = ">" if self.big_endian else "<"
        if dtype == BFLOAT16:
            return bfloat16_numbers(self.data.view(f"{order}u2"))
        kind = np.dtype(dtype)
        if self.data.size % kind.itemsize:
            raise Refused(f"a storage of {self.data.size:,} bytes holds no whole number of {dtype}")
        array = self.data.view(kind.newbyteorder(order))
        try:
            return widened(checked_bools("a storage", array.astype(kind, copy=False)))
        except ValueError as error:
            raise Refused(str(error)) from error

    def array(self, offset: Any, size: Any, stride: Any, dtype: str | None = None) -> np.ndarray:
        """The view of a tensor; read-only if elements overlap.

        Raises:
            Refused: the sizes are no sizes, or the view leaves the storage.
        """
        if self.data is None:
            return np.empty(0, np.float32)
        numbers = self.numbers(dtype or self.dtype)
        if not _counts((offset,)) or not _counts(size) or not _counts(stride) or len(size) != len(stride):
            raise Refused("a tensor has sizes, strides or an offset that are no counts")
        if len(size) > 32:
            raise Refused(f"a tensor has {len(size)} axes; at most 32 are read")
        elements = math.prod(size)
        width = numbers.itemsize
        if elements * width >= 2**62:
            raise Refused(f"a tensor has the shape {tuple(size)}, too large for any memory")
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if elements and last >= numbers.size:
            raise Refused(f"a tensor reaches element {last:,} of a storage of {numbers.size:,}")
        if not elements:
            return np.empty(size, numbers.dtype)
        view: np.ndarray = np.ndarray(
            tuple(size), numbers.dtype, numbers, offset * width, tuple(step * width for step in stride)
        )
        if _overlaps(size, stride):
            view.flags.writeable = False
        return view


def _counts(values: Any) -> bool:
    return isinstance(values, (tuple, list)) and all(type(n) is int and 0 <= n < 2**62 for n in values)


def _overlaps(size: Any, stride: Any) -> bool:
    """Whether two elements of a view can be one of the storage."""
    reach = 0
    for step, n in sorted((step, n) for n, step in zip(size, stride, strict=True) if n > 1):
        if step <= reach:
            return True
        reach += step * (n - 1)
    return False
