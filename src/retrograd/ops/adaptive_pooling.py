"""Pooling to a given number of outputs: windows that share the input out, equal ones where that is possible."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import index
from typing import Any

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from ..geometry import AdaptiveWindow, Window, pool_window
from .convolution_arguments import freeze
from .dtype import as_flag, require_float
from .kernel_set import kernels
from .pooling import AvgPool, MaxPool, MaxPoolGrad, spatial
from .private import private
from .reduction import Mean
from .shape import Reshape

OutputSize = int | None | Sequence[int | None]


class AdaptiveMaxPool(Function):
    """The largest element of each window and its place: as MaxPool, for windows of unequal sizes."""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: AdaptiveWindow, return_indices: bool) -> Any:
        y, indices = kernels.adaptive_max_pool(x.array, window)
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


class AdaptiveAvgPool(Function):
    """The mean of each window."""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: AdaptiveWindow) -> Tensor:
        ctx.window = window
        return wrap(kernels.adaptive_avg_pool(x.array, window))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return AdaptiveAvgPoolGrad.apply(g, ctx.window), None


class AdaptiveAvgPoolGrad(Function):
    """Each g shared among the places of its window: the transpose of AdaptiveAvgPool."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, window: AdaptiveWindow) -> Tensor:
        ctx.window = window
        return wrap(kernels.adaptive_avg_pool_grad(g.array, window))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        return AdaptiveAvgPool.apply(v, ctx.window), None


def adaptive_max_pool_nd(name: str, ndim: int, x: Tensor, output_size: OutputSize, return_indices: bool) -> Any:
    """Maximum pooling to ``output_size``, its arguments checked; ``name`` is the caller's in messages.

    x (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O), with ``return_indices`` (y, flat places in *I).

    Raises:
        TypeError: x is no floating-point Tensor, or output_size holds something else than integers and None.
        ValueError: x or output_size has another number of axes, or an extent is less than 1.
    """
    require_float(name, x)
    if return_indices is not False:
        return_indices = as_flag(name, "return_indices", return_indices)
    shape = x.array.shape
    window = _window(name, ndim, shape, freeze(output_size))
    if len(shape) == ndim + 2 and not shape[1]:
        raise ValueError(f"{name}: x has no channels; x.shape={shape}")
    kind: type[Function] = MaxPool if isinstance(window, Window) else AdaptiveMaxPool
    if len(shape) == ndim + 2:
        return kind.apply(x, window, return_indices)
    found = kind.apply(Reshape.apply(x, (1,) + shape), window, return_indices)
    y, *places = found if return_indices else (found,)
    y = Reshape.apply(y, y.array.shape[1:])
    return (y, wrap(places[0].array[0])) if return_indices else y


def adaptive_avg_pool_nd(name: str, ndim: int, x: Tensor, output_size: OutputSize) -> Tensor:
    """Average pooling to ``output_size``, its arguments checked; ``name`` is the caller's in messages.

    x (N, C, *I) or (C, *I) -> (N, C, *O) or (C, *O)

    Raises: as ``adaptive_max_pool_nd``.
    """
    require_float(name, x)
    shape = x.array.shape
    window = _window(name, ndim, shape, freeze(output_size))
    if window.output == (1,) * ndim:
        return Mean.apply(x, tuple(range(len(shape) - ndim, len(shape))), True)
    batch = x if len(shape) == ndim + 2 else Reshape.apply(x, (1,) + shape)
    y = AvgPool.apply(batch, window, True) if isinstance(window, Window) else AdaptiveAvgPool.apply(batch, window)
    return y if batch is x else Reshape.apply(y, y.array.shape[1:])


@lru_cache(maxsize=4096)
def _window(name: str, ndim: int, shape: tuple[int, ...], output_size: Any) -> Window | AdaptiveWindow:
    """The windows; a Window where all have one size."""
    size = spatial(name, ndim, shape)
    output = outputs(name, ndim, size, output_size)
    if any(i % o for i, o in zip(size, output, strict=True)):
        return AdaptiveWindow(size, output)
    return pool_window(size, tuple(i // o for i, o in zip(size, output, strict=True)))


def outputs(name: str, ndim: int, size: tuple[int, ...] | None, output_size: Any) -> tuple[int, ...]:
    """``output_size`` as one int per axis; None stands for the input's extent (0 without ``size``).

    Raises:
        TypeError: an entry is neither an integer nor None.
        ValueError: the number of entries is not ``ndim``, or one is less than 1.
    """
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
        if extent < 1:
            raise ValueError(f"{name}: output_size={output_size!r} must be at least 1")
        found.append(extent)
    return tuple(found)
