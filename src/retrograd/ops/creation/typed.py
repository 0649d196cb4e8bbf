"""PyTorch's older constructors: ``FloatTensor(2, 3)``, ``LongTensor([1, 2])`` and their like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...arrays import empty
from ...engine.dtype import as_allowed_array
from ...engine.tensor import Size, Tensor, wrap
from ..dtypes.conversion import TENSOR_TYPES, on_device
from ..dtypes.dtype import converted
from ..memory.device import as_any_device
from .creation import zeros

__all__ = [
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]


class _Kind(type):
    """The class of these classes: a call of one makes a Tensor, and tensors of its type are its instances."""

    dtype: np.dtype[Any]

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> _Kind:
        kind = super().__new__(cls, name, bases, members)
        if name in TENSOR_TYPES:
            kind.dtype = TENSOR_TYPES[name]
            kind.__doc__ = _DOC.format(kind.dtype)
        return kind

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.array.dtype is cls.dtype

    def __call__(cls, *data: Any, device: Any = None) -> Tensor:
        return made(cls.__name__, cls.dtype, data, device)


def made(name: str, dtype: np.dtype[Any], data: tuple[Any, ...], device: Any) -> Tensor:
    """A Tensor of ``dtype`` from extents, or one sequence, array or Tensor; messages begin with ``name``."""
    found = _from(name, dtype, data)
    return found if device is None else on_device(found, as_any_device(name, device))


def _from(name: str, dtype: np.dtype[Any], data: tuple[Any, ...]) -> Tensor:
    if not data:
        return wrap(empty(0, dtype))
    if len(data) > 1 or isinstance(data[0], (int, np.integer, Size)):
        return zeros(*data, dtype=dtype)
    if isinstance(data[0], Tensor):
        if data[0].array.dtype is not dtype:
            raise TypeError(f"{name}: data is {data[0].array.dtype}; convert it with .to(retrograd.{dtype})")
        return data[0].view_as(data[0])
    if isinstance(data[0], np.ndarray):
        return wrap(converted(as_allowed_array(data[0], None), dtype))
    if isinstance(data[0], str) or not hasattr(data[0], "__len__"):
        raise TypeError(f"{name}: data is {type(data[0]).__name__}, needs ints, a sequence, an array or a Tensor")
    return wrap(as_allowed_array(data[0], dtype))


_DOC = """A Tensor of {}: zeros of the extents given, or a copy of a sequence or an array.

A Tensor of this type is returned as another one of the same memory and history.

    Raises:
        TypeError: data is neither, or a Tensor of another type.
        ValueError: an extent is negative, or a number does not fit.
"""

if TYPE_CHECKING:

    class _Typed(Tensor):
        dtype: ClassVar[np.dtype[Any]]

        def __init__(self, *data: Any, device: Any = None) -> None: ...

else:

    class _Typed(metaclass=_Kind):
        pass


class BoolTensor(_Typed): ...


class ByteTensor(_Typed): ...


class CharTensor(_Typed): ...


class DoubleTensor(_Typed): ...


class FloatTensor(_Typed): ...


class HalfTensor(_Typed): ...


class IntTensor(_Typed): ...


class LongTensor(_Typed): ...


class ShortTensor(_Typed): ...
