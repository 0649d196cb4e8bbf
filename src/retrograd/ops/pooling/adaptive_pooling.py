"""Pooling to a given number of outputs: the windows divide the input evenly."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import index
from typing import Any

from ...engine.tensor import Tensor
from ...specs.geometry import AdaptiveWindow, Window, pool_window
from ..arguments.checks import as_count, as_truth, require_float
from ..convolution.arguments import freeze
from ..reduce.reduction import Mean
from .pooling import AvgPool, MaxPool, spatial, with_batch

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
    """The windows: a Window if all have one size."""
    size = spatial(name, ndim, shape)
    output = outputs(name, ndim, size, output_size)
    if any(i % o for i, o in zip(size, output, strict=True)):
        return AdaptiveWindow(size, output)
    return pool_window(size, tuple(i // o for i, o in zip(size, output, strict=True)))


def outputs(name: str, ndim: int, size: tuple[int, ...] | None, output_size: Any) -> tuple[int, ...]:
    """``output_size`` as one int per axis; None means the input's extent (0 without ``size``)."""
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
