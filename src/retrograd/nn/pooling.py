"""Pooling layers: one class for each kind of pooling, for any number of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..engine.tensor import Tensor
from ..geometry import as_pairs, as_tuple
from ..ops.adaptive_pooling import OutputSize, adaptive_avg_pool_nd, adaptive_max_pool_nd, outputs
from ..ops.lp_pooling import lp_pool_nd
from ..ops.pooling import avg_pool_nd, max_pool_nd
from ..ops.unpooling import max_unpool_nd
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip

Extents = int | Sequence[int]
Padding = int | Sequence[int] | Sequence[tuple[int, int]]


class _Pool(Module):
    """The window's arguments, checked but stored unchanged."""

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
    """y[o] = max over taps r of x[o*s + r*d - padding]; padding is never the maximum, NaN always is.

    x (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O); with return_indices (y, indices), where indices are
    the flat positions in *I of the maxima, the first of equal ones.
    O = (I + padding on both sides - d*(R-1) - 1) // s + 1, or rounded up with ceil_mode.

    kernel_size, stride (default kernel_size), dilation: an int for all axes or one per axis.
    padding: the same, or a pair (low, high) per axis; at most half of the kernel.

    Raises:
        ValueError: an argument is out of range, or the shape of input does not fit.
        TypeError: input is not a floating-point Tensor.
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
    count_include_pad: include padding in the count of the mean. divisor_override: divide by this instead of the count.

    Raises:
        ValueError: an argument is out of range, or the shape of input does not fit.
        TypeError: input is not a floating-point Tensor.
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

    def __init__(
        self, kernel_size: Extents, stride: Extents | None = None, padding: Padding = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        one = self.kernel_size, self.stride, self.padding  # as in PyTorch, this class alone stores tuples
        self.kernel_size, self.stride, self.padding = ((v,) if isinstance(v, int) else v for v in one)


class AvgPool2d(_AvgPool):
    __doc__ = f"Average pooling over two axes: x (N, C, H, W).\n\n    {_AvgPool.__doc__}"
    ndim, operator = 2, "avg_pool2d"


class AvgPool3d(_AvgPool):
    __doc__ = f"Average pooling over three axes: x (N, C, D, H, W).\n\n    {_AvgPool.__doc__}"
    ndim, operator = 3, "avg_pool3d"


class _LPPool(Module):
    """y[o] = (sum over taps r of x[o*s + r]**p) ** (1/p), p = norm_type; infinity gives the largest |x|.

    x (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O)
    O = (I - R) // s + 1, or rounded up with ceil_mode.

    kernel_size, stride (default kernel_size): an int for all axes or one per axis.

    Raises:
        ValueError: an argument is out of range, or the shape of input does not fit.
        TypeError: input is not a floating-point Tensor.
    """

    ndim: ClassVar[int]
    operator: ClassVar[str]

    def __init__(
        self, norm_type: float, kernel_size: Extents, stride: Extents | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        as_tuple(kernel_size, self.ndim, f"{type(self).__name__}: kernel_size", at_least=1)
        if stride is not None:
            as_tuple(stride, self.ndim, f"{type(self).__name__}: stride", at_least=1)
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        size: Any = self.kernel_size
        step: Any = self.stride
        return lp_pool_nd(self.operator, self.ndim, input, self.norm_type, size, step, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    __doc__ = f"Power-average pooling over one axis: x (N, C, I).\n\n    {_LPPool.__doc__}"
    ndim, operator = 1, "lp_pool1d"


class LPPool2d(_LPPool):
    __doc__ = f"Power-average pooling over two axes: x (N, C, H, W).\n\n    {_LPPool.__doc__}"
    ndim, operator = 2, "lp_pool2d"


class LPPool3d(_LPPool):
    __doc__ = f"Power-average pooling over three axes: x (N, C, D, H, W).\n\n    {_LPPool.__doc__}"
    ndim, operator = 3, "lp_pool3d"


class _AdaptivePool(Module):
    """output_size, checked but stored unchanged."""

    ndim: ClassVar[int]
    operator: ClassVar[str]

    def __init__(self, output_size: OutputSize) -> None:
        super().__init__()
        outputs(type(self).__name__, self.ndim, None, output_size)
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveAvgPool(_AdaptivePool):
    """y[o] = mean of x[i] over floor(o*I/O) <= i < ceil((o + 1)*I/O).

    x (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O)

    output_size: O for all axes or one per axis; None means I.

    Raises:
        ValueError: output_size is out of range, or the shape of input does not fit.
        TypeError: input is not a floating-point Tensor, or output_size holds anything but integers and None.
    """

    def forward(self, input: Tensor) -> Tensor:
        return adaptive_avg_pool_nd(self.operator, self.ndim, input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    __doc__ = f"Average pooling to a fixed size over one axis: x (N, C, I).\n\n    {_AdaptiveAvgPool.__doc__}"
    ndim, operator = 1, "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    __doc__ = f"Average pooling to a fixed size over two axes: x (N, C, H, W).\n\n    {_AdaptiveAvgPool.__doc__}"
    ndim, operator = 2, "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    __doc__ = f"Average pooling to a fixed size over three axes: x (N, C, D, H, W).\n\n    {_AdaptiveAvgPool.__doc__}"
    ndim, operator = 3, "adaptive_avg_pool3d"


class _AdaptiveMaxPool(_AdaptivePool):
    """y[o] = max of x[i] over floor(o*I/O) <= i < ceil((o + 1)*I/O).

    x (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O); with return_indices (y, indices), as MaxPool

    output_size: O for all axes or one per axis; None means I.

    Raises:
        ValueError: output_size is out of range, or the shape of input does not fit.
        TypeError: input is not a floating-point Tensor, or output_size holds anything but integers and None.
    """

    def __init__(self, output_size: OutputSize, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return adaptive_max_pool_nd(self.operator, self.ndim, input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    __doc__ = f"Maximum pooling to a fixed size over one axis: x (N, C, I).\n\n    {_AdaptiveMaxPool.__doc__}"
    ndim, operator = 1, "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    __doc__ = f"Maximum pooling to a fixed size over two axes: x (N, C, H, W).\n\n    {_AdaptiveMaxPool.__doc__}"
    ndim, operator = 2, "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    __doc__ = f"Maximum pooling to a fixed size over three axes: x (N, C, D, H, W).\n\n    {_AdaptiveMaxPool.__doc__}"
    ndim, operator = 3, "adaptive_max_pool3d"


class _MaxUnpool(Module):
    """Puts the maxima of a MaxPool with return_indices back in their positions, with zeros elsewhere.

    x, indices (N, C, *O) or (C, *O) -> y (N, C, *I) or (C, *I), I = (O - 1)*stride + kernel_size - 2*padding

    kernel_size, stride (default kernel_size), padding: an int for all axes or one per axis, as for the pooling.
    output_size (of forward): another I, less than a stride away.

    Raises:
        ValueError: an argument is out of range, or shapes or indices do not fit.
        TypeError: input is not a floating-point Tensor or indices is not an int64 Tensor.
    """

    ndim: ClassVar[int]
    operator: ClassVar[str]

    def __init__(self, kernel_size: Extents, stride: Extents | None = None, padding: Extents = 0) -> None:
        super().__init__()
        layer = type(self).__name__
        self.kernel_size = as_tuple(kernel_size, self.ndim, f"{layer}: kernel_size", at_least=1)
        step = kernel_size if stride is None else stride
        self.stride = as_tuple(step, self.ndim, f"{layer}: stride", at_least=1)
        self.padding = as_tuple(padding, self.ndim, f"{layer}: padding", at_least=0)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        window = self.kernel_size, self.stride, self.padding
        return max_unpool_nd(self.operator, self.ndim, input, indices, *window, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    __doc__ = f"The partial inverse of maximum pooling over one axis: x (N, C, I).\n\n    {_MaxUnpool.__doc__}"
    ndim, operator = 1, "max_unpool1d"


class MaxUnpool2d(_MaxUnpool):
    __doc__ = f"The partial inverse of maximum pooling over two axes: x (N, C, H, W).\n\n    {_MaxUnpool.__doc__}"
    ndim, operator = 2, "max_unpool2d"


class MaxUnpool3d(_MaxUnpool):
    __doc__ = f"The partial inverse of maximum pooling over three axes: x (N, C, D, H, W).\n\n    {_MaxUnpool.__doc__}"
    ndim, operator = 3, "max_unpool3d"
