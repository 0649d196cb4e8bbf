"""Padding layers: ``functional.pad`` over the last 1, 2 or 3 axes."""

from __future__ import annotations

import operator

from ..engine.tensor import Tensor
from ..ops.dtype import require_tensor
from ..ops.padding import pad
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


class _Padding(Module):
    """padding: one int for all sides, or (before, after) of the last axis, then of the second to last, ..."""

    axes = 1
    mode = "constant"

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        wanted = 2 * self.axes
        try:
            numbers = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * wanted
            numbers = tuple(map(operator.index, numbers))
        except TypeError:
            numbers = ()
        if len(numbers) != wanted:
            raise ValueError(f"{type(self).__name__}: padding={padding!r} must be an int or {wanted} ints")
        self.padding = numbers

    def forward(self, input: Tensor) -> Tensor:
        require_tensor(type(self).__name__, input)
        if input.array.ndim not in (self.axes + 1, self.axes + 2):
            raise ValueError(
                f"{type(self).__name__}: input has {input.array.ndim} axes, needs {self.axes + 1} or {self.axes + 2}; "
                f"input.shape={input.array.shape}"
            )
        return self.padded(input)

    def padded(self, input: Tensor) -> Tensor:
        """The padded input."""
        return pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return str(self.padding)


class _Constant(_Padding):
    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def padded(self, input: Tensor) -> Tensor:
        return pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_Constant):
    """Fills with ``value`` beyond the last axis: x (N, C, W) or without N.

    padding: an int for all sides, or (left, right); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes.
        TypeError: input is not a Tensor.
    """


class ConstantPad2d(_Constant):
    """Fills with ``value`` beyond each of the last 2 axes: x (N, C, H, W) or without N.

    padding: an int for all sides, or (left, right, top, bottom); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes.
        TypeError: input is not a Tensor.
    """

    axes = 2


class ConstantPad3d(_Constant):
    """Fills with ``value`` beyond each of the last 3 axes: x (N, C, D, H, W) or without N.

    padding: an int for all sides, or (left, right, top, bottom, front, back); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes.
        TypeError: input is not a Tensor.
    """

    axes = 3


class ZeroPad1d(_Padding):
    """Fills with 0 beyond the last axis: x (N, C, W) or without N.

    padding: an int for all sides, or (left, right); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes.
        TypeError: input is not a Tensor.
    """


class ZeroPad2d(_Padding):
    """Fills with 0 beyond each of the last 2 axes: x (N, C, H, W) or without N.

    padding: an int for all sides, or (left, right, top, bottom); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes.
        TypeError: input is not a Tensor.
    """

    axes = 2


class ZeroPad3d(_Padding):
    """Fills with 0 beyond each of the last 3 axes: x (N, C, D, H, W) or without N.

    padding: an int for all sides, or (left, right, top, bottom, front, back); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes.
        TypeError: input is not a Tensor.
    """

    axes = 3


class ReflectionPad1d(_Padding):
    """Mirrors at the first and the last element beyond the last axis: x (N, C, W) or without N.

    padding: an int for all sides, or (left, right); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes or is too short.
        TypeError: input is not a Tensor.
    """

    mode = "reflect"


class ReflectionPad2d(_Padding):
    """Mirrors at the first and the last element beyond each of the last 2 axes: x (N, C, H, W) or without N.

    padding: an int for all sides, or (left, right, top, bottom); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes or is too short.
        TypeError: input is not a Tensor.
    """

    axes = 2
    mode = "reflect"


class ReflectionPad3d(_Padding):
    """Mirrors at the first and the last element beyond each of the last 3 axes: x (N, C, D, H, W) or without N.

    padding: an int for all sides, or (left, right, top, bottom, front, back); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes or is too short.
        TypeError: input is not a Tensor.
    """

    axes = 3
    mode = "reflect"


class ReplicationPad1d(_Padding):
    """Repeats the first and the last element beyond the last axis: x (N, C, W) or without N.

    padding: an int for all sides, or (left, right); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes or is too short.
        TypeError: input is not a Tensor.
    """

    mode = "replicate"


class ReplicationPad2d(_Padding):
    """Repeats the first and the last element beyond each of the last 2 axes: x (N, C, H, W) or without N.

    padding: an int for all sides, or (left, right, top, bottom); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes or is too short.
        TypeError: input is not a Tensor.
    """

    axes = 2
    mode = "replicate"


class ReplicationPad3d(_Padding):
    """Repeats the first and the last element beyond each of the last 3 axes: x (N, C, D, H, W) or without N.

    padding: an int for all sides, or (left, right, top, bottom, front, back); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes or is too short.
        TypeError: input is not a Tensor.
    """

    axes = 3
    mode = "replicate"


class CircularPad1d(_Padding):
    """Wraps around beyond the last axis: x (N, C, W) or without N.

    padding: an int for all sides, or (left, right); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes or is too short.
        TypeError: input is not a Tensor.
    """

    mode = "circular"


class CircularPad2d(_Padding):
    """Wraps around beyond each of the last 2 axes: x (N, C, H, W) or without N.

    padding: an int for all sides, or (left, right, top, bottom); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes or is too short.
        TypeError: input is not a Tensor.
    """

    axes = 2
    mode = "circular"


class CircularPad3d(_Padding):
    """Wraps around beyond each of the last 3 axes: x (N, C, D, H, W) or without N.

    padding: an int for all sides, or (left, right, top, bottom, front, back); negative numbers crop.

    Raises:
        ValueError: padding is invalid, or input has the wrong number of axes or is too short.
        TypeError: input is not a Tensor.
    """

    axes = 3
    mode = "circular"
