"""Pooling in any number of dimensions: max, average, Lp, adaptive, fractional; max unpooling.

For fixed indices, max pooling is a linear function (``MaxPoolGather``), and its gradient is the transpose
(``MaxPoolGrad``). Average pooling is linear, with the transpose ``AvgPoolGrad``. All windows have one size (Window) or
divide the input evenly (AdaptiveWindow).

Source: B. Graham, "Fractional max-pooling", 2014.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from operator import index
from typing import Any

import numpy as np

from ..arrays import any_true, as_constant, from_host, ones, to_host, within, zeros
from ..engine.function import Function
from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Tensor, wrap
from ..kernel_set import exact, kernels
from ..specs.geometry import AdaptiveWindow, Window, as_pairs, as_tuple, meets, pool_window
from .argument_checks import (
    as_count,
    as_flag,
    as_float,
    as_index,
    as_real,
    as_truth,
    copy_for_backward,
    is_number,
    require_float,
    require_number,
    require_same,
    require_tensor,
)
from .convolution.arguments import Extent, check_axes, freeze
from .pointwise.arithmetic import Scale, div
from .pointwise.exponential import pow
from .pointwise.piecewise import relu
from .random.sampling import rand
from .reduce.reduction import Mean
from .shape.shape import Reshape, reshaped

# ---- Max and average pooling in any number of dimensions ------------------------------------------------------------

Pairs = int | tuple[int, ...] | tuple[tuple[int, int], ...]
Windows = Window | AdaptiveWindow
_MOST_TAPS = 2**63  # means divide by the number of taps, which must fit int64


class MaxPool(Function):
    """The largest element of each window: y, or (y, indices).

    Padding is never chosen. NaN counts as largest, and of equal elements the first is chosen.
    """

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: Windows, return_indices: bool) -> Any:
        is_float = x.array.dtype.kind == "f"
        if isinstance(window, AdaptiveWindow):
            y, indices = kernels.adaptive_max_pool(x.array, window)
        elif is_float and not return_indices and not any(ctx.needs_input_grad):
            return wrap(kernels.max_pool_values(x.array, window))
        else:
            y, indices = (kernels.max_pool if is_float else exact("max_pool"))(x.array, window)
        ctx.save_for_backward(copy_for_backward(indices, return_indices and any(ctx.needs_input_grad)))
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
    """Zeros in x's shape with each g added at the index chosen by its window."""

    @staticmethod
    def forward(g: Tensor, indices: np.ndarray, window: Windows) -> Tensor:
        return wrap(kernels.max_pool_grad(g.array, indices, window))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, indices, ctx.window = inputs
        ctx.save_for_backward(indices)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return MaxPoolGather.apply(v, indices, ctx.window), None, None


class MaxPoolGather(Function):
    """The elements of x at the indices chosen by the windows: the transpose of MaxPoolGrad."""

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
    """The mean of each window; with ``count_include_pad``, divided by all taps, not only those inside x."""

    piecewise_linear = True

    @staticmethod
    def forward(x: Tensor, window: Windows, count_include_pad: bool) -> Tensor:
        if isinstance(window, AdaptiveWindow):
            return wrap(kernels.adaptive_avg_pool(x.array, window))
        return wrap(kernels.avg_pool(x.array, window, count_include_pad))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.window, ctx.count_include_pad = inputs

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return AvgPoolGrad.apply(g, ctx.window, ctx.count_include_pad), None, None


class AvgPoolGrad(Function):
    """Each g distributed evenly over its window: the transpose of AvgPool."""

    @staticmethod
    def forward(g: Tensor, window: Windows, count_include_pad: bool) -> Tensor:
        if isinstance(window, AdaptiveWindow):
            return wrap(kernels.adaptive_avg_pool_grad(g.array, window))
        return wrap(kernels.avg_pool_grad(g.array, window, count_include_pad))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.window, ctx.count_include_pad = inputs

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        return AvgPool.apply(v, ctx.window, ctx.count_include_pad), None, None


def with_batch(function: type[Function], ndim: int, x: Tensor, *options: Any) -> Any:
    """Apply ``function`` to x (N, C, *I), or to x (C, *I) as a batch of one: y, or (y, indices)."""
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
    window, added, cropped = _pool_plan(
        name, ndim, x.array.shape, freeze(kernel_size), freeze(stride), freeze(padding), 1, ceil_mode
    )
    if divisor_override is not None and not is_number(divisor_override):
        raise TypeError(f"{name}: divisor_override={divisor_override!r} must be a number, or None")
    if divisor_override == 0:
        raise ValueError(f"{name}: divisor_override=0 divides by zero; use None to divide by the window's size")
    if window.taps >= _MOST_TAPS:
        raise ValueError(
            f"{name}: kernel_size={kernel_size} means {window.taps} taps per window, which must be less than 2**63"
        )
    if x.array.dtype.kind != "f":
        counted = as_pairs(freeze(padding) if count_include_pad else 0, ndim)
        divisor: Any = divisor_override
        if divisor is None:
            divisor = wrap(from_host(_counted(window, counted), like=x.array))
        return div(_window_sums(x, cropped), divisor, rounding_mode="trunc")
    if divisor_override is not None:
        count_include_pad = True
    elif added and count_include_pad:
        # do not count padding added by ceil_mode
        factors = _factors(window, as_pairs(freeze(padding), ndim), x.array.dtype)
        factor = wrap(from_host(factors, like=x.array))
    y = with_batch(AvgPool, ndim, x, window, count_include_pad)
    if divisor_override is not None:
        return Scale.apply(y, window.taps / divisor_override)
    return y if factor is None else y * factor


@lru_cache(maxsize=1024)
def _counted(window: Window, padding: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Return the number of taps of each window inside x and the given padding, in shape (*O)."""
    return as_constant(kernels.window_counts(window, padding))


@lru_cache(maxsize=1024)
def _factors(window: Window, padding: tuple[tuple[int, int], ...], dtype: Any) -> np.ndarray:
    """Return the number of taps divided by the number of those inside x and the given padding, in shape (*O)."""
    return as_constant(kernels.window_factors(window, padding, dtype))


def _window_sums(x: Tensor, window: Window) -> Tensor:
    """The sum of integers over each window: a convolution of each channel with ones."""
    planes = reshaped(x.array, (-1, 1, *window.input))
    y = exact("conv")(planes, ones((1, 1, *window.kernel), planes.dtype, like=planes), None, window)
    return wrap(y.reshape(*x.array.shape[: -window.ndim], *window.output))


def spatial(name: str, ndim: int, xs: tuple[int, ...]) -> tuple[int, ...]:
    """Return *I of an input (N, C, *I) or (C, *I); ValueError for other axes or if an extent of *I is 0."""
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
    """Return the window, whether ``ceil_mode`` added padding at the end, and that window ``_without_padding_taps``."""
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
        lengthened = tuple(i + more for i, more in zip(size, missing, strict=True))
        window = pool_window(lengthened, kernel, steps, given, spread)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}; input.shape={xs}") from None
    if not ceil_mode:
        return window, False, _without_padding_taps(window)
    grown = tuple((low, high + more) for (low, high), more in zip(given, missing, strict=True))
    window = replace(window, input=size, padding=grown)
    pairs, outputs = [], []
    for i, r, o, s, d, (low, high) in zip(size, kernel, window.output, steps, spread, window.padding, strict=True):
        rest = i + low + high - d * (r - 1) - 1 - (o - 1) * s
        # add a window if positions remain and it starts before the high padding and overlaps x
        more = rest > 0 and o * s < i + low and meets(o * s - low, r, d, i)
        pairs.append((low, high + s - rest if more else high))
        outputs.append(o + more)
    extended = replace(window, output=tuple(outputs), padding=tuple(pairs))
    return extended, extended.padding != given, _without_padding_taps(extended)


def _missing(i: int, r: int, s: int, d: int, low: int, high: int) -> int:
    """Return how many positions an axis lacks for the single window that ``ceil_mode`` keeps; 0 if it keeps none."""
    count = d * (r - 1) + 1 - (low + i + high)
    return count if 0 < count < s and meets(-low, r, d, i) else 0


def _without_padding_taps(window: Window) -> Window:
    """Remove the taps that read only padding in every window, since a kernel may be much longer than x."""
    kernel, pairs = [], []
    for i, r, o, s, d, (low, _) in zip(
        window.input, window.kernel, window.output, window.stride, window.dilation, window.padding, strict=True
    ):
        first, last = max(0, (low - (o - 1) * s) // d), min(r - 1, (i - 1 + low) // d)
        taps, low = last - first + 1, low - first * d
        kernel.append(taps)
        pairs.append((low, max(0, (o - 1) * s + d * (taps - 1) + 1 - low - i)))
    return window if kernel == list(window.kernel) else replace(window, kernel=tuple(kernel), padding=tuple(pairs))


# ---- Adaptive pooling: a given number of windows divides the input evenly --------------------------------------------

OutputSize = int | None | Sequence[int | None]


def adaptive_max_pool_nd(name: str, ndim: int, x: Tensor, output_size: OutputSize, return_indices: bool) -> Any:
    """``nn.functional.adaptive_max_pool2d`` for ``ndim`` axes; messages begin with ``name``."""
    require_float(name, x)
    return_indices = as_truth(name, "return_indices", return_indices)
    shape = x.array.shape
    window = _window(name, ndim, shape, freeze(output_size))
    if len(shape) == ndim + 2 and not shape[1]:
        raise ValueError(f"{name}: input has no channels; input.shape={shape}")
    return with_batch(MaxPool, ndim, x, window, return_indices)


def adaptive_avg_pool_nd(name: str, ndim: int, x: Tensor, output_size: OutputSize) -> Tensor:
    """``nn.functional.adaptive_avg_pool2d`` for ``ndim`` axes."""
    require_float(name, x)
    shape = x.array.shape
    window = _window(name, ndim, shape, freeze(output_size))
    if window.output == (1,) * ndim:
        return Mean.apply(x, tuple(range(len(shape) - ndim, len(shape))), True)
    return with_batch(AvgPool, ndim, x, window, True)


@lru_cache(maxsize=4096)
def _window(name: str, ndim: int, shape: tuple[int, ...], output_size: Any) -> Window | AdaptiveWindow:
    """Return the windows: a Window if all have one size, else an AdaptiveWindow."""
    size = spatial(name, ndim, shape)
    output = outputs(name, ndim, size, output_size)
    if any(i % o for i, o in zip(size, output, strict=True)):
        return AdaptiveWindow(size, output)
    return pool_window(size, tuple(i // o for i, o in zip(size, output, strict=True)))


def outputs(name: str, ndim: int, size: tuple[int, ...] | None, output_size: Any) -> tuple[int, ...]:
    """Return ``output_size`` as one int per axis; None means the input's extent (0 without ``size``)."""
    entries = tuple(output_size) if isinstance(output_size, Sequence) else (output_size,) * ndim
    if len(entries) != ndim:
        raise ValueError(f"{name}: output_size={output_size!r} has {len(entries)} entries, needs one or {ndim}")
    found = []
    for axis, entry in enumerate(entries):
        if entry is None:
            found.append(size[axis] if size else 0)
            continue
        try:
            if isinstance(entry, bool):
                raise TypeError
            extent = index(entry)
        except TypeError:
            raise TypeError(
                f"{name}: output_size={output_size!r} must be an int or None, or these in a tuple"
            ) from None
        found.append(as_count(name, "output_size", extent))
    return tuple(found)


# ---- Power-average pooling ------------------------------------------------------------------------------------------


class Root(Function):
    """x**(1/p), with gradient 0 where x is 0: the norm has its minimum at a window of zeros."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        y = wrap(kernels.power(x.array, 1.0 / p))
        ctx.save_for_backward(x, y)
        ctx.p = p
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        zero = exact("eq")(x.array, zeros((), x.array.dtype, like=x.array))
        some = any_true(zero, "whether a window holds zeros only")
        divisor = x + wrap(kernels.cast(zero, x.array.dtype)) if some else x
        if ctx.p == 1:
            return g, None
        return g * Scale.apply(y / divisor, 1.0 / ctx.p), None


def lp_pool_nd(
    name: str, ndim: int, x: Tensor, norm_type: float, kernel_size: Extent, stride: Extent | None, ceil_mode: bool
) -> Tensor:
    """``nn.functional.lp_pool2d`` for ``ndim`` axes; for integers and an integer p, the means are integers."""
    require_tensor(name, x)
    p = as_real(name, "norm_type", norm_type)
    if p == 0 or math.isnan(p):
        raise ValueError(f"{name}: norm_type={norm_type} must not be 0; give the exponent p of (sum of x**p)**(1/p)")
    if math.isinf(p):
        size = relu(x) + relu(-x) if x.array.dtype.kind != "u" else x  # |x|
        if p > 0:
            return max_pool_nd(name, ndim, size, kernel_size, stride, 0, 1, ceil_mode, False)
        if x.array.dtype.kind == "u":  # -x would wrap at 0
            return 255 - max_pool_nd(name, ndim, 255 - size, kernel_size, stride, 0, 1, ceil_mode, False)
        return -max_pool_nd(name, ndim, -size, kernel_size, stride, 0, 1, ceil_mode, False)
    powers = x if p == 1 and x.array.dtype.kind == "f" else pow(x, norm_type)
    mean = as_float(name, avg_pool_nd(name, ndim, powers, kernel_size, stride, 0, ceil_mode, True, None))
    taps = math.prod(as_tuple(kernel_size, ndim, "kernel_size", 1))
    return Root.apply(Scale.apply(mean, float(taps)), p)


# ---- Fractional max pooling: windows at random positions, outputs a fraction of the input in size --------------------


def fractional_max_pool_nd(
    name: str,
    ndim: int,
    x: Tensor,
    kernel_size: Extent,
    output_size: Extent | None,
    output_ratio: float | Sequence[float] | None,
    return_indices: bool,
    samples: Tensor | None,
) -> Any:
    """``nn.functional.fractional_max_pool2d`` for ``ndim`` axes; messages begin with ``name``."""
    require_float(name, x)
    return_indices = as_truth(name, "return_indices", return_indices)
    shape = x.array.shape
    size = spatial(name, ndim, shape)
    kernel, output = sizes(name, ndim, size, kernel_size, output_size, output_ratio)
    for axis, (extent, taps, count) in enumerate(zip(size, kernel, output, strict=True)):
        if taps + count - 1 > extent:
            raise ValueError(
                f"{name}: kernel_size={taps} and output_size={count} on axis {axis} need an extent of "
                f"{taps + count - 1}, one more position per output; input.shape={shape}"
            )
    batch = Reshape.apply(x, (1,) + shape) if len(shape) == ndim + 1 else x
    places = _samples(name, batch, ndim, samples)
    indices = kernels.fractional_max_pool_indices(batch.array, kernel, output, places)
    y = MaxPoolGather.apply(batch, indices, AdaptiveWindow(size, output))  # used only for its sizes
    if batch is not x:
        y, indices = Reshape.apply(y, y.array.shape[1:]), indices[0]
    return (y, wrap(kernels.duplicate(indices))) if return_indices else y


def sizes(
    name: str, ndim: int, size: tuple[int, ...] | None, kernel_size: Any, output_size: Any, output_ratio: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the extents of window and output; without the input's size, only check the arguments."""
    try:
        kernel = as_tuple(kernel_size, ndim, "kernel_size", 1)
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"pass either output_size or output_ratio; got {output_size!r} and {output_ratio!r}")
        if output_size is not None:
            return kernel, as_tuple(output_size, ndim, "output_size", 1)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}") from None
    ratios = tuple(output_ratio) if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * ndim
    if len(ratios) != ndim or not all(is_number(ratio) and 0 < ratio < 1 for ratio in ratios):
        raise ValueError(f"{name}: output_ratio={output_ratio!r} must be a number between 0 and 1, or {ndim} of them")
    if size is None:
        return kernel, ()
    output = tuple(int(extent * ratio) for extent, ratio in zip(size, ratios, strict=True))
    if min(output) < 1:
        raise ValueError(f"{name}: output_ratio={output_ratio!r} of the extents {size} leaves no output")
    return kernel, output


def _samples(name: str, x: Tensor, ndim: int, given: Tensor | None) -> np.ndarray:
    """Return a random number from 0 to 1 for each image, channel and axis, given or sampled."""
    shape = (*x.array.shape[:2], ndim)
    if given is None:
        return from_host(rand(*shape, dtype=x.array.dtype).array, like=x.array)
    require_same(name, "input", x, "_random_samples", given)
    if given.array.shape != shape:
        raise ValueError(f"{name}: _random_samples.shape={given.array.shape} must be {shape}: (N, C, {ndim})")
    if not within(given.array, 0, 1, "whether samples lie between 0 and 1"):
        raise ValueError(f"{name}: _random_samples must lie between 0 and 1")
    return given.array


# ---- Max unpooling: every element returns to its index, zeros elsewhere ----------------------------------------------


class MaxUnpool(Function):
    """Zeros (N, C, *O) with x (N, C, *I) at flat indices into *O; if an index repeats, the last element is kept.

    All elements with a repeated index get the gradient at that index, as in PyTorch.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, indices: np.ndarray, size: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.window = AdaptiveWindow(size, x.array.shape[2:])  # used only for its sizes
        return wrap(kernels.max_unpool(x.array, indices, size))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return MaxPoolGather.apply(g, indices, ctx.window), None, None


@operator
def max_unpool_nd(
    name: str,
    ndim: int,
    x: Tensor,
    indices: Tensor,
    kernel_size: Extent,
    stride: Extent | None,
    padding: Extent,
    output_size: Sequence[int] | None,
) -> Tensor:
    """``nn.functional.max_unpool2d`` for ``ndim`` axes; messages begin with ``name``."""
    if interpreters and (seen := interpreted(max_unpool_nd, locals())) is not None:
        return seen
    require_float(name, x)
    indices = as_index(name, indices, "indices")
    shape = x.array.shape
    pooled = spatial(name, ndim, shape)
    if indices.array.shape != shape:
        raise ValueError(f"{name}: indices.shape={indices.array.shape} must be input.shape={shape}")
    size = _size(name, ndim, pooled, freeze(kernel_size), freeze(stride), freeze(padding), output_size)
    places = copy_for_backward(indices.array)
    if not within(places, 0, prod(size) - 1, "whether indices are in range"):
        found = to_host(places, "the indices of a message")
        raise ValueError(
            f"{name}: indices lie between {found.min()} and {found.max()}, the output {size} has indices 0 to "
            f"{prod(size) - 1}; give the output_size that was pooled"
        )
    if len(shape) == ndim + 2:
        return MaxUnpool.apply(x, places, size)
    y = MaxUnpool.apply(Reshape.apply(x, (1,) + shape), places[None], size)
    return Reshape.apply(y, y.array.shape[1:])


def _size(
    name: str,
    ndim: int,
    pooled: tuple[int, ...],
    kernel_size: Extent,
    stride: Extent | None,
    padding: Extent,
    output_size: Sequence[int] | None,
) -> tuple[int, ...]:
    try:
        kernel = as_tuple(kernel_size, ndim, "kernel_size", 1)
        steps = kernel if stride is None else as_tuple(stride, ndim, "stride", 1)
        pads = as_tuple(padding, ndim, "padding", 0)
        if output_size is not None:
            extents = tuple(output_size)
            extents = as_tuple(extents[2:] if len(extents) == ndim + 2 else extents, ndim, "output_size", 1)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}") from None
    usual = tuple((o - 1) * s + r - 2 * p for o, s, r, p in zip(pooled, steps, kernel, pads, strict=True))
    if output_size is None:
        if min(usual) < 1:
            raise ValueError(f"{name}: the output would have extents {usual}; use a smaller padding")
        return usual
    for axis, (requested, middle, step) in enumerate(zip(extents, usual, steps, strict=True)):
        if not middle - step < requested < middle + step:
            raise ValueError(
                f"{name}: output_size={tuple(output_size)} must lie between {middle - step} and {middle + step} (both "
                f"excluded) on axis {axis}: (O - 1)*stride + kernel_size - 2*padding = {middle}, give or take a stride"
            )
    return extents
