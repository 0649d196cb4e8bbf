"""Quantiles along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import any_true, from_host, full, within
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..arguments.checks import as_flag, as_real, is_number, require_float
from ..pointwise.piecewise import where
from ..shape.shape import Permute, Reshape, axis
from .gather import Gather
from .order import require_elements

__all__ = ["nanquantile", "quantile"]


@operator(records=Gather, methods="quantile")
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The quantiles ``q`` of each line along ``dim``, or of all elements.

    Of n sorted elements, that is the one with the index q (n - 1), or, between two, a value by ``interpolation``:
    "linear", "lower", "higher", "midpoint" or "nearest". NaN if there is a NaN.

    q: number from 0 to 1, or a Tensor (Q,) of them, whose axis comes first in the result; with linear interpolation q
        has a gradient, too

    Raises:
        TypeError: input is not a floating-point Tensor, or q neither a number nor a Tensor of input's type.
        ValueError: q is out of range or has several axes, there is no element, or the interpolation is unknown.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(quantile, locals())) is not None:
        return seen
    return _along("quantile", input, q, dim, keepdim, interpolation, False)


@operator(records=Gather, methods="nanquantile", dtypes="bihf")
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """``quantile`` of the elements that are not NaN; NaN if there are none.

    Raises: as ``quantile``.
    """
    if interpreters and (seen := interpreted(nanquantile, locals())) is not None:
        return seen
    return _along("nanquantile", input, q, dim, keepdim, interpolation, True)


def _along(name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, skip: bool) -> Tensor:
    require_float(name, input)
    keepdim = as_flag(name, "keepdim", keepdim)
    parts = _parts(name, input, q)
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise ValueError(f"{name}: interpolation={interpolation!r} must be linear, lower, higher, midpoint or nearest")
    shape = input.array.shape
    if dim is not None and not shape:  # a single element
        axis(name, "dim", dim, 1)
        dim = None
    x = Reshape.apply(input, (input.array.size,)) if dim is None else input
    along = 0 if dim is None else axis(name, "dim", dim, len(shape))
    require_elements(name, x, along, dim)
    kept = (1,) * len(shape) if dim is None else shape[:along] + (1,) + shape[along + 1 :]
    left = kept if keepdim else () if dim is None else shape[:along] + shape[along + 1 :]
    y = _quantiles(x, parts, along, interpolation, skip)
    if not parts.array.ndim:
        return Reshape.apply(y, left)
    dims = (along, *(a for a in range(y.array.ndim) if a != along))
    return Reshape.apply(Permute.apply(y, dims), (parts.array.size, *left))


def _parts(name: str, x: Tensor, q: Any) -> Tensor:
    if isinstance(q, Tensor):
        if q.array.dtype != x.array.dtype:
            raise TypeError(f"{name}: q is {q.array.dtype}, needs input's type, {x.array.dtype}")
        parts = q
    elif is_number(q):
        parts = wrap(from_host(as_real(name, "q", q), np.float64, like=x.array))
    else:
        raise TypeError(f"{name}: q is {type(q).__name__}, needs a number or a Tensor")
    if parts.array.ndim > 1 or not within(parts.array, 0, 1, "whether q is from 0 to 1"):
        raise ValueError(f"{name}: q={q} must be from 0 to 1, one number or one axis of them")
    return parts


def _quantiles(x: Tensor, parts: Tensor, along: int, interpolation: str, skip: bool) -> Tensor:
    """The quantiles of all parts, along the axis."""
    dtype = x.array.dtype
    lower, upper, between, share, steps = kernels.quantile_index(x.array, parts.array, along, interpolation, skip)
    y = Gather.apply(x, lower, along)
    if interpolation == "linear" and parts.requires_grad:
        own = Reshape.apply(parts, (parts.array.size, *(1,) * (x.array.ndim - along - 1)))
        weight = wrap(share) + (own - own.detach()) * wrap(steps)  # with the slope of q
    elif not any_true(between, "whether a quantile lies between two elements"):
        return y
    else:
        weight = wrap(full((), 0.5, dtype, like=x.array) if interpolation == "midpoint" else share)
    return y + where(wrap(between), Gather.apply(x, upper, along) - y, 0.0) * weight  # not inf - inf
