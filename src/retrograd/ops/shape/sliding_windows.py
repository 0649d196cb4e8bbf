"""Sliding windows (im2col) and their sum (col2im), each the gradient of the other."""

from __future__ import annotations

from itertools import product
from operator import index as exact_int
from typing import Any

from ...arrays import windows, zeros
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...engine.views import View
from ...kernel_set import kernels
from ..argument_checks import require_float
from ..dtypes.dtype import bool_, cast, float32
from ..index.indexing import GetItem
from ..signatures import advised
from .padding import constant_pad
from .shape import Permute, Sizes, axis, clone, empty_as, reshape

__all__ = ["fold", "unfold"]

Ints = tuple[int, ...]


class Windows(View):
    """All windows over ``axes``. These axes become window positions, and the axes within a window come last.

    x (..., I, ...) -> y (..., O, ..., *R) with y[..., o, ..., r] = x[..., o*step + r*dilation, ...]: a read-only view.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: Ints, sizes: Ints, steps: Ints, dilations: Ints) -> Tensor:
        ctx.geometry, ctx.input_shape = (axes, sizes, steps, dilations), x.array.shape
        return wrap(windows(x.array, axes, sizes, steps, dilations))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return AddWindows.apply(g, ctx.input_shape, *ctx.geometry), None, None, None, None


class AddWindows(Function):
    """Zeros of ``shape`` plus every window at its position: the transpose of Windows."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, shape: Ints, axes: Ints, sizes: Ints, steps: Ints, dilations: Ints) -> Tensor:
        ctx.geometry = axes, sizes, steps, dilations
        y = empty_as(g.array, shape, range(len(shape)))
        kernels.copy(y, zeros((), y.dtype, like=y))
        index: list[Any] = [slice(None)] * len(shape)
        for tap in product(*map(range, sizes)):
            for a, r, step, dilation in zip(axes, tap, steps, dilations, strict=True):
                index[a] = slice(r * dilation, r * dilation + (g.array.shape[a] - 1) * step + 1, step)
            place: Any = (..., *tap)
            kernels.accumulate(y[tuple(index)], g.array[place])
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        return Windows.apply(v, *ctx.geometry), None, None, None, None, None


@operator(methods="unfold")
def sliding(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """All windows of ``size`` elements along axis ``dimension``, every ``step``, as a read-only view with windows last.

    Raises:
        TypeError: the size or the step is not an int.
        IndexError: input has no such axis.
        ValueError: the size is negative or above the extent, or the step is not positive.
    """
    if interpreters and (seen := interpreted(sliding, locals())) is not None:
        return seen
    shape = input.array.shape
    position = axis("unfold", "dimension", dimension, max(1, len(shape)))
    extent = shape[position] if shape else 1
    try:
        size, step = exact_int(size), exact_int(step)
    except TypeError:
        raise TypeError(f"unfold: size={size!r} and step={step!r} must be ints") from None
    if not 0 <= size <= extent or step < 1:
        raise ValueError(
            f"unfold: size={size} must be from 0 to the extent {extent} of axis dimension={dimension} and "
            f"step={step} at least 1; input.shape={shape}"
        )
    x = input if shape else reshape(input, 1)
    y = Windows.apply(x, (position,), (size,), (step,), (1,))
    return y if shape else reshape(y, size)


@advised
@operator(dtypes="bihf")
def unfold(input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """The windows of images as columns (im2col): input (N, C, H, W) or (C, H, W) -> (N, C*R, L) or (C*R, L)

    R is the number of elements of a window. L is the number of windows, which are in row order: the product over both
    axes of (I + 2*padding - dilation*(kernel_size-1) - 1)//stride + 1. The padding is 0.

    Raises:
        TypeError: input is int64 or is not a Tensor, or a size is neither an int nor a pair of ints.
        ValueError: input has another number of axes, a size is out of range, or no window fits.
    """
    if interpreters and (seen := interpreted(unfold, locals())) is not None:
        return seen
    if not isinstance(input, Tensor) or input.array.dtype.kind != "b":
        require_float("unfold", input)
    single = input.array.ndim == 3
    if input.array.ndim not in (3, 4):
        raise ValueError(f"unfold: input.shape={input.array.shape}, needs (N, C, H, W) or (C, H, W)")
    x = reshape(input, (1, *input.array.shape)) if single else input
    kernel, spread, around, step = _checked("unfold", kernel_size, dilation, padding, stride)
    n, c, h, w = x.array.shape
    padded = h + 2 * around[0], w + 2 * around[1]
    counts = _counts("unfold", padded, kernel, spread, step)
    if any(around):
        x = constant_pad(x, ((0, 0), (0, 0), (around[0],) * 2, (around[1],) * 2), 0)
    parts = Windows.apply(x, (2, 3), kernel, step, spread)  # (N, C, OH, OW, RH, RW)
    y = reshape(Permute.apply(parts, (0, 1, 4, 5, 2, 3)), n, c * kernel[0] * kernel[1], counts[0] * counts[1])
    y = y if y.array.flags.writeable else clone(y)  # a window of one element, or a single window, is still a view
    return reshape(y, y.array.shape[1:]) if single else y


@advised
@operator(records=AddWindows, dtypes="bf")
def fold(
    input: Tensor, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """The images whose windows are the columns (col2im): input (N, C*R, L) or (C*R, L) -> (N, C, *output_size)

    The transpose of ``unfold`` of images of ``output_size``; overlapping windows are summed.

    Raises:
        TypeError: input is int64 or is not a Tensor, or a size is neither an int nor a pair of ints.
        ValueError: the shape of input or a size does not fit.
    """
    if interpreters and (seen := interpreted(fold, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.kind == "b":
        return cast(fold(cast(input, float32), output_size, kernel_size, dilation, padding, stride), bool_)
    require_float("fold", input)
    single = input.array.ndim == 2
    if input.array.ndim not in (2, 3):
        raise ValueError(f"fold: input.shape={input.array.shape}, needs (N, C*R, L) or (C*R, L)")
    x = reshape(input, (1, *input.array.shape)) if single else input
    kernel, spread, around, step = _checked("fold", kernel_size, dilation, padding, stride)
    h, w = _pair("fold", "output_size", output_size, 1)
    padded = h + 2 * around[0], w + 2 * around[1]
    counts = _counts("fold", padded, kernel, spread, step)
    n, columns, places = x.array.shape
    taps = kernel[0] * kernel[1]
    if columns % taps or places != counts[0] * counts[1]:
        raise ValueError(
            f"fold: input.shape={input.shape} must have a multiple of {taps} rows and {counts[0]} * {counts[1]} = "
            f"{counts[0] * counts[1]} columns for output_size={(h, w)}"
        )
    parts = Permute.apply(reshape(x, n, columns // taps, *kernel, *counts), (0, 1, 4, 5, 2, 3))
    y = AddWindows.apply(parts, (n, columns // taps, *padded), (2, 3), kernel, step, spread)
    if any(around):
        y = GetItem.apply(y, (..., slice(around[0], around[0] + h), slice(around[1], around[1] + w)))
    return reshape(y, y.array.shape[1:]) if single else y


def _checked(name: str, kernel: Any, dilation: Any, padding: Any, stride: Any) -> tuple[Ints, Ints, Ints, Ints]:
    return (
        _pair(name, "kernel_size", kernel, 1),
        _pair(name, "dilation", dilation, 1),
        _pair(name, "padding", padding, 0),
        _pair(name, "stride", stride, 1),
    )


def _pair(name: str, argument: str, value: Any, least: int) -> Ints:
    try:
        pair = tuple(map(exact_int, value if isinstance(value, (tuple, list)) else (value, value)))
    except TypeError:
        pair = ()
    if len(pair) != 2:
        raise TypeError(f"{name}: {argument}={value!r} must be an int or a pair of ints")
    if min(pair) < least:
        raise ValueError(f"{name}: {argument}={value!r} must be at least {least}")
    return pair


def _counts(name: str, padded: Ints, kernel: Ints, dilation: Ints, stride: Ints) -> Ints:
    counts = tuple((i - d * (k - 1) - 1) // s + 1 for i, k, d, s in zip(padded, kernel, dilation, stride, strict=True))
    if min(counts) < 1:
        raise ValueError(
            f"{name}: no window fits: the padded extents are {padded}, kernel_size={kernel}, dilation={dilation}"
        )
    return counts
