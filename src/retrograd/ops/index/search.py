"""Search in sorted sequences, and histograms."""

from __future__ import annotations

from math import isfinite, prod
from typing import Any, NamedTuple

import numpy as np

from ...arrays import all_true, extremes, from_host, linspace, zeros
from ...engine.arguments import kind_name
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..argument_checks import (
    as_flag,
    as_index,
    as_list,
    as_real,
    is_number,
    require_float,
    require_same,
    require_tensor,
)
from ..shape.shape import TOO_LONG, reshaped

__all__ = ["bincount", "bucketize", "histc", "histogram", "histogramdd", "searchsorted"]


class Histogram(NamedTuple):
    """The result of ``histogram``."""

    hist: Tensor
    bin_edges: Tensor


class HistogramDD(NamedTuple):
    """The result of ``histogramdd``."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


@operator(dtypes="bihf")
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Find the insertion index of each element in a sorted sequence, before equal elements, or after if ``right``.

    sorted_sequence (*, L), increasing or sorted by the indices ``sorter`` (*, L); input (*, K) -> (*, K), no
    gradient. For a sequence (L,), input has any shape, or is a number. side: "left" or "right", instead of ``right``.
    out_int32: return int32 instead of int64

    Raises:
        TypeError: sorted_sequence is not a Tensor, or input neither a Tensor nor a number.
        ValueError: the shapes do not fit, or side contradicts ``right`` or is unknown.
    """
    if interpreters and (seen := interpreted(searchsorted, locals())) is not None:
        return seen
    kind = np.int32 if as_flag("searchsorted", "out_int32", out_int32) else np.int64
    right = as_flag("searchsorted", "right", right)
    if not isinstance(sorted_sequence, Tensor):
        raise TypeError(f"searchsorted: sorted_sequence is {kind_name(sorted_sequence)}, needs a Tensor")
    if side is not None and (side not in ("left", "right") or (right and side == "left")):
        raise ValueError(f'searchsorted: side={side!r} must be "left" or "right" and agree with right={right}')
    sequence = sorted_sequence.array
    if not sequence.ndim:
        raise ValueError("searchsorted: sorted_sequence has no axis, needs at least 1")
    if sorter is not None:
        require_tensor("searchsorted", sorter, "sorter")
        if sorter.array.shape != sequence.shape or sorter.array.dtype != np.int64:
            raise ValueError(
                f"searchsorted: sorter must contain int64 indices in the shape of sorted_sequence, {sequence.shape}; "
                f"it is {sorter.array.dtype} of shape {sorter.array.shape}"
            )
        sequence = kernels.gather(sequence, sorter.array, sequence.ndim - 1)
    if is_number(input):
        values = from_host(input, like=sequence)
    elif isinstance(input, Tensor):
        values = input.array
    else:
        raise TypeError(f"searchsorted: input is {kind_name(input)}, needs a Tensor or a number")
    if sequence.ndim > 1 and (sequence.ndim != values.ndim or sequence.shape[:-1] != values.shape[:-1]):
        raise ValueError(
            f"searchsorted: sorted_sequence.shape={sequence.shape} and input.shape={values.shape} must be equal "
            f"except for the last axis, or sorted_sequence must have one axis"
        )
    return wrap(kernels.searchsorted(sequence, values, right or side == "right", kind))


@operator(dtypes="bihf")
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Return the index, 0 to L, of the interval between increasing ``boundaries`` (L,) that contains each element.

    A boundary belongs to the interval below it, or above it if ``right``. out_int32: as in ``searchsorted``.

    Raises:
        TypeError: boundaries is not a Tensor, or input neither a Tensor nor a number.
        ValueError: boundaries does not have one axis.
    """
    if interpreters and (seen := interpreted(bucketize, locals())) is not None:
        return seen
    if not isinstance(boundaries, Tensor):
        raise TypeError(f"bucketize: boundaries is {kind_name(boundaries)}, needs a Tensor")
    if boundaries.array.ndim != 1:
        raise ValueError(f"bucketize: boundaries.shape={boundaries.array.shape} must have one axis")
    out_int32 = as_flag("bucketize", "out_int32", out_int32)
    return searchsorted(boundaries, input, out_int32=out_int32, right=as_flag("bucketize", "right", right))


@operator(methods="histc")
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Count the elements in each of ``bins`` equal parts of [min, max], or of the elements' range if min = max.

    input (any shape) -> (bins,) in input's type, no gradient. Elements outside this range, and NaN, are not counted.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: bins is below 1 or too large for any memory, or the range is empty or not finite.
    """
    if interpreters and (seen := interpreted(histc, locals())) is not None:
        return seen
    require_float("histc", input)
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or not 1 <= bins < TOO_LONG:
        raise ValueError(f"histc: bins={bins!r} must be an int from 1 to {TOO_LONG - 1}")
    x = reshaped(input.array, (-1,))
    low, high = as_real("histc", "min", min), as_real("histc", "max", max)
    if low == high and x.size:
        low, high = extremes(x, "the range of a histogram")
    if low == high:
        low, high = low - 1, high + 1
    with np.errstate(over="ignore"):
        finite = isfinite(x.dtype.type(low)) and isfinite(x.dtype.type(high))
    if not (low < high and finite):
        raise ValueError(f"histc: the range from min={low} to max={high} must be finite and not empty")
    return wrap(kernels.histc(x, bins, low, high))


@operator(methods="bincount", dtypes="i")
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Count the occurrences of each of 0, 1, 2, ..., or sum their ``weights``; no gradient.

    input (n,) int64, weights (n,) -> (max(minlength, largest + 1),) int64, or float64 or the weights' type

    Raises:
        TypeError: input is not an int64 Tensor.
        ValueError: input does not have one axis or has a negative element, weights have a different shape, minlength is
            negative, or an element or minlength is too large for any memory.
    """
    if interpreters and (seen := interpreted(bincount, locals())) is not None:
        return seen
    input = as_index("bincount", input)
    smallest, largest = extremes(input.array, "which numbers to count") if input.array.size else (0, 0)
    if input.array.ndim != 1 or smallest < 0:
        raise ValueError(f"bincount: input must have one axis and no negative element; input.shape={input.array.shape}")
    if weights is not None and weights.array.shape != input.array.shape:
        raise ValueError(f"bincount: weights.shape={weights.array.shape} must equal input.shape={input.array.shape}")
    if isinstance(minlength, bool) or not isinstance(minlength, (int, np.integer)) or not 0 <= minlength < TOO_LONG:
        raise ValueError(f"bincount: minlength={minlength!r} must be an int from 0 to {TOO_LONG - 1}")
    if largest >= TOO_LONG:
        raise ValueError(f"bincount: input contains {largest}, which is too large for any memory")
    length = max(int(minlength), largest + 1 if input.array.size else 0)
    return wrap(kernels.bincount(input.array, None if weights is None else weights.array, length))


@operator(methods="histogram")
def histogram(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Histogram:
    """Return (hist, bin_edges): the number of elements between neighboring edges, the last edge included; no gradient.

    bins: the number of equal parts of ``range`` (low, high), by default of the elements' range, or of (0, 1) if there
        are no elements; or increasing edges
    weight: the weight of each element, in input's shape
    density: divide by the total and by the width of each bin; NaN if nothing is counted

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: bins are neither a positive int nor increasing edges, the range is empty or not finite, or weight
            has a different shape.
    """
    if interpreters and (seen := interpreted(histogram, locals())) is not None:
        return seen
    require_float("histogram", input)
    density = as_flag("histogram", "density", density)
    if isinstance(bins, Tensor):
        edges = bins.array
        if edges.ndim != 1 or edges.size < 2 or not _increasing(edges):
            raise ValueError(f"histogram: bins={bins} must be at least 2 edges in increasing order")
    elif isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins < TOO_LONG:
        raise ValueError(f"histogram: bins={bins!r} must be an int from 1 to {TOO_LONG - 1}, or a Tensor of edges")
    else:
        x = input.array
        if range is None and x.size:  # in the type of x, like the edges
            low, high = map(x.dtype.type, extremes(x, "the range of a histogram"))
        elif range is None:
            low, high = 0.0, 1.0
        else:
            ends = as_list("histogram", "range", range, "two numbers")
            if len(ends) != 2:
                raise ValueError(f"histogram: range={range} must be two numbers: (low, high)")
            low, high = (as_real("histogram", "range", end) for end in ends)
        if low == high:
            low, high = low - 0.5, high + 0.5
        if not (low < high and isfinite(low) and isfinite(high)):
            raise ValueError(f"histogram: range={range}, from {low} to {high}, must be finite and not empty")
        edges = linspace(low, high, bins + 1, x.dtype, like=x)  # the returned edges, so that counts agree with them
    if weight is not None:
        require_tensor("histogram", weight, "weight")
    if weight is not None and weight.array.shape != input.array.shape:
        raise ValueError(f"histogram: weight.shape={weight.array.shape} must equal input.shape={input.array.shape}")
    counts = kernels.histogram(input.array, edges, None if weight is None else weight.array, density)
    return Histogram(wrap(counts), wrap(kernels.cast(edges, input.array.dtype)))


@operator
def histogramdd(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> HistogramDD:
    """Return (hist, bin_edges): the number of points in each bin of a grid over N axes; no gradient.

    input (..., N) contains the points; for each coordinate, hist has one axis and bin_edges one tuple entry. A bin
    includes its lower edge, and the last bin of an axis both. Points outside, and those with a NaN, are not counted.

    bins: an int, or a sequence of N ints, the number of bins on each axis; or a sequence of N increasing Tensors of
        edges
    range: (low, high) of each axis in one flat sequence, by default that of the points
    weight: the weight of each point, in the shape of input without its last axis
    density: divide by the total and by the volume of each bin; NaN if nothing is counted

    Raises:
        TypeError: input is not a floating-point Tensor, bins are neither ints nor Tensors, or edges or weight
            differ in type from input.
        ValueError: a shape does not fit, bins is not positive, edges do not increase, or a range is not finite or
            descends.
    """
    if interpreters and (seen := interpreted(histogramdd, locals())) is not None:
        return seen
    require_float("histogramdd", input)
    density = as_flag("histogramdd", "density", density)
    shape = input.array.shape
    if len(shape) < 2:
        raise ValueError(f"histogramdd: input.shape={shape} must have at least 2 axes: (..., N) with N coordinates")
    axes = shape[-1]
    points = reshaped(input.array, (prod(shape[:-1]), axes))
    given = list(bins) if isinstance(bins, (tuple, list)) else [bins] * axes
    if len(given) != axes:
        raise ValueError(f"histogramdd: bins has {len(given)} entries, needs {axes} for input.shape={shape}")
    if range is not None and len(range) != 2 * axes:
        raise ValueError(f"histogramdd: range has {len(range)} numbers, needs {2 * axes}: (low, high) of each axis")
    if weight is not None:
        require_same("histogramdd", "input", input, "weight", weight)
        if weight.array.shape != shape[:-1]:
            raise ValueError(f"histogramdd: weight.shape={weight.array.shape} must be {shape[:-1]}, one per point")
    edges = []
    for axis, entry in enumerate(given):
        limits = None if range is None else (float(range[2 * axis]), float(range[2 * axis + 1]))
        edges.append(_edges(entry, axis, points[:, axis], limits))
    counts = kernels.histogramdd(points, edges, None if weight is None else weight.array, density)
    return HistogramDD(wrap(counts), tuple(wrap(own) for own in edges))


def _increasing(edges: np.ndarray) -> bool:
    """Return True if no edge is below its predecessor; False with NaN, or with two neighbors at the same infinity."""
    widths = exact("sub")(edges[1:], edges[:-1])
    return all_true(exact("le")(zeros((), widths.dtype, like=edges), widths), "whether edges increase")


def _edges(bins: Any, axis: int, x: np.ndarray, limits: tuple[float, float] | None) -> np.ndarray:
    """Return the edges of one axis of ``histogramdd``, in the type of its coordinates x."""
    if isinstance(bins, Tensor):
        edges: np.ndarray = bins.array
        if edges.dtype != x.dtype:
            raise TypeError(
                f"histogramdd: bins[{axis}] is {edges.dtype}, input is {x.dtype}; both must have the same type"
            )
        if edges.ndim != 1 or edges.size < 2 or not _increasing(edges):
            raise ValueError(f"histogramdd: bins[{axis}]={bins} must be at least 2 edges in increasing order")
        return kernels.duplicate(edges)
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)):
        raise TypeError(f"histogramdd: bins[{axis}]={bins!r} must be an int, or a Tensor of edges")
    if not 1 <= bins < TOO_LONG:
        raise ValueError(f"histogramdd: bins[{axis}]={bins} must be from 1 to {TOO_LONG - 1}")
    low, high = limits or (extremes(x, "the range of a histogram") if x.size else (0.0, 1.0))
    if not (low <= high and isfinite(low) and isfinite(high)):
        raise ValueError(
            f"histogramdd: the range of axis {axis}, from {low} to {high}, must be finite and must not descend"
        )
    if low == high:
        low, high = low - 0.5, high + 0.5
    return linspace(low, high, int(bins) + 1, x.dtype, like=x)
