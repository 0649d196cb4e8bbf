"""Padding layers: ``functional.pad`` over the last 1, 2 or 3 axes."""

from __future__ import annotations

import operator
from typing import Any, ClassVar

from ..engine.tensor import Tensor
from ..ops.argument_checks import require_tensor
from ..ops.shape.padding import pad
from .layer import OverAxes
from .module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Padding(OverAxes, Module):
    """{fills} beyond the ends of {axes}: x (N, C, {extents}) or without N.

    padding: an int for all sides, or (before, after) of the last axis, then of the one before it, ...; negative numbers
        crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes or is too short.
        TypeError: input is not a Tensor.
    """

    _fills: ClassVar[str]
    mode: ClassVar[str] = "constant"
    value: float | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_fills" in vars(cls):
            cls.__doc__ = (_Padding.__doc__ or "").replace("{fills}", cls._fills)

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        count = 2 * self.ndim
        try:
            numbers = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * count
            numbers = tuple(map(operator.index, numbers))
        except TypeError:
            numbers = ()
        if len(numbers) != count:
            raise ValueError(f"{type(self).__name__}: padding={padding!r} must be an int or {count} ints")
        self.padding = numbers

    def forward(self, input: Tensor) -> Tensor:
        require_tensor(type(self).__name__, input)
        if input.array.ndim not in (self.ndim + 1, self.ndim + 2):
            raise ValueError(
                f"{type(self).__name__}: input has {input.array.ndim} axes, needs {self.ndim + 1} or {self.ndim + 2}; "
                f"input.shape={input.array.shape}"
            )
        return pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return str(self.padding)


class _Constant(_Padding):
    _fills = "Fills with ``value``"

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value: float = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _Zero(_Padding):
    _fills = "Fills with 0"


class _Reflection(_Padding):
    _fills = "Mirrors at the first and the last element"
    mode: ClassVar[str] = "reflect"


class _Replication(_Padding):
    _fills = "Repeats the first and the last element"
    mode: ClassVar[str] = "replicate"


class _Circular(_Padding):
    _fills = "Wraps around"
    mode: ClassVar[str] = "circular"


class ConstantPad1d(_Constant, ndim=1):
    """Fills with ``value`` beyond the ends of one axis: x (N, C, I) or without N."""


class ConstantPad2d(_Constant, ndim=2):
    """Fills with ``value`` beyond the ends of two axes: x (N, C, H, W) or without N."""


class ConstantPad3d(_Constant, ndim=3):
    """Fills with ``value`` beyond the ends of three axes: x (N, C, D, H, W) or without N."""


class ZeroPad1d(_Zero, ndim=1):
    """Fills with 0 beyond the ends of one axis: x (N, C, I) or without N."""


class ZeroPad2d(_Zero, ndim=2):
    """Fills with 0 beyond the ends of two axes: x (N, C, H, W) or without N."""


class ZeroPad3d(_Zero, ndim=3):
    """Fills with 0 beyond the ends of three axes: x (N, C, D, H, W) or without N."""


class ReflectionPad1d(_Reflection, ndim=1):
    """Mirrors at the first and the last element beyond the ends of one axis: x (N, C, I) or without N."""


class ReflectionPad2d(_Reflection, ndim=2):
    """Mirrors at the first and the last element beyond the ends of two axes: x (N, C, H, W) or without N."""


class ReflectionPad3d(_Reflection, ndim=3):
    """Mirrors at the first and the last element beyond the ends of three axes: x (N, C, D, H, W) or without N."""


class ReplicationPad1d(_Replication, ndim=1):
    """Repeats the first and the last element beyond the ends of one axis: x (N, C, I) or without N."""


class ReplicationPad2d(_Replication, ndim=2):
    """Repeats the first and the last element beyond the ends of two axes: x (N, C, H, W) or without N."""


class ReplicationPad3d(_Replication, ndim=3):
    """Repeats the first and the last element beyond the ends of three axes: x (N, C, D, H, W) or without N."""


class CircularPad1d(_Circular, ndim=1):
    """Wraps around beyond the ends of one axis: x (N, C, I) or without N."""


class CircularPad2d(_Circular, ndim=2):
    """Wraps around beyond the ends of two axes: x (N, C, H, W) or without N."""


class CircularPad3d(_Circular, ndim=3):
    """Wraps around beyond the ends of three axes: x (N, C, D, H, W) or without N."""
