"""Max and average pooling in any number of dimensions.

Given its indices, maximum pooling is linear: ``max_pool_gather``, whose transpose ``max_pool_grad`` is its gradient.
Average pooling is linear, and ``avg_pool_grad`` is its transpose. The windows have one size (Window) or divide the
input evenly (AdaptiveWindow).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ...arrays import from_host, ones
from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ...specs.geometry import AdaptiveWindow, Window, as_pairs, as_tuple, meets, pool_window
from ..arguments.checks import as_flag, as_truth, require_number
from ..convolution.arguments import Extent, check_axes, freeze
from ..memory.private import private
from ..pointwise.elementwise import Scale, div
from ..shape.shape import Reshape, reshaped

Pairs = int | tuple[int, ...] | tuple[tuple[int, int], ...]
Windows = Window | AdaptiveWindow
_MOST_TAPS = 2**63  # a mean divides by the number of taps


class MaxPool(Function):
    """The largest element of each window: y, or (y, indices). Padding is never chosen; NaN is; ties go to the first."""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: Windows, return_indices: bool) -> Any:
        if isinstance(window, AdaptiveWindow):
            y, indices = kernels.adaptive_max_pool(x.array, window)
        else:
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
    """Each g added at the index in x that its window chose."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, indices: np.ndarray, window: Windows) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.window = window
        return wrap(kernels.max_pool_grad(g.array, indices, window))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return MaxPoolGather.apply(v, indices, ctx.window), None, None


class MaxPoolGather(Function):
    """x at the indices that the windows chose: the transpose of MaxPoolGrad."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, indices: np.ndarray, window: Windows) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.window = window
        return wrap(kernels.max_pool_gather(x.array, indices))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return MaxPoolGrad.apply(v, indices, ctx.window), None, None


class AvgPool(Function):
    """The mean of each window; ``count_include_pad``: divide by all taps, not only by those inside x."""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: Windows, count_include_pad: bool) -> Tensor:
        ctx.window, ctx.count_include_pad = window, count_include_pad
        if isinstance(window, AdaptiveWindow):
            return wrap(kernels.adaptive_avg_pool(x.array, window))
        return wrap(kernels.avg_pool(x.array, window, count_include_pad))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return AvgPoolGrad.apply(g, ctx.window, ctx.count_include_pad), None, None


class AvgPoolGrad(Function):
    """Each g divided among the positions of its window: the transpose of AvgPool."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, window: Windows, count_include_pad: bool) -> Tensor:
        ctx.window, ctx.count_include_pad = window, count_include_pad
        if isinstance(window, AdaptiveWindow):
            return wrap(kernels.adaptive_avg_pool_grad(g.array, window))
        return wrap(kernels.avg_pool_grad(g.array, window, count_include_pad))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        return AvgPool.apply(v, ctx.window, ctx.count_include_pad), None, None


def with_batch(function: type[Function], ndim: int, x: Tensor, *options: Any) -> Any:
    """``function`` of x (N, C, *I), or of x (C, *I) as a batch of one: y, or (y, indices)."""
    shape = x.array.shape
    if len(shape) == ndim + 2:
        return function.apply(x, *options)
    found = function.apply(Reshape.apply(x, (1,) + shape), *options)
    y, *indices = found if isinstance(found, tuple) else (found,)
    y = Reshape.apply(y, y.array.shape[1:])
    return (y, wrap(indices[0].array[0])) if indices else y


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
    """``nn.functional.max_pool2d`` for ``ndim`` axes; messages begin with ``name``."""
    require_number(name, x)
    ceil_mode = as_flag(name, "ceil_mode", ceil_mode)
    return_indices = as_truth(name, "return_indices", return_indices)
    _, _, window = _pool_plan(
        name, ndim, x.array.shape, freeze(kernel_size), freeze(stride), freeze(padding), freeze(dilation), ceil_mode
    )
    return with_batch(MaxPool, ndim, x, window, return_indices)


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
    """``nn.functional.avg_pool2d`` for ``ndim`` axes; the means of integers are integers, rounded towards 0."""
    require_number(name, x)
    ceil_mode = as_flag(name, "ceil_mode", ceil_mode)
    count_include_pad = as_flag(name, "count_include_pad", count_include_pad)
    factor = None
    window, added, met = _pool_plan(
        name, ndim, x.array.shape, freeze(kernel_size), freeze(stride), freeze(padding), 1, ceil_mode
    )
    if divisor_override == 0:
        raise ValueError(f"{name}: divisor_override=0 divides by zero; use None to divide by the window's size")
    if window.taps >= _MOST_TAPS:
        raise ValueError(f"{name}: kernel_size={kernel_size} makes {window.taps} taps, which must be less than 2**63")
    if x.array.dtype.kind != "f":
        counted = as_pairs(freeze(padding) if count_include_pad else 0, ndim)
        divisor: Any = divisor_override
        if divisor is None:
            divisor = wrap(from_host(_counted(window, counted), like=x.array))
        return div(_window_sums(x, met), divisor, rounding_mode="trunc")
    if divisor_override is not None:
        count_include_pad = True
    elif added and count_include_pad:
        # positions that ceil_mode adds are not counted
        factors = _factors(window, as_pairs(freeze(padding), ndim), x.array.dtype)
        factor = wrap(from_host(factors, like=x.array))
    y = with_batch(AvgPool, ndim, x, window, count_include_pad)
    if divisor_override is not None:
        return Scale.apply(y, window.taps / divisor_override)
    return y if factor is None else y * factor


@lru_cache(maxsize=1024)
def _counted(window: Window, padding: tuple[tuple[int, int], ...]) -> np.ndarray:
    """(*O): the number of taps of each window inside x and the given padding."""
    return kernels.window_counts(window, padding)


@lru_cache(maxsize=1024)
def _factors(window: Window, padding: tuple[tuple[int, int], ...], dtype: Any) -> np.ndarray:
    """(*O): the number of taps divided by the number of those inside x and the given padding."""
    return kernels.window_factors(window, padding, dtype)


def _window_sums(x: Tensor, window: Window) -> Tensor:
    """The sum of integers over each window: a convolution of each channel with ones."""
    planes = reshaped(x.array, (-1, 1, *window.input))
    y = exact("conv")(planes, ones((1, 1, *window.kernel), planes.dtype, like=planes), None, window)
    return wrap(y.reshape(*x.array.shape[: -window.ndim], *window.output))


def spatial(name: str, ndim: int, xs: tuple[int, ...]) -> tuple[int, ...]:
    """*I of an input (N, C, *I) or (C, *I); ValueError if it has other axes or *I is empty."""
    check_axes(name, ndim, xs)
    if 0 in xs[-ndim:]:
        raise ValueError(f"{name}: an axis of positions is empty; input.shape={xs}")
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
    """The window, whether ``ceil_mode`` added padding on the high side, and the window cut by ``_met``."""
    check_axes(name, ndim, xs)
    size = xs[-ndim:]
    if xs[-ndim - 1] == 0:
        raise ValueError(f"{name}: input has no channels; input.shape={xs}")
    try:
        kernel = as_tuple(kernel_size, ndim, "kernel_size", 1)
        steps = kernel if stride is None or stride == () else as_tuple(stride, ndim, "stride", 1)
        spread = as_tuple(dilation, ndim, "dilation", 1)
        given = as_pairs(padding, ndim)
        missing = [
            _missing(i, r, s, d, *pair) if ceil_mode else 0
            for i, r, s, d, pair in zip(size, kernel, steps, spread, given, strict=True)
        ]
        whole = tuple(i + more for i, more in zip(size, missing, strict=True))
        window = pool_window(whole, kernel, steps, given, spread)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}; input.shape={xs}") from None
    if not ceil_mode:
        return window, False, _met(window)
    grown = tuple((low, high + more) for (low, high), more in zip(given, missing, strict=True))
    window = replace(window, input=size, padding=grown)
    pairs, outputs = [], []
    for i, r, o, s, d, (low, high) in zip(size, kernel, window.output, steps, spread, window.padding, strict=True):
        rest = i + low + high - d * (r - 1) - 1 - (o - 1) * s
        # one more window if positions are left over and it starts before the high padding and overlaps x
        more = rest > 0 and o * s < i + low and meets(o * s - low, r, d, i)
        pairs.append((low, high + s - rest if more else high))
        outputs.append(o + more)
    extended = replace(window, output=tuple(outputs), padding=tuple(pairs))
    return extended, extended.padding != given, _met(extended)


def _missing(i: int, r: int, s: int, d: int, low: int, high: int) -> int:
    """Return how many positions an axis lacks for its only window, which ``ceil_mode`` keeps; 0 if it keeps none."""
    count = d * (r - 1) + 1 - (low + i + high)
    return count if 0 < count < s and meets(-low, r, d, i) else 0


def _met(window: Window) -> Window:
    """The window without the taps that read padding for every output: a kernel may be much longer than x."""
    kernel, pairs = [], []
    for i, r, o, s, d, (low, _) in zip(
        window.input, window.kernel, window.output, window.stride, window.dilation, window.padding, strict=True
    ):
        first, last = max(0, (low - (o - 1) * s) // d), min(r - 1, (i - 1 + low) // d)
        taps, low = last - first + 1, low - first * d
        kernel.append(taps)
        pairs.append((low, max(0, (o - 1) * s + d * (taps - 1) + 1 - low - i)))
    return window if kernel == list(window.kernel) else replace(window, kernel=tuple(kernel), padding=tuple(pairs))
