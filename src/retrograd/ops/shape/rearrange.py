"""Reordering and repeating elements: flip, roll, rot90, tile, pixel and channel shuffle."""

from __future__ import annotations

from itertools import product
from operator import index as exact_int
from typing import Any

from ... import arrays
from ...arrays import empty_like, from_host, to_host
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import as_count, require_tensor
from ..sparse_products import Matrix, SparseProduct
from .broadcasting import expand
from .shape import TOO_LONG, Sizes, axes, axis, clone, copy_if_shared, reshape, sizes, transpose

__all__ = ["flip", "fliplr", "flipud", "repeat", "repeat_interleave", "roll", "rot90", "tile"]


# ---- Flips, shifts, rotations and repetitions -----------------------------------------------------------------------


class Flip(Function):
    """x reversed along ``axes``."""

    @staticmethod
    def forward(x: Tensor, axes: tuple[int, ...]) -> Tensor:
        y = empty_like(x.array)
        kernels.copy(y, arrays.flip(x.array, axes))
        return wrap(y)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.axes = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return Flip.apply(g, ctx.axes), None


class Roll(Function):
    """x shifted along axes; elements shifted out at one end come in at the other."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
        ctx.shifts, ctx.axes = shifts, axes
        pieces = [[(slice(None), slice(None))]] * x.array.ndim  # for each axis: (slice of y, slice of x)
        for a in set(axes):
            extent = x.array.shape[a]
            n = sum(shift for shift, other in zip(shifts, axes, strict=True) if other == a) % max(1, extent)
            pieces[a] = [(slice(n, None), slice(0, extent - n)), (slice(0, n), slice(extent - n, None))]
        y = empty_like(x.array)
        for combination in product(*pieces):
            target, source = zip(*combination, strict=True) if combination else ((), ())
            kernels.copy(y[(*target, ...)], x.array[(*source, ...)])
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return Roll.apply(g, tuple(-n for n in ctx.shifts), ctx.axes), None, None


class Rearrange(Function):
    """x reshaped to ``parts``, permuted by ``dims``, reshaped to ``shape``, in x's memory order.

    The two reshapes split axes of x and of the result, so both are views.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, parts: tuple[int, ...], dims: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
        moved = x.array.reshape(parts).transpose(dims)
        ctx.geometry = moved.shape, tuple(sorted(range(len(dims)), key=dims.__getitem__)), x.array.shape
        y = empty_like(x.array, shape=shape)
        kernels.copy(y.reshape(moved.shape), moved)
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return Rearrange.apply(g, *ctx.geometry), None, None, None


@operator(records=Flip, methods="flip", dtypes="bihf")
def flip(input: Tensor, *over: Sizes, dims: Sizes | None = None) -> Tensor:
    """input reversed along the axes ``over``, or ``dims`` by name.

    Raises:
        IndexError: input has no such axis.
        ValueError: an axis is named twice.
    """
    if interpreters and (seen := interpreted(flip, locals())) is not None:
        return seen
    require_tensor("flip", input)
    over = axes("flip", "dims", sizes("flip", "dims", over, dims), input.array.ndim or 1)
    return Flip.apply(input, over) if input.array.ndim else clone(input)


@operator(records=Flip, methods="fliplr", dtypes="bihf")
def fliplr(input: Tensor) -> Tensor:
    """input (M, N, ...) with its columns reversed.

    Raises:
        ValueError: input has fewer than two axes.
    """
    if interpreters and (seen := interpreted(fliplr, locals())) is not None:
        return seen
    require_tensor("fliplr", input)
    if input.array.ndim < 2:
        raise ValueError(f"fliplr: input.shape={input.array.shape} has fewer than 2 axes")
    return Flip.apply(input, (1,))


@operator(records=Flip, methods="flipud", dtypes="bihf")
def flipud(input: Tensor) -> Tensor:
    """input (M, ...) with its rows reversed.

    Raises:
        ValueError: input has no axis.
    """
    if interpreters and (seen := interpreted(flipud, locals())) is not None:
        return seen
    require_tensor("flipud", input)
    if not input.array.ndim:
        raise ValueError("flipud: input has no axis, needs at least 1")
    return Flip.apply(input, (0,))


@operator(records=Roll, methods="roll", dtypes="bihf")
def roll(input: Tensor, shifts: Sizes, dims: Sizes | None = None) -> Tensor:
    """input shifted by ``shifts`` along ``dims``; elements shifted out at one end come in at the other.

    Without ``dims``, input is shifted as if flattened.

    Raises:
        IndexError: input has no such axis.
        ValueError: there are not as many shifts as axes.
    """
    if interpreters and (seen := interpreted(roll, locals())) is not None:
        return seen
    require_tensor("roll", input)
    by = sizes("roll", "shifts", (shifts,))
    if dims is None or (isinstance(dims, (tuple, list)) and not dims):
        if isinstance(shifts, (tuple, list)) and len(shifts) != 1:
            raise ValueError(f"roll: shifts={shifts} needs dims, one axis for each shift")
        return reshape(Roll.apply(reshape(input, input.array.size), by, (0,)), input.array.shape)
    over = dims if isinstance(dims, (tuple, list)) else (dims,)
    if len(by) != len(over):
        raise ValueError(f"roll: shifts={shifts} and dims={dims} must have the same length")
    return Roll.apply(input, by, tuple(axis("roll", "dims", d, input.array.ndim) for d in over))


@operator(records=Flip, methods="rot90", dtypes="bihf")
def rot90(input: Tensor, k: int = 1, dims: tuple[int, int] | list[int] = (0, 1)) -> Tensor:
    """input rotated by k times 90 degrees in the plane of two axes, from the first toward the second.

    Raises:
        IndexError: input has no such axis.
        ValueError: ``dims`` are not two different axes.
    """
    if interpreters and (seen := interpreted(rot90, locals())) is not None:
        return seen
    require_tensor("rot90", input)
    plane = axes("rot90", "dims", dims, input.array.ndim)
    if len(plane) != 2:
        raise ValueError(f"rot90: dims={dims} must be two axes")
    turns = exact_int(k) % 4
    if turns == 2:
        return Flip.apply(input, plane)
    if turns == 1:
        return transpose(Flip.apply(input, plane[1:]), *plane)
    return Flip.apply(transpose(input, *plane), plane[1:]) if turns else clone(input)


@operator(methods="repeat", dtypes="bihf")
def repeat(input: Tensor, *times: Sizes, repeats: Sizes | None = None) -> Tensor:
    """input repeated ``times[i]`` times along axis i; extra numbers add axes in front.

    repeats: the numbers, by name.

    Raises:
        ValueError: there are fewer numbers than axes, or one is negative.
    """
    if interpreters and (seen := interpreted(repeat, locals())) is not None:
        return seen
    require_tensor("repeat", input)
    counts, shape = sizes("repeat", "repeats", times, repeats), input.array.shape
    if len(counts) < len(shape) or min(counts, default=0) < 0:
        raise ValueError(
            f"repeat: repeats={counts} must be at least 0 each and as many as the axes of input.shape={shape} or more"
        )
    return _repeated(input, counts)


@operator(methods="tile", dtypes="bihf")
def tile(input: Tensor, *times: Sizes, dims: Sizes | None = None) -> Tensor:
    """``repeat``, but if there are fewer numbers than axes, they apply to the last axes.

    dims: the numbers, by name.

    Raises:
        ValueError: a number is negative.
    """
    if interpreters and (seen := interpreted(tile, locals())) is not None:
        return seen
    require_tensor("tile", input)
    counts = sizes("tile", "dims", times, dims)
    if min(counts, default=0) < 0:
        raise ValueError(f"tile: dims={counts} must be at least 0 each")
    return _repeated(input, (1,) * (input.array.ndim - len(counts)) + counts)


def _repeated(x: Tensor, counts: tuple[int, ...]) -> Tensor:
    shape = (1,) * (len(counts) - x.array.ndim) + x.array.shape
    apart = tuple(n for extent in shape for n in (1, extent))
    wide = tuple(n for count, extent in zip(counts, shape, strict=True) for n in (count, extent))
    joined = tuple(count * extent for count, extent in zip(counts, shape, strict=True))
    return copy_if_shared(reshape(expand(reshape(x, apart), wide), joined), x)


@operator(records=SparseProduct, methods="repeat_interleave", dtypes="bihf")
def repeat_interleave(
    input: Tensor, repeats: int | Tensor, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each slice of input along ``dim`` repeated ``repeats`` times: one number for all or one per slice.

    Without ``dim``, input is flattened first. output_size: the extent of the result, which is checked.

    Raises:
        TypeError: ``repeats`` is neither an int nor an int64 Tensor.
        IndexError: input has no such axis.
        ValueError: a number is negative, their count differs from the slices', the result is too large for memory, or
            ``output_size`` differs.
    """
    if interpreters and (seen := interpreted(repeat_interleave, locals())) is not None:
        return seen
    require_tensor("repeat_interleave", input)
    if dim is None:
        input, dim = reshape(input, input.array.size), 0
    position = axis("repeat_interleave", "dim", dim, input.array.ndim)
    extent = input.array.shape[position]
    counts = to_host(repeats.array, "the number of repetitions") if isinstance(repeats, Tensor) else from_host(repeats)
    if counts.dtype.kind not in "iu":
        raise TypeError(f"repeat_interleave: repeats is {counts.dtype}, needs an int or an int64 Tensor")
    if counts.ndim > 1 or counts.size not in (1, extent) or counts.min(initial=0) < 0:
        raise ValueError(
            f"repeat_interleave: repeats={counts.tolist()} must be one number of at least 0, or one for each of the "
            f"{extent} slices"
        )
    total = counts.sum(dtype=float) * (extent if counts.size == 1 else 1)
    if total >= TOO_LONG:  # the kernel does not check for overflow
        raise ValueError(f"repeat_interleave: repeats={counts.tolist()} make {total:.3g} slices: too many")
    given = repeats.array if isinstance(repeats, Tensor) else from_host(counts, like=input.array)
    indices = kernels.repeated_indices(given, extent)
    if output_size is not None and output_size != indices.size:
        raise ValueError(f"repeat_interleave: output_size={output_size}, but the repeats add up to {indices.size}")
    return SparseProduct.apply(input, Matrix(indices, extent), position)


# ---- Pixel and channel shuffle: permutations of parts of axes -------------------------------------------------------


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
    """input (N, C, *I) with the channels of its ``groups`` interleaved: the first of each, then the second, ...

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
