"""Max and average pooling in any number of dimensions.

Maximum pooling picks places; with the places fixed it is linear, and its gradient puts back what the pick took:
``max_pool_gather`` and ``max_pool_grad`` are each other's transposes. Average pooling is linear, and
``avg_pool_grad`` is its transpose.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from ..geometry import Window, as_pairs, as_tuple, meets, pool_window
from .convolution_arguments import Extent, freeze
from .dtype import as_flag, require_number
from .elementwise import Scale, div
from .kernel_set import exact, kernels
from .private import private
from .shape import Reshape

Pairs = int | tuple[int, ...] | tuple[tuple[int, int], ...]
_MOST_TAPS = 2**63  # of a mean, which divides by them


class MaxPool(Function):
    """The largest element of each window: y, or (y, indices). Padding is never chosen; NaN is; ties go to the first."""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: Window, return_indices: bool) -> Any:
        y, indices = (kernels.max_pool if x.array.dtype.kind == "f" else exact("max_pool"))(x.array, window)
        ctx.save_for_backward(private(indices, return_indices and any(ctx.needs_input_grad)))
        ctx.window = window
        if not return_indices:
            return wrap(y)
        positions = wrap(indices)
        ctx.mark_non_differentiable(positions)
        ctx.set_materialize_grads(False)
        return wrap(y), positions

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return MaxPoolGrad.apply(g, indices, ctx.window), None, None


class MaxPoolGrad(Function):
    """Each g added to the place in x that its window chose."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, indices: np.ndarray, window: Window) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.window = window
        return wrap(kernels.max_pool_grad(g.array, indices, window))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return MaxPoolGather.apply(v, indices, ctx.window), None, None


class MaxPoolGather(Function):
    """x at the places that the windows chose: the transpose of MaxPoolGrad."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, indices: np.ndarray, window: Window) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.window = window
        return wrap(kernels.max_pool_gather(x.array, indices))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return MaxPoolGrad.apply(v, indices, ctx.window), None, None


class AvgPool(Function):
    """The mean of each window; ``count_include_pad``: divide by its taps, not by those that lie inside x."""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: Window, count_include_pad: bool) -> Tensor:
        ctx.window, ctx.count_include_pad = window, count_include_pad
        return wrap(kernels.avg_pool(x.array, window, count_include_pad))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return AvgPoolGrad.apply(g, ctx.window, ctx.count_include_pad), None, None


class AvgPoolGrad(Function):
    """Each g shared among the places of its window."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, window: Window, count_include_pad: bool) -> Tensor:
        ctx.window, ctx.count_include_pad = window, count_include_pad
        return wrap(kernels.avg_pool_grad(g.array, window, count_include_pad))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        return AvgPool.apply(v, ctx.window, ctx.count_include_pad), None, None


def max_pool(x: Tensor, window: Window) -> Tensor:
    """x (N, C, *I) -> (N, C, *O); x must fit the window."""
    return MaxPool.apply(x, window, False)


def avg_pool(x: Tensor, window: Window, count_include_pad: bool = True) -> Tensor:
    """x (N, C, *I) -> (N, C, *O); x must fit the window."""
    return AvgPool.apply(x, window, count_include_pad)


def max_pool_nd(
    name: str,
    ndim: int,
    x: Tensor,
    kernel_size: Extent,
    stride: Extent | None,
    padding: Pairs,
    dilation: Extent,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    """Maximum pooling over the last ``ndim`` axes, its arguments checked; ``name`` is the caller's in messages.

    x (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O), with ``return_indices`` (y, flat places in *I).

    Raises:
        TypeError: x is no Tensor of numbers.
        ValueError: x does not fit the window.
    """
    require_number(name, x)
    if ceil_mode is not False:
        ceil_mode = as_flag(name, "ceil_mode", ceil_mode)
    if return_indices is not False:
        return_indices = as_flag(name, "return_indices", return_indices)
    shape = x.array.shape
    _, _, window = _pool_plan(
        name, ndim, shape, freeze(kernel_size), freeze(stride), freeze(padding), freeze(dilation), ceil_mode
    )
    if len(shape) == ndim + 2:
        return MaxPool.apply(x, window, return_indices)
    found = MaxPool.apply(Reshape.apply(x, (1,) + shape), window, return_indices)
    y, *places = found if return_indices else (found,)
    y = Reshape.apply(y, y.array.shape[1:])
    return (y, wrap(places[0].array[0])) if return_indices else y


def avg_pool_nd(
    name: str,
    ndim: int,
    x: Tensor,
    kernel_size: Extent,
    stride: Extent | None,
    padding: Pairs,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """Average pooling over the last ``ndim`` axes, its arguments checked; ``name`` is the caller's in messages.

    x (N, C, *I) or (C, *I) -> (N, C, *O) or (C, *O); the means of integers are integers, rounded towards 0.

    Raises:
        TypeError: x is no Tensor of numbers.
        ValueError: x does not fit the window, or the divisor is 0.
    """
    require_number(name, x)
    if ceil_mode is not False:
        ceil_mode = as_flag(name, "ceil_mode", ceil_mode)
    if count_include_pad is not True:
        count_include_pad = as_flag(name, "count_include_pad", count_include_pad)
    shape, factor = x.array.shape, None
    window, added, met = _pool_plan(
        name, ndim, shape, freeze(kernel_size), freeze(stride), freeze(padding), 1, ceil_mode
    )
    if divisor_override == 0:
        raise ValueError(f"{name}: divisor_override=0 divides by zero; use None to divide by the window's size")
    if window.taps >= _MOST_TAPS:
        raise ValueError(f"{name}: kernel_size={kernel_size} makes {window.taps} taps, which must be less than 2**63")
    if x.array.dtype.kind != "f":
        counted = as_pairs(freeze(padding) if count_include_pad else 0, ndim)
        divisor = wrap(_counted(window, counted)) if divisor_override is None else divisor_override
        return div(_window_sums(x, met), divisor, rounding_mode="trunc")
    if divisor_override is not None:
        count_include_pad = True
    elif added and count_include_pad:
        # what ceil_mode adds behind x and its padding is not counted
        factor = wrap((window.taps / _counted(window, as_pairs(freeze(padding), ndim))).astype(x.array.dtype))
    batch = x if len(shape) == ndim + 2 else Reshape.apply(x, (1,) + shape)
    y = AvgPool.apply(batch, window, count_include_pad)
    if divisor_override is not None:
        y = Scale.apply(y, window.taps / divisor_override)
    elif factor is not None:
        y = y * factor
    return y if batch is x else Reshape.apply(y, y.array.shape[1:])


@lru_cache(maxsize=1024)
def _counted(window: Window, padding: tuple[tuple[int, int], ...]) -> np.ndarray:
    """(*O): how many taps of a window are inside of x and the given padding."""
    count = np.ones((), np.int64)
    for i, r, o, s, (before, _), (low, high) in zip(
        window.input, window.kernel, window.output, window.stride, window.padding, padding, strict=True
    ):
        starts = np.arange(o) * s - before
        count = np.multiply.outer(count, np.minimum(starts + r, i + high) - np.maximum(starts, -low))
    return count


def _window_sums(x: Tensor, window: Window) -> Tensor:
    """The sums of integers over each window: a convolution of each channel with ones."""
    planes = x.array.reshape(-1, 1, *window.input)
    y = exact("conv")(planes, np.ones((1, 1, *window.kernel), planes.dtype), None, window)
    return wrap(y.reshape(*x.array.shape[: -window.ndim], *window.output))


def spatial(name: str, ndim: int, xs: tuple[int, ...]) -> tuple[int, ...]:
    """The extents of positions of an input with or without batch.

    Raises:
        ValueError: it has another number of axes, or an axis of positions is empty.
    """
    if len(xs) not in (ndim + 1, ndim + 2):
        raise ValueError(
            f"{name}: x has {len(xs)} axes, needs {ndim + 2} (batch, channels, {ndim} of positions) or {ndim + 1} "
            f"(without batch); x.shape={xs}"
        )
    if 0 in xs[-ndim:]:
        raise ValueError(f"{name}: an axis of positions is empty; x.shape={xs}")
    return xs[-ndim:]


@lru_cache(maxsize=4096)
def _pool_plan(
    name: str,
    ndim: int,
    xs: tuple[int, ...],
    kernel_size: Extent,
    stride: Extent | None,
    padding: Pairs,
    dilation: Extent,
    ceil_mode: bool,
) -> tuple[Window, bool, Window]:
    """The window of a checked pooling, whether ``ceil_mode`` added padding on the high side, and what ``_met`` says."""
    if len(xs) not in (ndim + 1, ndim + 2):
        spatial(name, ndim, xs)
    size = xs[-ndim:]
    if xs[-ndim - 1] == 0:
        raise ValueError(f"{name}: x has no channels; x.shape={xs}")
    try:
        kernel = as_tuple(kernel_size, ndim, "kernel_size", 1)
        steps = kernel if stride is None or stride == () else as_tuple(stride, ndim, "stride", 1)
        spread = as_tuple(dilation, ndim, "dilation", 1)
        window = pool_window(size, kernel, steps, as_pairs(padding, ndim), spread)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}; x.shape={xs}") from None
    if not ceil_mode:
        return window, False, _met(window)
    pairs, outputs = [], []
    for i, r, o, s, d, (low, high) in zip(size, kernel, window.output, steps, spread, window.padding, strict=True):
        rest = i + low + high - d * (r - 1) - 1 - (o - 1) * s
        # one more window, if positions are left over, it starts before the high padding and it sees some of x
        more = rest > 0 and o * s < i + low and meets(o * s - low, r, d, i)
        pairs.append((low, high + s - rest if more else high))
        outputs.append(o + more)
    extended = replace(window, output=tuple(outputs), padding=tuple(pairs))
    return extended, extended != window, _met(extended)


def _met(window: Window) -> Window:
    """The window without the taps that stand in the padding for every output: a kernel may be much longer than x."""
    kernel, pairs = [], []
    for i, r, o, s, d, (low, _) in zip(
        window.input, window.kernel, window.output, window.stride, window.dilation, window.padding, strict=True
    ):
        first, last = max(0, (low - (o - 1) * s) // d), min(r - 1, (i - 1 + low) // d)
        taps, low = last - first + 1, low - first * d
        kernel.append(taps)
        pairs.append((low, max(0, (o - 1) * s + d * (taps - 1) + 1 - low - i)))
    return window if kernel == list(window.kernel) else replace(window, kernel=tuple(kernel), padding=tuple(pairs))
