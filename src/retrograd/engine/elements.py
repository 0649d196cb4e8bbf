"""Conversions of a tensor to Python and NumPy: its length, and its elements as an array, lists or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import number, to_host
from .arguments import as_flag
from .convert import INT64, Attached
from .operator import interpreted, interpreters, operator
from .size import Size


class Elements(Attached):
    """Base of Tensor, which has the array and says whether it requires a gradient."""

    __slots__ = ()

    array: np.ndarray
    _requires_grad: bool

    @property
    def shape(self) -> Size:
        return Size(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def ndim(self) -> int:
        return self.array.ndim

    def dim(self) -> int:
        """The number of axes."""
        return self.array.ndim

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the extent of one axis.

        Raises:
            IndexError: `dim` is out of range.
        """
        shape = self.array.shape
        if dim is None:
            return Size(shape)
        try:
            inside = -len(shape) <= dim < len(shape)
        except TypeError:
            raise TypeError(f"size: dim={dim!r} must be an int, not {type(dim).__name__}") from None
        if not inside:
            raise IndexError(f"size: dim is {dim}, expected {-len(shape)} to {len(shape) - 1} for shape {shape}")
        return shape[dim]

    def numel(self) -> int:
        """The number of elements."""
        return self.array.size

    @operator(dtypes="bihf")
    def item(self) -> Any:
        """The only element as a Python number.

        Raises:
            RuntimeError: the tensor does not have exactly one element.
        """
        if interpreters and (seen := interpreted(Elements.item, locals())) is not None:
            return seen
        if self.array.size != 1:
            raise RuntimeError(
                f"a tensor of shape {self.array.shape} has {self.array.size} elements, expected exactly 1"
            )
        return number(self.array, "the element of a tensor")

    @operator(dtypes="bihf")
    def tolist(self) -> Any:
        """The elements as nested Python lists (a number for a tensor without axes)."""
        if interpreters and (seen := interpreted(Elements.tolist, locals())) is not None:
            return seen
        return to_host(self.array, "the elements of a tensor").tolist()

    @operator(dtypes="bihf")
    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The array, shared with the tensor.

        Raises:
            RuntimeError: the tensor requires a gradient, which the array could not carry, and ``force`` is not True.
        """
        if interpreters and (seen := interpreted(Elements.numpy, locals())) is not None:
            return seen
        if force is not False:
            force = as_flag("numpy", "force", force)
        if self._requires_grad and not force:
            raise RuntimeError(
                "numpy: the tensor requires grad and an array would leave the graph unnoticed; "
                "use tensor.detach().numpy(), or tensor.array"
            )
        return self.array

    @operator(dtypes="bihf")
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if interpreters and (seen := interpreted(Elements.__array__, locals())) is not None:
            return seen
        if self._requires_grad:
            raise RuntimeError(
                "numpy cannot take a tensor that requires grad: the result would leave the graph unnoticed; "
                "use tensor.detach() first"
            )
        if copy:
            return to_host(self.array, "an array of NumPy").astype(self.array.dtype if dtype is None else dtype)
        if dtype is None or self.array.dtype == dtype:
            return self.array
        if copy is False:
            raise ValueError(f"__array__: copy=False, but {self.array.dtype} cannot become {np.dtype(dtype)} in place")
        return to_host(self.array, "an array of NumPy").astype(dtype)

    def __len__(self) -> int:
        if not self.array.ndim:
            raise TypeError("len() of a tensor without axes")
        return self.array.shape[0]

    @operator(dtypes="bihf")
    def __float__(self) -> float:
        if interpreters and (seen := interpreted(Elements.__float__, locals())) is not None:
            return seen
        return float(self.item())

    @operator(dtypes="bihf")
    def __int__(self) -> int:
        if interpreters and (seen := interpreted(Elements.__int__, locals())) is not None:
            return seen
        return int(self.item())

    @operator(dtypes="bihf")
    def __bool__(self) -> bool:
        if interpreters and (seen := interpreted(Elements.__bool__, locals())) is not None:
            return seen
        if self.array.size != 1:
            raise RuntimeError(
                f"bool() of a tensor of shape {self.array.shape} is ambiguous; use (tensor.array != 0).any() or .all()"
            )
        return bool(number(self.array, "whether a tensor is true"))

    @operator(dtypes="bihf")
    def __index__(self) -> int:
        if interpreters and (seen := interpreted(Elements.__index__, locals())) is not None:
            return seen
        if self.array.dtype is not INT64 or self.array.size != 1:
            raise TypeError(
                f"only an int64 tensor with one element can be an index, got {self.array.dtype} of shape "
                f"{self.array.shape}"
            )
        return int(number(self.array, "a tensor as an index"))

    def __format__(self, spec: str) -> str:
        if spec and self.array.size == 1:
            return format(number(self.array, "a tensor as text"), spec)
        if spec:
            raise TypeError(
                f"format {spec!r} needs a tensor with one element, got shape {self.array.shape}; "
                "use tensor.item() or format the array"
            )
        return str(self)
