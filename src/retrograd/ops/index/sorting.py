"""Sorting and order statistics: sort, topk, median, quantile, unique, membership.

NaN sorts after all numbers. The gradient of a selected element goes to its index.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...arrays import any_nan, any_true, from_host, full, within, zeros_like
from ...engine.arguments import kind_name
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..argument_checks import as_flag, as_index, as_real, copy_for_backward, is_number, require_float, require_tensor
from ..pointwise.piecewise import where
from ..pointwise.pointwise import WithoutGradient
from ..reduce.reduction import Amax
from ..shape.shape import Permute, Reshape, apply_to_0d, axis, reshaped, sizes
from .gather import Gather
from .indexing import in_range
from .pick import Pick

__all__ = [
    "argsort",
    "isin",
    "kthvalue",
    "median",
    "mode",
    "msort",
    "nanmedian",
    "nanquantile",
    "quantile",
    "sort",
    "topk",
    "unique",
    "unique_consecutive",
    "unravel_index",
]


# ---- Order statistics along an axis: sorting, the k largest, medians and modes --------------------------------------


class Ordered(NamedTuple):
    """The result of ``sort``, ``topk``, ``kthvalue``, ``median`` and ``mode``: elements and their indices (int64)."""

    values: Tensor
    indices: Tensor


class MedianOfAll(Function):
    """The median of all elements (the lower of two middle ones); ties share the gradient evenly."""

    gradient = "x: g, shared evenly among the elements that are the median"

    @staticmethod
    def forward(ctx: Any, x: Tensor, skip: bool) -> Tensor:
        value = kernels.median(x.array, skip)
        ctx.save_for_backward(x, value)
        ctx.axes = tuple(range(x.array.ndim))
        return wrap(value.reshape(()))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.saved_tensors[0].array.size:
            return wrap(zeros_like(ctx.saved_tensors[0].array)), None
        return Amax.backward(ctx, g)


@operator(records=Pick, methods="sort", dtypes="bihf")
def sort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Ordered:
    """Return (values, indices): the elements sorted along ``dim``, and their indices.

    stable: equal elements keep their order.

    Raises:
        TypeError: input is not a Tensor.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(sort, locals())) is not None:
        return seen
    descending = as_flag("sort", "descending", descending)
    stable = as_flag("sort", "stable", stable)
    along = _axis("sort", input, dim)
    if not input.array.ndim:
        return apply_to_0d(sort, input, dim, descending, stable=stable)
    return _picked(input, kernels.argsort(input.array, along, descending, stable), along)


@operator(methods="msort", dtypes="bihf")
def msort(input: Tensor) -> Tensor:
    """Sort the elements along the first axis.

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(msort, locals())) is not None:
        return seen
    require_tensor("msort", input)
    return sort(input, 0).values


@operator(methods="argsort", dtypes="bihf")
def argsort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    """Return the indices that sort input, as ``sort`` returns them (int64, no gradient).

    Raises: as ``sort``.
    """
    if interpreters and (seen := interpreted(argsort, locals())) is not None:
        return seen
    descending = as_flag("argsort", "descending", descending)
    stable = as_flag("argsort", "stable", stable)
    along = _axis("argsort", input, dim)
    if not input.array.ndim:
        return apply_to_0d(argsort, input, dim, descending, stable=stable)
    return wrap(kernels.argsort(input.array, along, descending, stable))


@operator(records=Pick, methods="topk", dtypes="bihf")
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Ordered:
    """Return (values, indices) of the k largest (or smallest) elements along ``dim``, in order.

    sorted: accepted for compatibility with PyTorch; the result is always sorted.

    Raises:
        TypeError: input is not a Tensor.
        ValueError: there are fewer than k elements.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(topk, locals())) is not None:
        return seen
    along = _axis("topk", input, dim)
    largest = as_flag("topk", "largest", largest)
    if sorted is not True:
        as_flag("topk", "sorted", sorted)
    if not input.array.ndim:  # as in PyTorch, k = 0 counts as 1
        return apply_to_0d(topk, input, 1 if k == 0 else k, dim, largest)
    length = input.array.shape[along]
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 0 <= k <= length:
        raise ValueError(f"topk: k={k!r} must be an int from 0 to {length}, the extent of axis dim={dim}")
    select = kernels.topk if input.array.dtype.kind == "f" else exact("topk")
    return _picked(input, select(input.array, k, along, largest), along)


@operator(records=Pick, methods="kthvalue", dtypes="bihf")
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Ordered:
    """Return (values, indices) of the k-th smallest element (counted from 1) along ``dim``.

    Raises:
        TypeError: input is not a Tensor.
        ValueError: there are fewer than k elements, or k is below 1.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(kthvalue, locals())) is not None:
        return seen
    along = _axis("kthvalue", input, dim)
    keepdim = as_flag("kthvalue", "keepdim", keepdim)
    if not input.array.ndim:
        return apply_to_0d(kthvalue, input, k, dim)
    length = input.array.shape[along]
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= length:
        raise ValueError(f"kthvalue: k={k!r} must be an int from 1 to {length}, the extent of axis dim={dim}")
    return _one_each(input, _kth(input.array, k - 1, along), along, keepdim)


@operator(records=(MedianOfAll, Pick), methods="median", dtypes="bihf")
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Compute the median of all elements, or (values, indices) of the medians along ``dim``.

    Of two middle elements, the lower one is the median. The result is NaN if there is a NaN. The gradient of
    ``median(input)`` is shared evenly among ties; that of ``median(input, dim)`` goes to the index.

    Raises:
        TypeError: input is not a Tensor.
        ValueError: there is no element along ``dim``.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(median, locals())) is not None:
        return seen
    return _median("median", input, dim, keepdim, False)


@operator(records=(MedianOfAll, Pick), methods="nanmedian", dtypes="bihf")
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Compute the ``median`` of the elements that are not NaN; NaN if there are none.

    Raises: as ``median``.
    """
    if interpreters and (seen := interpreted(nanmedian, locals())) is not None:
        return seen
    return _median("nanmedian", input, dim, keepdim, True)


@operator(records=Pick, methods="mode", dtypes="bihf")
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Ordered:
    """Return (values, indices): the most frequent element along ``dim``, and its last index.

    Of several equally frequent elements, the smallest is returned.

    Raises: as ``median``.
    """
    if interpreters and (seen := interpreted(mode, locals())) is not None:
        return seen
    along = _axis("mode", input, dim)
    keepdim = as_flag("mode", "keepdim", keepdim)
    if not input.array.ndim:
        return apply_to_0d(mode, input, dim, keepdim)
    require_elements("mode", input, along, dim)
    return _one_each(input, kernels.mode(input.array, along), along, keepdim)


@operator(records=WithoutGradient, methods="unique", dtypes="bihf")
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the distinct elements of input, or distinct slices along ``dim``, sorted. Each NaN is distinct.

    There is no gradient: a backward pass through the result raises NotImplementedError.

    return_inverse: also return the index of each element of input in the output; return_counts: also return counts. The
        result is then a tuple of the requested values, in the order (output, inverse, counts)
    sorted: accepted for compatibility with PyTorch; the result is always sorted

    Raises: as ``sort``.
    """
    if interpreters and (seen := interpreted(unique, locals())) is not None:
        return seen
    require_tensor("unique", input)
    for argument, value in (("sorted", sorted), ("return_inverse", return_inverse), ("return_counts", return_counts)):
        as_flag("unique", argument, value)
    along = None if dim is None else axis("unique", "dim", dim, input.array.ndim)
    output, inverse, counts = kernels.unique(input.array, along)
    results = [WithoutGradient.apply(input, output, "unique") if input._requires_grad else wrap(output)]
    if return_inverse:
        results.append(wrap(inverse))
    if return_counts:
        results.append(wrap(counts))
    return results[0] if len(results) == 1 else tuple(results)


def _axis(name: str, x: Tensor, dim: int) -> int:
    require_tensor(name, x)
    return axis(name, "dim", dim, x.array.ndim or 1)


def require_elements(name: str, x: Tensor, along: int, dim: int | None) -> None:
    """Raise ValueError unless x has elements along the axis."""
    if x.array.shape[along] == 0:
        raise ValueError(f"{name}: input.shape={x.array.shape} has no element to choose from along dim={dim}")


def _kth(x: np.ndarray, k: int, along: int) -> np.ndarray:
    """Return the indices of the k-th smallest elements (counted from 0); their axis has extent 1."""
    index: np.ndarray = (kernels.kth if x.dtype.kind == "f" else exact("kth"))(x, k, along)
    return index


def _picked(x: Tensor, indices: np.ndarray, along: int) -> Ordered:
    if x.array.dtype.kind == "f":
        values = Pick.apply(x, indices, along)
        return Ordered(values, wrap(copy_for_backward(indices, values.requires_grad)))
    return Ordered(wrap(exact("pick")(x.array, indices, along)), wrap(indices))


def _one_each(x: Tensor, indices: np.ndarray, along: int, keepdim: bool) -> Ordered:
    """Return the elements at indices with extent 1 along the axis, which is removed unless ``keepdim``."""
    found = _picked(x, indices, along)
    if keepdim:
        return found
    shape = indices.shape[:along] + indices.shape[along + 1 :]
    return Ordered(Reshape.apply(found.values, shape), wrap(found.indices.array.reshape(shape)))


def _median(name: str, x: Tensor, dim: int | None, keepdim: bool, skip: bool) -> Any:
    require_tensor(name, x)
    keepdim = as_flag(name, "keepdim", keepdim)
    if dim is None:
        if keepdim:
            raise ValueError(f"{name}: keepdim=True needs dim")
        if x.array.dtype.kind == "f":
            return MedianOfAll.apply(x, skip)
        if not x.array.size:
            raise ValueError(f"{name}: input.shape={x.array.shape} has no element to choose from")
        return wrap(kernels.median(x.array, skip).reshape(()))
    along = _axis(name, x, dim)
    if not x.array.ndim:
        return apply_to_0d(nanmedian if skip else median, x, dim)
    require_elements(name, x, along, dim)
    if any_nan(x.array, "whether to order NaN"):
        index = kernels.median_index(x.array, along, skip)
    else:
        index = _kth(x.array, (x.array.shape[along] - 1) // 2, along)
    return _one_each(x, index, along, keepdim)


# ---- Quantiles along an axis ----------------------------------------------------------------------------------------


@operator(records=Gather, methods="quantile")
def quantile(
    input: Tensor, q: Tensor | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Compute the quantiles ``q`` along ``dim``, or of all elements.

    A quantile is the element with index q (n - 1) of n sorted elements. Between two elements, ``interpolation`` selects
    the value: "linear", "lower", "higher", "midpoint" or "nearest". The result is NaN if there is a NaN.

    q: a number from 0 to 1, or a Tensor (Q,) of them, whose axis comes first in the result; with linear interpolation
        q also has a gradient

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
    input: Tensor, q: Tensor | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Compute the ``quantile`` of the elements that are not NaN; NaN if there are none.

    Raises: as ``quantile``.
    """
    if interpreters and (seen := interpreted(nanquantile, locals())) is not None:
        return seen
    return _along("nanquantile", input, q, dim, keepdim, interpolation, True)


def _along(
    name: str, input: Tensor, q: Tensor | float, dim: int | None, keepdim: bool, interpolation: str, skip: bool
) -> Tensor:
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


def _parts(name: str, x: Tensor, q: Tensor | float) -> Tensor:
    if isinstance(q, Tensor):
        if q.array.dtype != x.array.dtype:
            raise TypeError(f"{name}: q is {q.array.dtype}, needs input's type, {x.array.dtype}")
        parts = q
    elif is_number(q):
        parts = wrap(from_host(as_real(name, "q", q), np.float64, like=x.array))
    else:
        raise TypeError(f"{name}: q is {kind_name(q)}, needs a number or a Tensor")
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
        weight = wrap(share) + (own - own.detach()) * wrap(steps)  # with the derivative with respect to q
    elif not any_true(between, "whether a quantile lies between two elements"):
        return y
    else:
        weight = wrap(full((), 0.5, dtype, like=x.array) if interpolation == "midpoint" else share)
    return y + where(wrap(between), Gather.apply(x, upper, along) - y, 0.0) * weight  # avoids inf - inf


# ---- Membership, runs of equal elements, and unraveled indices -------------------------------------------------------


@operator(dtypes="bihf")
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Return True where an element is in ``test_elements``; one argument may be a number; no gradient.

    assume_unique: declare that each argument has distinct elements; no effect on the result. invert: return True where
    an element is not in it

    Raises:
        TypeError: neither is a Tensor, or one is neither a Tensor nor a number.
    """
    if interpreters and (seen := interpreted(isin, locals())) is not None:
        return seen
    pair = (("elements", elements), ("test_elements", test_elements))
    for label, value in pair:
        if not isinstance(value, Tensor) and not is_number(value):
            require_tensor("isin", value, label)
    if not any(isinstance(value, Tensor) for _, value in pair):
        require_tensor("isin", elements, "elements")
    as_flag("isin", "assume_unique", assume_unique)
    x, y = (value.array if isinstance(value, Tensor) else from_host(value) for _, value in pair)
    return wrap(kernels.isin(x, y, as_flag("isin", "invert", invert)))


@operator(records=WithoutGradient, methods="unique_consecutive", dtypes="bihf")
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Merge equal neighboring elements of the flattened input, or equal neighboring slices along ``dim``.

    There is no gradient: a backward pass through the result raises NotImplementedError.

    return_inverse: also return the index in the output of each element or slice. return_counts: also return the lengths
        of the runs. The result is then a tuple of the output and the requested values

    Raises:
        TypeError: input is not a Tensor.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(unique_consecutive, locals())) is not None:
        return seen
    require_tensor("unique_consecutive", input)
    return_inverse = as_flag("unique_consecutive", "return_inverse", return_inverse)
    return_counts = as_flag("unique_consecutive", "return_counts", return_counts)
    along = 0 if dim is None else axis("unique_consecutive", "dim", dim, input.array.ndim)
    x = reshaped(input.array, (-1,)) if dim is None else input.array
    merged, inverse, counts = kernels.unique_consecutive(x, along, return_inverse, return_counts)
    results = [WithoutGradient.apply(input, merged, "unique_consecutive") if input._requires_grad else wrap(merged)]
    if inverse is not None:
        results.append(wrap(inverse.reshape(input.array.shape) if dim is None else inverse))
    if counts is not None:
        results.append(wrap(counts))
    return results[0] if len(results) == 1 else tuple(results)


@operator(dtypes="i")
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Convert flat ``indices`` (C order) to one index per axis of ``shape``, each int64 in the shape of indices.

    Raises:
        TypeError: ``indices`` is not int64, or shape is neither an int nor ints.
        IndexError: an index is out of range.
        ValueError: a tensor of this shape has more elements than int64 can count.
    """
    if interpreters and (seen := interpreted(unravel_index, locals())) is not None:
        return seen
    indices = as_index("unravel_index", indices, "indices")
    extents = sizes("unravel_index", "shape", (shape,))
    size = prod(extents)
    if size >= 1 << 63:
        raise ValueError(f"unravel_index: shape={extents} has {size} elements, more than int64 can count")
    flat = in_range("unravel_index", "indices", indices.array, size, f"shape={extents} with {size} elements")
    if not extents:
        return ()
    return tuple(map(wrap, kernels.unravel_index(flat, extents)))
