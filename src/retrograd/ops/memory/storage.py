"""Storage: the memory that a tensor shares with its views.

The storage of a tensor is all the memory of the NumPy array that owns it. A view of a tensor has the storage of that
tensor. A tensor made by ``from_numpy`` from a slice has the storage of the whole array. Elements are counted in the
order of memory, from the lowest address: for a channels-last tensor that is not the order of its indices, and the first
element of a tensor that runs backwards is not the first of the storage.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import address, to_host
from ...engine.aliasing import memory
from ...engine.tensor import Tensor
from .device import CPU


class Storage:
    """The memory that a tensor and its views share: its elements, or its bytes if it is untyped.

    It is for comparing and measuring; elements are changed through tensors.
    """

    def __init__(self, tensor: Tensor, typed: bool) -> None:
        self._owner = memory(tensor.array)
        self._element = self._owner.itemsize if typed else 1
        self.dtype = self._owner.dtype if typed else np.dtype(np.uint8)
        self.device = CPU

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return lowest(self._owner)

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._owner.nbytes

    def size(self) -> int:
        """The number of elements."""
        return self._owner.nbytes // self._element

    __len__ = size

    def element_size(self) -> int:
        """Bytes of an element."""
        return self._element

    def tolist(self) -> list[Any]:
        """The elements, in the order of memory."""
        found: list[Any] = to_host(self._owner, "the elements of a storage").ravel("K").view(self.dtype).tolist()
        return found

    def __getitem__(self, index: Any) -> Any:
        return self.tolist()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Storage) and (self.data_ptr(), self.dtype) == (other.data_ptr(), other.dtype)

    def __hash__(self) -> int:
        return hash(self.data_ptr())


def lowest(array: np.ndarray) -> int:
    """The lowest address of an element; that of the first one if no axis runs backwards."""
    back = [step * (extent - 1) for step, extent in zip(array.strides, array.shape, strict=True) if step < 0 < extent]
    return address(array) + sum(back)


def offset_of(array: np.ndarray) -> tuple[int, int]:
    """The position of the first element in the storage: in elements, and the bytes that remain."""
    return divmod(address(array) - lowest(memory(array)), array.itemsize)


def bytes_of(array: np.ndarray) -> np.ndarray | None:
    """All bytes of an array's storage as a vector that shares the memory; None if there are gaps between them."""
    owner = memory(array)
    order = sorted(range(owner.ndim), key=lambda axis: -abs(owner.strides[axis]))
    ahead = tuple([slice(None, None, -1 if owner.strides[axis] < 0 else 1) for axis in order])
    dense = owner.transpose(order)[ahead]
    return dense.reshape(-1).view(np.uint8) if dense.flags.c_contiguous else None
