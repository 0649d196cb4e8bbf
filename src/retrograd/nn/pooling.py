"""Pooling layers: one class for each kind of pooling, for any number of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine.tensor import Tensor
from ..ops.pooling import OutputSize, outputs, sizes
from ..specs.geometry import as_pairs, as_tuple
from .layer import OverAxes, layer
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]

Extents = int | Sequence[int]
Padding = int | Sequence[int] | Sequence[tuple[int, int]]


class _Pool(OverAxes, Module):
    """Base of pooling layers: checks the window's arguments and stores them unchanged."""

    kernel_size: Any
    stride: Any

    def _set_up(self) -> None:
        self._check("kernel_size", self.kernel_size)
        if self.stride is None:
            self.stride = self.kernel_size
        self._check("stride", self.stride)
        try:
            as_pairs(self.padding, self.ndim)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{type(self).__name__}: {error}") from None

    def _check(self, argument: str, value: Extents) -> None:
        as_tuple(value, self.ndim, f"{type(self).__name__}: {argument}", at_least=1)


@layer
class _MaxPool(_Pool):
    """``functional.max_pool{n}d`` as a layer: x (N, C, {extents}).

    {functional.max_pool{n}d}
    """

    kernel_size: Extents
    stride: Extents | None = None
    padding: Padding = 0
    dilation: Extents = 1
    return_indices: bool = False
    ceil_mode: bool = False

    operator = "max_pool{n}d"
    _shown = "kernel_size", "stride", "padding", "dilation", "ceil_mode"

    def _set_up(self) -> None:
        super()._set_up()
        self._check("dilation", self.dilation)

    def forward(self, input: Tensor) -> Any:
        return self.run(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


@layer
class _AvgPool(_Pool):
    """``functional.avg_pool{n}d`` as a layer: x (N, C, {extents}).

    {functional.avg_pool{n}d}
    """

    kernel_size: Extents
    stride: Extents | None = None
    padding: Padding = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None

    operator = "avg_pool{n}d"
    _shown = "kernel_size", "stride", "padding"

    def forward(self, input: Tensor) -> Tensor:
        divisor = () if self.ndim == 1 else (self.divisor_override,)
        return self.run(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, *divisor
        )


class AvgPool1d(_AvgPool, ndim=1):
    def __init__(
        self,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        for name in self._shown:  # as in PyTorch, this class alone stores tuples
            value = getattr(self, name)
            setattr(self, name, (value,) if isinstance(value, int) else value)


@layer
class _LPPool(_Pool):
    """``functional.lp_pool{n}d`` as a layer: x (N, C, {extents}).

    {functional.lp_pool{n}d}
    """

    norm_type: float
    kernel_size: Extents
    stride: Extents | None = None
    ceil_mode: bool = False

    operator = "lp_pool{n}d"

    def _set_up(self) -> None:
        self._check("kernel_size", self.kernel_size)
        if self.stride is not None:
            self._check("stride", self.stride)

    def forward(self, input: Tensor) -> Tensor:
        return self.run(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


@layer
class _AdaptiveAvgPool(OverAxes, Module):
    """``functional.adaptive_avg_pool{n}d`` as a layer: x (N, C, {extents}).

    {functional.adaptive_avg_pool{n}d}
    """

    output_size: OutputSize

    operator = "adaptive_avg_pool{n}d"
    _shown = ("output_size",)

    def _set_up(self) -> None:
        outputs(type(self).__name__, self.ndim, None, self.output_size)

    def forward(self, input: Tensor) -> Tensor:
        return self.run(input, self.output_size)


@layer
class _AdaptiveMaxPool(_AdaptiveAvgPool):
    """``functional.adaptive_max_pool{n}d`` as a layer: x (N, C, {extents}).

    {functional.adaptive_max_pool{n}d}
    """

    return_indices: bool = False

    operator = "adaptive_max_pool{n}d"

    def forward(self, input: Tensor) -> Any:
        return self.run(input, self.output_size, self.return_indices)


@layer
class _FractionalMaxPool(OverAxes, Module):
    """``functional.fractional_max_pool{n}d`` as a layer: x (N, C, {extents}).

    ``_random_samples`` becomes a buffer: the windows are then the same at every call.

    {functional.fractional_max_pool{n}d}
    """

    kernel_size: Extents
    output_size: Extents | None = None
    output_ratio: float | Sequence[float] | None = None
    return_indices: bool = False
    _random_samples: Tensor | None = None

    operator = "fractional_max_pool{n}d"
    _shown = ()

    def _set_up(self) -> None:
        sizes(type(self).__name__, self.ndim, None, self.kernel_size, self.output_size, self.output_ratio)
        for name in ("kernel_size", "output_size", "output_ratio"):
            value: Any = getattr(self, name)
            if value is not None:
                setattr(self, name, tuple(value) if isinstance(value, (tuple, list)) else (value,) * self.ndim)

    def forward(self, input: Tensor) -> Any:
        return self.run(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


@layer
class _MaxUnpool(OverAxes, Module):
    """``functional.max_unpool{n}d`` as a layer: input (N, C, {extents}), indices and, optionally, output_size.

    {functional.max_unpool{n}d}
    """

    kernel_size: Extents
    stride: Extents | None = None
    padding: Extents = 0

    operator = "max_unpool{n}d"

    def _set_up(self) -> None:
        name = type(self).__name__
        self.kernel_size = as_tuple(self.kernel_size, self.ndim, f"{name}: kernel_size", at_least=1)
        step = self.kernel_size if self.stride is None else self.stride
        self.stride = as_tuple(step, self.ndim, f"{name}: stride", at_least=1)
        self.padding = as_tuple(self.padding, self.ndim, f"{name}: padding", at_least=0)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return self.run(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxPool1d(_MaxPool, ndim=1):
    """``functional.max_pool1d`` as a layer: x (N, C, I)."""


class MaxPool2d(_MaxPool, ndim=2):
    """``functional.max_pool2d`` as a layer: x (N, C, H, W)."""


class MaxPool3d(_MaxPool, ndim=3):
    """``functional.max_pool3d`` as a layer: x (N, C, D, H, W)."""


class AvgPool2d(_AvgPool, ndim=2):
    """``functional.avg_pool2d`` as a layer: x (N, C, H, W)."""


class AvgPool3d(_AvgPool, ndim=3):
    """``functional.avg_pool3d`` as a layer: x (N, C, D, H, W)."""


class LPPool1d(_LPPool, ndim=1):
    """``functional.lp_pool1d`` as a layer: x (N, C, I)."""


class LPPool2d(_LPPool, ndim=2):
    """``functional.lp_pool2d`` as a layer: x (N, C, H, W)."""


class LPPool3d(_LPPool, ndim=3):
    """``functional.lp_pool3d`` as a layer: x (N, C, D, H, W)."""


class AdaptiveAvgPool1d(_AdaptiveAvgPool, ndim=1):
    """``functional.adaptive_avg_pool1d`` as a layer: x (N, C, I)."""


class AdaptiveAvgPool2d(_AdaptiveAvgPool, ndim=2):
    """``functional.adaptive_avg_pool2d`` as a layer: x (N, C, H, W)."""


class AdaptiveAvgPool3d(_AdaptiveAvgPool, ndim=3):
    """``functional.adaptive_avg_pool3d`` as a layer: x (N, C, D, H, W)."""


class AdaptiveMaxPool1d(_AdaptiveMaxPool, ndim=1):
    """``functional.adaptive_max_pool1d`` as a layer: x (N, C, I)."""


class AdaptiveMaxPool2d(_AdaptiveMaxPool, ndim=2):
    """``functional.adaptive_max_pool2d`` as a layer: x (N, C, H, W)."""


class AdaptiveMaxPool3d(_AdaptiveMaxPool, ndim=3):
    """``functional.adaptive_max_pool3d`` as a layer: x (N, C, D, H, W)."""


class FractionalMaxPool2d(_FractionalMaxPool, ndim=2):
    """``functional.fractional_max_pool2d`` as a layer: x (N, C, H, W)."""


class FractionalMaxPool3d(_FractionalMaxPool, ndim=3):
    """``functional.fractional_max_pool3d`` as a layer: x (N, C, D, H, W)."""


class MaxUnpool1d(_MaxUnpool, ndim=1):
    """``functional.max_unpool1d`` as a layer: input (N, C, I), indices and, optionally, output_size."""


class MaxUnpool2d(_MaxUnpool, ndim=2):
    """``functional.max_unpool2d`` as a layer: input (N, C, H, W), indices and, optionally, output_size."""


class MaxUnpool3d(_MaxUnpool, ndim=3):
    """``functional.max_unpool3d`` as a layer: input (N, C, D, H, W), indices and, optionally, output_size."""
