"""Numerical integrals and derivatives along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import ones
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import is_number, require_number
from ..dtypes.dtype import cast, int64
from ..index.indexing import GetItem
from ..shape.join import cat
from ..shape.shape import axes, axis
from .reduction import sum
from .scan import cumsum, diff

__all__ = ["cumulative_trapezoid", "gradient", "trapezoid", "trapz"]


@operator(dtypes="if")
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """The sum of (y[i] + y[i + 1]) / 2 * (x[i + 1] - x[i]) along axis ``dim``; without x the steps are dx (default 1).

    x: a vector with as many elements as y has along ``dim``, or a Tensor that broadcasts to the shape of y

    Raises:
        TypeError: y or x is not a Tensor of numbers, or dx is not a number.
        ValueError: both x and dx are given, or the shapes do not fit.
        IndexError: y has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(trapezoid, locals())) is not None:
        return seen
    areas, along = _areas("trapezoid", y, x, dx, dim)
    return sum(areas, along)


@operator(dtypes="if")
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """Cumulative sums of the terms of ``trapezoid``: one element fewer than y has along ``dim``.

    Raises: as ``trapezoid``.
    """
    if interpreters and (seen := interpreted(cumulative_trapezoid, locals())) is not None:
        return seen
    areas, along = _areas("cumulative_trapezoid", y, x, dx, dim)
    return cumsum(areas, along)


@operator(dtypes="if")
def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Estimate the derivatives of a function with the values input along each axis of ``dim`` (all by default).

    It uses central differences, and at the ends one-sided differences of ``edge_order`` 1 or 2.

    spacing: the distance between neighbors (1 if None), or one for each axis; or a list of Tensors, the coordinates
        along each axis. A distance of 0 gives infinities and NaN.

    Raises:
        TypeError: input is not a Tensor of numbers, or spacing contains anything other than numbers and Tensors.
        ValueError: there are too few elements along an axis, or coordinates do not fit.
        IndexError: input has no such axis.
    """
    if interpreters and (seen := interpreted(gradient, locals())) is not None:
        return seen
    require_number("gradient", input)
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order={edge_order!r} must be 1 or 2")
    ndim, shape = input.array.ndim, input.array.shape
    over = tuple(range(ndim)) if dim is None else axes("gradient", "dim", dim, ndim)
    spacing = 1 if spacing is None else spacing
    many = isinstance(spacing, (tuple, list))
    steps = list(spacing) if many else [spacing] * len(over)
    if len(steps) != len(over):
        raise ValueError(f"gradient: spacing={spacing} must name as many distances as there are axes, {len(over)}")
    results = []
    for along, step in zip(over, steps, strict=True):
        if shape[along] <= edge_order:
            raise ValueError(
                f"gradient: axis {along} of input.shape={shape} needs at least {edge_order + 1} elements for "
                f"edge_order={edge_order}"
            )
        results.append(_derivative(input, along, step, edge_order))
    return tuple(results)


def _derivative(x: Tensor, along: int, step: Any, edge_order: int) -> Tensor:
    n, x = x.array.shape[along], _wide(x)
    kind = x.array.dtype if x.array.dtype.kind == "f" else np.dtype(np.float32)
    uneven = isinstance(step, Tensor) and step.array.ndim > 0
    if uneven:
        if step.array.shape != (n,):
            raise ValueError(f"gradient: coordinates of shape {step.array.shape} must have the shape ({n},)")
        distances = kernels.differences(step.array)
    elif is_number(step) or isinstance(step, Tensor):
        distances = ones(n - 1, np.float64, like=x.array)
    else:
        raise TypeError(
            f"gradient: spacing holds {step!r}; it must be a number, or numbers or Tensors of coordinates, one per axis"
        )
    wide = (-1,) + (1,) * (x.array.ndim - 1 - along)

    def part(first: int, last: int | None) -> Tensor:
        found: Tensor = GetItem.apply(x, (slice(None),) * along + (slice(first, last),))
        return found

    found_weights = kernels.difference_weights(distances, edge_order, kind)
    after, before, middle, start, end = [wrap(values.reshape(wide)) for values in found_weights]
    pieces = []
    if n > 2:
        inner = part(2, None) * after - part(0, -2) * before
        pieces.append(inner + part(1, -1) * middle if uneven else inner)
    if edge_order == 1:
        first = (part(1, 2) - part(0, 1)) * start
        last = (part(n - 1, None) - part(n - 2, n - 1)) * end
    else:
        first = part(0, 1) * start[:1] + part(1, 2) * start[1:2] - part(2, 3) * start[2:]
        last = part(n - 1, None) * end[:1] - part(n - 2, n - 1) * end[1:2] + part(n - 3, n - 2) * end[2:]
    found = cat((first, *pieces, last), along)
    return found if uneven else found / float(step)


def _wide(x: Tensor) -> Tensor:
    """Convert integers to int64, so that sums and differences of smaller types do not wrap."""
    return x if x.array.dtype.kind == "f" else cast(x, int64)


def _areas(name: str, y: Tensor, x: Tensor | None, dx: float | None, dim: int) -> tuple[Tensor, int]:
    """Return the areas of the trapezoids between neighbors, and the axis."""
    require_number(name, y, "y")
    along = axis(name, "dim", dim, y.array.ndim)
    front, back = (slice(None),) * along + (slice(None, -1),), (slice(None),) * along + (slice(1, None),)
    y = _wide(y)
    pairs = GetItem.apply(y, front) + GetItem.apply(y, back)
    if x is None:
        if dx is not None and not is_number(dx):
            raise TypeError(f"{name}: dx={dx!r} must be a number")
        return pairs * (0.5 * (1.0 if dx is None else float(dx))), along
    if dx is not None:
        raise ValueError(f"{name}: x and dx are both given; give one of them")
    require_number(name, x, "x")
    x = _wide(x)
    given = x.array.shape
    if x.array.ndim == 1:
        x = x.reshape((-1,) + (1,) * (y.array.ndim - 1 - along))
    x = x.reshape((1,) * (y.array.ndim - x.array.ndim) + x.array.shape)
    if x.array.ndim != y.array.ndim or any(
        m != n and (a == along or 1 not in (m, n))
        for a, (m, n) in enumerate(zip(x.array.shape, y.array.shape, strict=True))
    ):
        raise ValueError(
            f"{name}: x.shape={given} must be ({y.shape[along]},), or broadcast to y.shape={y.shape} with "
            f"as many elements along axis dim={dim}"
        )
    return pairs * diff(x, dim=along) * 0.5, along


trapz = trapezoid
