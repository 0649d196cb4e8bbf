"""Pooling layers: one class each for maximum and mean, for all numbers of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..engine.tensor import Tensor
from ..geometry import as_pairs, as_tuple
from ..ops.pooling import avg_pool_nd, max_pool_nd
from .module import Module

__all__ = ["AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d"]

Extents = int | Sequence[int]
Padding = int | Sequence[int] | Sequence[tuple[int, int]]


class _Pool(Module):
    """The window's arguments, checked and kept as they were given."""

    ndim: ClassVar[int]
    operator: ClassVar[str]

    def __init__(
        self, kernel_size: Extents, stride: Extents | None, padding: Padding, ceil_mode: bool
    ) -> None:
        super().__init__()
        self.kernel_size = self._checked("kernel_size", kernel_size)
        self.stride = self.kernel_size if stride is None else self._checked("stride", stride)
        as_pairs(padding, self.ndim)
        self.padding: Any = padding
        self.ceil_mode = ceil_mode

    def _checked(self, argument: str, value: Extents) -> Any:
        as_tuple(value, self.ndim, f"{type(self).__name__}: {argument}", at_least=1)
        return value


class _MaxPool(_Pool):
    """y[o] = max over taps r of x[o*s + r*d - padding]; padding is never chosen, NaN always.

    x (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O); with return_indices (y, indices), where indices are
    the flat positions in *I of the maxima, of equal ones the first.
    O = (I + padding on both sides - d*(R-1) - 1) // s + 1, or rounded up with ceil_mode.

    kernel_size, stride (default kernel_size), dilation: an int for all axes or one per axis.
    padding: the same, or a pair (low, high) per axis; at most half of the kernel.

    Raises:
        ValueError: an argument is out of range, or x does not fit.
        TypeError: x is no floating point Tensor.
    """

    def __init__(
        self,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Padding = 0,
        dilation: Extents = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.dilation = self._checked("dilation", dilation)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return max_pool_nd(
            self.operator,
            self.ndim,
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    __doc__ = f"Maximum pooling over one axis: x (N, C, I).\n\n    {_MaxPool.__doc__}"
    ndim, operator = 1, "max_pool1d"


class MaxPool2d(_MaxPool):
    __doc__ = f"Maximum pooling over two axes: x (N, C, H, W).\n\n    {_MaxPool.__doc__}"
    ndim, operator = 2, "max_pool2d"


class MaxPool3d(_MaxPool):
    __doc__ = f"Maximum pooling over three axes: x (N, C, D, H, W).\n\n    {_MaxPool.__doc__}"
    ndim, operator = 3, "max_pool3d"


class _AvgPool(_Pool):
    """y[o] = mean over taps r of x[o*s + r - padding].

    x (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O)
    O = (I + padding on both sides - R) // s + 1, or rounded up with ceil_mode.

    kernel_size, stride (default kernel_size): an int for all axes or one per axis.
    padding: the same, or a pair (low, high) per axis; at most half of the kernel.
    count_include_pad: padding counts in the mean. divisor_override: divide by this instead of the count.

    Raises:
        ValueError: an argument is out of range, or x does not fit.
        TypeError: x is no floating point Tensor.
    """

    def __init__(
        self,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return avg_pool_nd(
            self.operator,
            self.ndim,
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    __doc__ = f"Average pooling over one axis: x (N, C, I).\n\n    {_AvgPool.__doc__}"
    ndim, operator = 1, "avg_pool1d"


class AvgPool2d(_AvgPool):
    __doc__ = f"Average pooling over two axes: x (N, C, H, W).\n\n    {_AvgPool.__doc__}"
    ndim, operator = 2, "avg_pool2d"


class AvgPool3d(_AvgPool):
    __doc__ = f"Average pooling over three axes: x (N, C, D, H, W).\n\n    {_AvgPool.__doc__}"
    ndim, operator = 3, "avg_pool3d"
