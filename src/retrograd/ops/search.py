"""Places in sorted sequences, counts of bins, and the trapezoidal rule."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..engine.tensor import Tensor, wrap
from .dtype import as_flag, is_number, require_float, require_number, require_tensor
from .indexing import GetItem
from .reduction import sum
from .scan import diff
from .shape import TOO_LONG, axis

__all__ = ["bincount", "bucketize", "histc", "searchsorted", "trapezoid"]


def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where each element of input belongs in its sorted sequence: before equal ones, behind them if ``right``.

    sorted_sequence (*, L) in increasing order, or put there by the indices ``sorter`` (*, L); input (*, K) -> (*, K)
    int64, no gradient. A sequence (L,) serves input of any shape, or a number. side: "left" or "right" in other words.
    out_int32: False; a Tensor holds no int32.

    Raises:
        TypeError: sorted_sequence is no Tensor, or input neither a Tensor nor a number.
        ValueError: the shapes do not fit, or side contradicts ``right`` or is unknown.
    """
    _refuse_int32("searchsorted", out_int32)
    right = as_flag("searchsorted", "right", right)
    if not isinstance(sorted_sequence, Tensor):
        raise TypeError(f"searchsorted: sorted_sequence is {type(sorted_sequence).__name__}, needs a Tensor")
    if side is not None and (side not in ("left", "right") or (right and side == "left")):
        raise ValueError(f'searchsorted: side={side!r} must be "left" or "right" and agree with right={right}')
    sequence = sorted_sequence.array
    where: Literal["left", "right"] = "right" if right or side == "right" else "left"
    if sorter is not None:
        if sorter.array.shape != sequence.shape or sorter.array.dtype != np.int64:
            raise ValueError(
                f"searchsorted: sorter must hold int64 indices in the shape of sorted_sequence, {sequence.shape}; "
                f"it is {sorter.array.dtype} of shape {sorter.array.shape}"
            )
        sequence = np.take_along_axis(sequence, sorter.array, -1)
    if is_number(input):
        values = np.asarray(input)
    elif isinstance(input, Tensor):
        values = input.array
    else:
        raise TypeError(f"searchsorted: input is {type(input).__name__}, needs a Tensor or a number")
    if sequence.ndim == 1:
        return wrap(np.asarray(np.searchsorted(sequence, values, where), np.int64))
    if not sequence.ndim or sequence.ndim != values.ndim or sequence.shape[:-1] != values.shape[:-1]:
        raise ValueError(
            f"searchsorted: sorted_sequence.shape={sequence.shape} and input.shape={values.shape} must be equal but "
            f"for the last axis, or the sequence have one axis"
        )
    places = np.empty(values.shape, np.int64)
    for at in np.ndindex(*values.shape[:-1]):
        places[at] = np.searchsorted(sequence[at], values[at], where)
    return wrap(places)


def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Which of the intervals between ``boundaries`` (L,), in increasing order, each element lies in: 0 to L.

    A boundary belongs to the interval below it, or, if ``right``, to that above. out_int32: as in ``searchsorted``.

    Raises:
        TypeError: boundaries is no Tensor, or input neither a Tensor nor a number.
        ValueError: boundaries has not one axis.
    """
    _refuse_int32("bucketize", out_int32)
    if not isinstance(boundaries, Tensor):
        raise TypeError(f"bucketize: boundaries is {type(boundaries).__name__}, needs a Tensor")
    if boundaries.array.ndim != 1:
        raise ValueError(f"bucketize: boundaries.shape={boundaries.array.shape} must have one axis")
    return searchsorted(boundaries, input, right=as_flag("bucketize", "right", right))


def _refuse_int32(name: str, out_int32: bool) -> None:
    if out_int32 is not False and as_flag(name, "out_int32", out_int32):
        raise ValueError(f"{name}: out_int32={out_int32!r} must be False; the places are int64, and there is no int32")


def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of ``bins`` equal parts of [min, max], or of their own range if both are equal.

    input (any shape) -> (bins,) in input's type, no gradient. What lies outside, and NaN, is not counted.

    Raises:
        TypeError: input is no floating-point Tensor.
        ValueError: bins is below 1 or beyond all memory, or the range is none.
    """
    require_float("histc", input)
    if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins < TOO_LONG:
        raise ValueError(f"histc: bins={bins!r} must be an int from 1 to {TOO_LONG - 1}")
    x = input.array.reshape(-1)
    low, high = float(min), float(max)
    if low == high and x.size:
        low, high = float(x.min()), float(x.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (low < high and np.isfinite([low, high]).all()):
        raise ValueError(f"histc: the range from min={low} to max={high} must be finite and not empty")
    counts, _ = np.histogram(x[x == x], bins, (low, high))
    return wrap(counts.astype(x.dtype))


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2, ... occurs, or the sum of the ``weights`` where it does; no gradient.

    input (n,) int64, weights (n,) -> (max(minlength, largest + 1),) int64, or float64 or the weights' type

    Raises:
        TypeError: input is no int64 Tensor.
        ValueError: input has not one axis or a negative element, weights another shape, minlength is negative, or an
            element or minlength is beyond all memory.
    """
    require_tensor("bincount", input)
    if input.array.dtype != np.int64:
        raise TypeError(f"bincount: input is {input.array.dtype}, needs int64; convert it with input.long()")
    if input.array.ndim != 1 or (input.array.size and input.array.min() < 0):
        raise ValueError(
            f"bincount: input must have one axis and no negative element; input.shape={input.array.shape}"
        )
    if weights is not None and weights.array.shape != input.array.shape:
        raise ValueError(f"bincount: weights.shape={weights.array.shape} must equal input.shape={input.array.shape}")
    if isinstance(minlength, bool) or not isinstance(minlength, int) or not 0 <= minlength < TOO_LONG:
        raise ValueError(f"bincount: minlength={minlength!r} must be an int from 0 to {TOO_LONG - 1}")
    largest = input.array.max(initial=0)
    if largest >= TOO_LONG:
        raise ValueError(f"bincount: input has the element {largest}, for which no memory suffices")
    counts = np.bincount(input.array, None if weights is None else weights.array, minlength)
    if weights is None:
        return wrap(counts.astype(np.int64, copy=False))
    return wrap(counts.astype(weights.array.dtype if weights.array.dtype.kind == "f" else np.float64))


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """The sum of (y[i] + y[i + 1]) / 2 * (x[i + 1] - x[i]) along axis ``dim``; without x the steps are dx (1).

    x has one axis as long as y's axis ``dim``, or a shape that is broadcast against y's.

    Raises:
        TypeError: y or x is no Tensor of numbers, or dx no number.
        ValueError: both x and dx are given, or the shapes do not fit.
        IndexError: y has no axis ``dim``.
    """
    require_number("trapezoid", y, "y")
    along = axis("trapezoid", "dim", dim, y.array.ndim)
    front, back = (slice(None),) * along + (slice(None, -1),), (slice(None),) * along + (slice(1, None),)
    pairs = GetItem.apply(y, front) + GetItem.apply(y, back)
    if x is None:
        if dx is not None and not is_number(dx):
            raise TypeError(f"trapezoid: dx={dx!r} must be a number")
        return sum(pairs, along) * (0.5 * (1.0 if dx is None else float(dx)))
    if dx is not None:
        raise ValueError("trapezoid: x and dx both say how long the steps are; give one of them")
    require_number("trapezoid", x, "x")
    given = x.array.shape
    if x.array.ndim == 1:
        x = x.reshape((-1,) + (1,) * (y.array.ndim - 1 - along))
    x = x.reshape((1,) * (y.array.ndim - x.array.ndim) + x.array.shape)
    if x.array.ndim != y.array.ndim or any(
        m != n and (a == along or 1 not in (m, n))
        for a, (m, n) in enumerate(zip(x.array.shape, y.array.shape, strict=True))
    ):
        raise ValueError(
            f"trapezoid: x.shape={given} must be ({y.shape[along]},), or broadcast to y.shape={y.shape} with "
            f"as many elements along axis dim={dim}"
        )
    return sum(pairs * diff(x, dim=along), along) * 0.5
