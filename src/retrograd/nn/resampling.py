"""Layers that change the resolution of images, or split them into windows."""

from __future__ import annotations

from ..engine.tensor import Tensor
from ..ops.argument_checks import as_real
from ..ops.resampling import interpolate
from ..ops.shape.rearrange import channel_shuffle, pixel_shuffle, pixel_unshuffle
from ..ops.shape.shape import Sizes
from ..ops.shape.sliding_windows import fold, unfold
from .layer import Described, layer
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


@layer
class Upsample(Module):
    """``functional.interpolate`` as a layer: x (N, C, *I) -> y (N, C, *O), O = size or floor(I * scale_factor).

    mode: "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic" or "area"; see ``interpolate``.

    Raises:
        ValueError: the options do not fit each other or the input.
        TypeError: input is not a floating-point Tensor.
    """

    size: int | tuple[int, ...] | None = None
    scale_factor: float | tuple[float, ...] | None = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None

    def _set_up(self) -> None:
        if isinstance(self.scale_factor, (tuple, list)):
            self.scale_factor = tuple(as_real("Upsample", "scale_factor", factor) for factor in self.scale_factor)
        elif self.scale_factor:
            self.scale_factor = as_real("Upsample", "scale_factor", self.scale_factor)

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
        self, size: int | tuple[int, int] | None = None, scale_factor: float | tuple[float, float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """``Upsample`` with mode="bilinear" and align_corners=True: x (N, C, H, W).

    Raises: as UpsamplingNearest2d.
    """

    def __init__(
        self, size: int | tuple[int, int] | None = None, scale_factor: float | tuple[float, float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


@layer
class PixelShuffle(Described, Module):
    """A layer with r = upscale_factor.

    {functional.pixel_shuffle}
    """

    upscale_factor: int

    def forward(self, input: Tensor) -> Tensor:
        return pixel_shuffle(input, self.upscale_factor)


@layer
class PixelUnshuffle(Described, Module):
    """A layer with r = downscale_factor.

    {functional.pixel_unshuffle}
    """

    downscale_factor: int

    def forward(self, input: Tensor) -> Tensor:
        return pixel_unshuffle(input, self.downscale_factor)


@layer
class ChannelShuffle(Described, Module):
    """{functional.channel_shuffle}"""

    groups: int

    def forward(self, input: Tensor) -> Tensor:
        return channel_shuffle(input, self.groups)


@layer
class Unfold(Described, Module):
    """{functional.unfold}"""

    kernel_size: Sizes
    dilation: Sizes = 1
    padding: Sizes = 0
    stride: Sizes = 1

    def forward(self, input: Tensor) -> Tensor:
        return unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


@layer
class Fold(Described, Module):
    """{functional.fold}"""

    output_size: Sizes
    kernel_size: Sizes
    dilation: Sizes = 1
    padding: Sizes = 0
    stride: Sizes = 1

    def forward(self, input: Tensor) -> Tensor:
        return fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)
