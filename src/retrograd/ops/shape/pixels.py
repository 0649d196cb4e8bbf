"""Pixel shuffle, its inverse, and channel shuffle: permutations of parts of axes."""

from __future__ import annotations

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..arguments.checks import as_count, require_tensor
from .rearrange import Rearrange

__all__ = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


@operator(records=Rearrange, dtypes="bihf")
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """input (..., C*r*r, H, W) -> y (..., C, H*r, W*r), y[c, h*r + i, w*r + j] = x[c*r*r + i*r + j, h, w]

    Source: W. Shi et al., "Real-Time Single Image and Video Super-Resolution ...", 2016.

    Raises:
        TypeError: input is not a Tensor.
        ValueError: input has fewer than 3 axes, or its channels are not a multiple of r*r.
    """
    if interpreters and (seen := interpreted(pixel_shuffle, locals())) is not None:
        return seen
    require_tensor("pixel_shuffle", input)
    shape, r = input.array.shape, as_count("pixel_shuffle", "upscale_factor", upscale_factor)
    if len(shape) < 3 or r < 1 or shape[-3] % (r * r):
        raise ValueError(
            f"pixel_shuffle: input.shape={shape} must be (..., C*r*r, H, W) for upscale_factor r={r}, which is at "
            f"least 1"
        )
    *lead, c, h, w = shape
    k = len(lead)
    parts, dims = (*lead, c // (r * r), r, r, h, w), (*range(k), k, k + 3, k + 1, k + 4, k + 2)  # (..., C, H, r, W, r)
    return Rearrange.apply(input, parts, dims, (*lead, c // (r * r), h * r, w * r))


@operator(records=Rearrange, dtypes="bihf")
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """input (..., C, H*r, W*r) -> (..., C*r*r, H, W): the inverse of ``pixel_shuffle``.

    Raises:
        TypeError: input is not a Tensor.
        ValueError: input has fewer than 3 axes, or its height or width is not a multiple of r.
    """
    if interpreters and (seen := interpreted(pixel_unshuffle, locals())) is not None:
        return seen
    require_tensor("pixel_unshuffle", input)
    shape, r = input.array.shape, as_count("pixel_unshuffle", "downscale_factor", downscale_factor)
    if len(shape) < 3 or r < 1 or shape[-2] % r or shape[-1] % r:
        raise ValueError(
            f"pixel_unshuffle: input.shape={shape} must be (..., C, H*r, W*r) for downscale_factor r={r}, which is at "
            f"least 1"
        )
    *lead, c, h, w = shape
    k = len(lead)
    parts, dims = (*lead, c, h // r, r, w // r, r), (*range(k), k, k + 2, k + 4, k + 1, k + 3)  # (..., C, r, r, H, W)
    return Rearrange.apply(input, parts, dims, (*lead, c * r * r, h // r, w // r))


@operator(records=Rearrange, dtypes="bihf")
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """input (N, C, *I) with the channels of its ``groups`` interleaved: first of each group, second of each, ...

    Source: X. Zhang et al., "ShuffleNet", 2017.

    Raises:
        TypeError: input is not a Tensor.
        ValueError: input has fewer than 3 axes, or its channels are not a multiple of ``groups``.
    """
    if interpreters and (seen := interpreted(channel_shuffle, locals())) is not None:
        return seen
    require_tensor("channel_shuffle", input)
    shape, groups = input.array.shape, as_count("channel_shuffle", "groups", groups)
    if len(shape) < 3 or shape[1] % groups:
        raise ValueError(
            f"channel_shuffle: input.shape={shape} must be (N, C, *I) with C a multiple of groups={groups}, at least 1"
        )
    parts = (shape[0], groups, shape[1] // groups, *shape[2:])
    return Rearrange.apply(input, parts, (0, 2, 1, *range(3, len(shape) + 1)), shape)
