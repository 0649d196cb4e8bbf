"""Layers that change the resolution of images, or split them into windows."""

from __future__ import annotations

from typing import Any

from ..engine.tensor import Tensor
from ..ops.pixels import channel_shuffle, pixel_shuffle, pixel_unshuffle
from ..ops.resampling import interpolate
from ..ops.windows import fold, unfold
from .module import Module

__all__ = [
    "ChannelShuffle",
    "Fold",
    "PixelShuffle",
    "PixelUnshuffle",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class Upsample(Module):
    """``functional.interpolate`` as a layer: x (N, C, *I) -> y (N, C, *O), O = size or floor(I * scale_factor).

    mode: "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic" or "area"; see there.

    Raises:
        ValueError: the options do not fit each other or the input.
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(
        self,
        size: int | tuple[int, ...] | None = None,
        scale_factor: float | tuple[float, ...] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        several = isinstance(scale_factor, (tuple, list))
        self.scale_factor: Any = tuple(map(float, scale_factor)) if several else scale_factor and float(scale_factor)  # type: ignore[arg-type]
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        size = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """``Upsample`` with mode="nearest": x (N, C, H, W).

    Raises:
        ValueError: not exactly one of size and scale_factor is given, or input has the wrong number of axes.
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(
        self,
        size: int | tuple[int, int] | None = None,
        scale_factor: float | tuple[float, float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """``Upsample`` with mode="bilinear" and align_corners=True: x (N, C, H, W).

    Raises:
        ValueError: not exactly one of size and scale_factor is given, or input has the wrong number of axes.
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(
        self,
        size: int | tuple[int, int] | None = None,
        scale_factor: float | tuple[float, float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class PixelShuffle(Module):
    """Moves channels into pixels: x (..., C*r*r, H, W) -> y (..., C, H*r, W*r), r = upscale_factor.

    Source: W. Shi et al., "Real-Time Single Image and Video Super-Resolution ...", 2016.

    Raises:
        ValueError: the number of channels is not a multiple of r*r.
        TypeError: input is not a Tensor.
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Moves pixels into channels: x (..., C, H*r, W*r) -> y (..., C*r*r, H, W), r = downscale_factor.

    Raises:
        ValueError: height or width is not a multiple of r.
        TypeError: input is not a Tensor.
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Interleaves the channels of ``groups`` contiguous groups: x (N, C, *I).

    Source: X. Zhang et al., "ShuffleNet", 2017.

    Raises:
        ValueError: the number of channels is not a multiple of groups.
        TypeError: input is not a Tensor.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class Unfold(Module):
    """The windows of an image as columns (im2col): x (N, C, H, W) -> y (N, C*R, L); see ``functional.unfold``.

    Raises:
        ValueError: a size is out of range, or no window fits.
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )


class Fold(Module):
    """The sum of columns, each a window of an image (col2im): x (N, C*R, L) -> y (N, C, *output_size); see
    ``functional.fold``.

    Raises:
        ValueError: the shape of input or a size does not fit.
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )
