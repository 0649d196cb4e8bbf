"""Indexing kernels: gather, scatter, top-k, masks, sparse rows, and embedding bags."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .ieee import ieee

__all__ = [
    "agrees",
    "argwhere",
    "bag_max",
    "bag_max_grad",
    "bag_shares",
    "coalesced_places",
    "coordinates",
    "csr_product",
    "csr_product_pair",
    "csr_transpose",
    "embedding_factors",
    "embedding_sample_grad",
    "flat_places",
    "floor_mean",
    "gather",
    "inverse_rows",
    "kth",
    "last_writes",
    "line_sums",
    "lines",
    "long_rows",
    "masked_fill",
    "nonzero",
    "nonzero_places",
    "nonzero_static",
    "normalize_index",
    "one_hot",
    "pick",
    "place",
    "put",
    "put_into",
    "ravel_multi_index",
    "repeated_indices",
    "row_starts",
    "scale_rows",
    "scatter_add",
    "scatter_count",
    "scatter_extreme",
    "scatter_turns",
    "take",
    "topk",
    "unravel_index",
    "without_padding",
]


# ---- Elements along an axis by index, the transpose, and the k largest ----------------------------------------------


def pick(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """y[..., j, ...] = x[..., indices[..., j, ...], ...] along ``axis``; indices int64"""
    return np.take_along_axis(x, indices, axis)


def place(g: np.ndarray, indices: np.ndarray, axis: int, extent: int, order: tuple[int, ...]) -> np.ndarray:
    """Zeros, of ``extent`` along ``axis``, with g at the indices; no index occurs twice in a line.

    order: the memory order of the result's axes (C order here)
    """
    y = np.zeros((*g.shape[:axis], extent, *g.shape[axis + 1 :]), g.dtype, like=g)
    np.put_along_axis(y, indices, g, axis)
    return y


def topk(x: np.ndarray, k: int, axis: int, largest: bool) -> np.ndarray:
    """Indices (int64) of the k largest (or smallest) elements along ``axis``, in order; the sort is stable.

    NaN is larger than all numbers.
    """
    if largest:  # sort the reversed elements and reverse the order, so that the sort is stable
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    return np.take(order, range(k), axis).astype(np.int64, copy=False)


def kth(x: np.ndarray, k: int, axis: int) -> np.ndarray:
    """Index (int64) of the k-th smallest element (from 0) along ``axis``, which gets extent 1.

    NaN is larger than all numbers; ties keep their order.
    """
    return np.take(np.argsort(x, axis, kind="stable"), [k], axis).astype(np.int64, copy=False)


# ---- Nonzero elements, and masked fill ------------------------------------------------------------------------------


def nonzero(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """For each axis, the indices (K,) of the elements that are not 0, in C order; a 0-d array counts as a vector."""
    return (x if x.ndim else x.reshape(1)).nonzero()


def argwhere(x: np.ndarray) -> np.ndarray:
    """The indices (K, axes of x) of the elements that are not 0, in C order."""
    return np.argwhere(x)


def nonzero_static(x: np.ndarray, size: int, fill_value: int) -> np.ndarray:
    """The first ``size`` rows of ``argwhere``, int64; rows of ``fill_value`` if there are fewer."""
    places = np.argwhere(x)[:size]
    found = np.full((size, x.ndim), fill_value, np.int64, like=x)
    found[: len(places)] = places
    return found


def masked_fill(x: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """v (0-d) where ``mask`` is True, else x, broadcast to the mask's shape; both of one dtype, any."""
    if x.shape != mask.shape:
        return np.where(mask, v, x)
    y = x.copy(order="K")
    np.copyto(y, v, where=mask)
    return y


# ---- gather and scatter ---------------------------------------------------------------------------------------------
# An index with arrays (``Places``) has three parts: a basic index of ints, slices, None and Ellipsis, which is applied
# first (None: the array itself); axes of that view; and for each of them an int64 array of indices, all of one shape,
# none negative.

Places = tuple[tuple[Any, ...] | None, tuple[int, ...], tuple[np.ndarray, ...]]


def gather(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """y[..., j, ...] = x[..., indices[..., j, ...], ...] along ``axis``; the other extents may be smaller than x's."""
    return np.take_along_axis(_corner(x, indices.shape, axis), indices, axis)


def scatter_add(g: np.ndarray, indices: np.ndarray, axis: int, shape: tuple[int, ...]) -> np.ndarray:
    """Zeros of ``shape`` with g added at the indices along ``axis``: the transpose of ``gather``."""
    y = np.zeros(shape, g.dtype, like=g)
    if indices.shape[axis] == 1:  # no index repeats
        np.put_along_axis(_corner(y, indices.shape, axis), indices, g, axis)
    else:
        np.add.at(y, _along(indices, axis), g)
    return y


def scatter_extreme(
    x: np.ndarray, src: np.ndarray, indices: np.ndarray, axis: int, sign: int, include: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The largest (sign 1) or smallest (-1) of x and the elements of src scattered there, or of src alone.

    include: whether x counts where an element of src is scattered. The result is NaN if any of them is. Also returns
    the masks of the elements of x and of src that equal it, and the number of ties at each position, at least 1.
    """
    y = x.copy(order="K")
    places = _along(indices, axis)
    if not include:
        y[places] = _neutral(y.dtype)[sign > 0]
    with np.errstate(invalid="ignore"):
        (np.maximum if sign > 0 else np.minimum).at(y, places, src)
    touched = np.zeros(y.shape, np.bool_, like=x)
    touched[places] = True
    from_x = (y == x) & ~touched if not include else y == x
    from_src = src == y[places]
    if y.dtype.kind == "f":  # NaN equals nothing: mark the NaN elements, which get the gradient
        from_x |= np.isnan(y) & np.isnan(x) if include else np.isnan(y) & ~touched
        from_src |= np.isnan(src)
    count = from_x.astype(x.dtype)
    np.add.at(count, places, from_src.astype(count.dtype))
    return y, from_x, from_src, np.maximum(count, count.dtype.type(1))


def scatter_count(indices: np.ndarray, axis: int, shape: tuple[int, ...], include: bool) -> np.ndarray:
    """Count the indices along ``axis`` that refer to each position of ``shape``, plus 1 if include; at least 1."""
    count = np.zeros(shape, np.int64, like=indices)
    np.add.at(count, _along(indices, axis), 1)
    return count + 1 if include else np.maximum(count, 1)


def floor_mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """total / count of integers, rounded down, in the dtype of total."""
    return (total // count).astype(total.dtype, copy=False)


def scatter_turns(indices: np.ndarray, axis: int, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The flat position in ``shape`` of each index along ``axis``, and how many earlier indices have that position."""
    flat = np.ravel_multi_index(_along(indices, axis), shape).ravel() if indices.size else indices.ravel()
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    first = np.searchsorted(ordered, ordered)
    turn = np.empty(flat.size, np.int64, like=indices)
    turn[order] = np.arange(flat.size, like=indices) - first
    return flat, turn


def coordinates(indices: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """For each axis, the index along it of all elements that ``gather`` reads, in the shape of ``indices``."""
    return tuple([np.ascontiguousarray(each, like=each) for each in np.broadcast_arrays(*_along(indices, axis))])


def put(x: np.ndarray, v: np.ndarray, places: Places, accumulate: bool) -> np.ndarray:
    """A copy of x with v, broadcast, at ``places``, or added there; if a place repeats, the last value stays."""
    y = x.copy(order="K")
    put_into(y, v, places, accumulate)
    return y


def put_into(y: np.ndarray, v: np.ndarray, places: Places, accumulate: bool) -> None:
    """y[places] = v in place, or +=, as ``put``."""
    basic, axes, arrays = places
    target = y if basic is None else _view(y, basic)
    if not accumulate:
        target[_advanced(axes, arrays) if axes else ...] = np.ascontiguousarray(v, like=y) if v.ndim and axes else v
    elif axes:
        if target.ndim == 1:  # NumPy 2.4 reads beyond the end of a v with one axis if the indices have more
            v = np.broadcast_to(v, arrays[0].shape)
        np.add.at(target, _advanced(axes, arrays), v)
    else:
        target += v


def last_writes(places: Places, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """1 for each value that ``put`` writes last to a position in an array of ``shape``, 0 for those overwritten."""
    basic, axes, arrays = places
    numbers = np.arange(prod(shape), like=arrays[0]).reshape(shape)
    flat = (numbers if basic is None else _view(numbers, basic))[_advanced(axes, arrays)]
    own = np.arange(flat.size, like=flat).reshape(flat.shape)
    owner = np.empty(numbers.size, np.int64, like=flat)
    owner[flat] = own
    return np.asarray(owner[flat] == own, dtype, like=flat)


def take(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """The slices of x at indices (R,) along ``axis``, in x's memory order; elements of any dtype."""
    order = sorted(range(x.ndim), key=lambda a: -abs(x.strides[a]))
    if order == list(range(x.ndim)):
        return x.take(indices, axis)
    y = x.transpose(order).take(indices, order.index(axis))
    return y.transpose(sorted(range(x.ndim), key=order.__getitem__))


def normalize_index(index: np.ndarray, extent: int) -> np.ndarray:
    """The indices with negative ones, which count from the end, made nonnegative."""
    return np.where(index < 0, index + extent, index)


def ravel_multi_index(arrays: tuple[np.ndarray, ...], shape: tuple[int, ...]) -> np.ndarray:
    """The flat positions in ``shape``, in C order, of indices along its axes, all of one shape; a vector."""
    return np.ravel_multi_index(arrays, shape).ravel() if arrays[0].size else np.empty(0, np.int64)


def unravel_index(flat: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """For each axis of ``shape``, the index along it of the flat positions ``flat``, in C order."""
    return tuple(np.asarray(part, np.int64, like=flat) for part in np.unravel_index(flat, shape))


def _view(x: np.ndarray, index: tuple[Any, ...]) -> np.ndarray:
    """x[index] of ints and slices, a view even of a single element."""
    return x[(*index, ...)]


def _advanced(axes: tuple[int, ...], arrays: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
    """Arrays along some axes as an index of NumPy."""
    index: list[Any] = [slice(None)] * (max(axes) + 1)
    for axis, array in zip(axes, arrays, strict=True):
        index[axis] = array
    return tuple(index)


def _along(indices: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """``indices`` along an axis as an index for NumPy."""
    shape = indices.shape
    return tuple(
        indices if a == axis else np.arange(n, like=indices).reshape((n,) + (1,) * (len(shape) - a - 1))
        for a, n in enumerate(shape)
    )


def _corner(x: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """x cropped to ``shape`` in all axes but one: a view."""
    return x[tuple(slice(None) if a == axis else slice(n) for a, n in enumerate(shape))]


def _neutral(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The neutral elements of min and max."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).max, np.iinfo(dtype).min
    return (True, False) if dtype.kind == "b" else (np.inf, -np.inf)


# ---- Slices of an array along an axis: selected, or weighted and summed by a sparse matrix --------------------------

Csr = tuple[np.ndarray, np.ndarray, np.ndarray]


def lines(x: np.ndarray, indices: np.ndarray, axis: int, filling: float = 0.0) -> np.ndarray:
    """y[..., r, ...] = x[..., indices[r], ...] along ``axis``; indices (R,) int64, -1 for a slice of ``filling``"""
    y = np.full((indices.size, *np.moveaxis(x, axis, 0).shape[1:]), filling, x.dtype, like=x)
    used = indices >= 0
    y[used] = np.moveaxis(x, axis, 0)[indices[used]]
    return np.moveaxis(y, 0, axis)


@ieee
def csr_product(x: np.ndarray, axis: int, starts: np.ndarray, indices: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """y[..., r, ...] = sum over k in [starts[r], starts[r+1]) of weights[k] x[..., indices[k], ...] along ``axis``

    The matrix has compressed rows (CSR): starts (R+1,) and indices (K,) of int64, weights (K,) of x's type.
    """
    along = np.moveaxis(x, axis, 0)
    factors = weights.reshape(weights.shape + (1,) * (x.ndim - 1))
    y = np.zeros((starts.size - 1, *along.shape[1:]), x.dtype, like=x)
    rows = np.repeat(np.arange(starts.size - 1, like=starts), np.diff(starts))  # the row of each entry
    np.add.at(y, rows, along[indices] * factors)
    return np.moveaxis(y, 0, axis)


def csr_transpose(
    indices: np.ndarray, columns: int, starts: np.ndarray | None, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The transpose of a matrix with compressed rows: its starts, indices and weights.

    Without ``starts`` each row has one entry; without ``weights`` all are 1, and stay None. The entries of a row are in
    the order of the rows they come from.
    """
    narrow = columns <= 1 << 16  # NumPy sorts 16-bit integers in linear time
    order = np.argsort(indices.astype(np.uint16) if narrow else indices, kind="stable")
    row_of = order if starts is None else np.repeat(np.arange(starts.size - 1, like=starts), np.diff(starts))[order]
    return row_starts(indices, columns), row_of, None if weights is None else weights[order]


def csr_product_pair(x: np.ndarray, axis: int, matrix: Csr, next_matrix: Csr) -> np.ndarray:
    """The product along ``axis`` with ``matrix`` and along the next axis with ``next_matrix``.

    Each matrix is (starts, indices, weights) as in ``csr_product``.
    """
    return csr_product(csr_product(x, axis, *matrix), axis + 1, *next_matrix)


def row_starts(rows: np.ndarray, count: int) -> np.ndarray:
    """CSR starts (count+1,): the first entry of each row, then the number of entries; they are sorted by ``rows``"""
    starts = np.zeros(count + 1, np.int64, like=rows)
    np.cumsum(np.bincount(rows, minlength=count), out=starts[1:])
    return starts


def flat_places(places: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The flat positions (K,) in C order of the indices ``places`` (axes, K) in an array of this shape"""
    flat = np.zeros(places.shape[1], np.int64, like=places)
    for line, extent in zip(places, shape, strict=True):
        flat = flat * extent + line
    return flat


def nonzero_places(x: np.ndarray, axes: int) -> np.ndarray:
    """The indices (axes, K) along the first ``axes`` axes of the parts of x that hold an element other than 0"""
    some = np.asarray((x != 0).any(tuple(range(axes, x.ndim))), like=x)
    return np.stack(np.nonzero(some)) if axes else np.zeros((0, int(some)), np.int64, like=x)


def coalesced_places(places: np.ndarray, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ``places`` (axes, K), sorted by positions ``flat`` (K,); and the index of each among them (K,)"""
    _, first, which = np.unique(flat, return_index=True, return_inverse=True)
    return places[:, first], which


def line_sums(x: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    """``count`` slices along the first axis: sums of the slices of x with this place (K,); integers, which wrap"""
    total = np.zeros((count, *x.shape[1:]), x.dtype, like=x)
    np.add.at(total, places, x)
    return total


def repeated_indices(counts: np.ndarray, extent: int) -> np.ndarray:
    """0, 1, ..., extent - 1, each ``counts`` times: one number for all, or one for each"""
    return np.repeat(np.arange(extent, like=counts), counts.reshape(-1))


# ---- Rows of a table by index ---------------------------------------------------------------------------------------


def bag_max(x: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest element of each column among rows starts[b] to starts[b+1] of x (K, D), and its row: (bags, D).

    For an empty bag they are 0 and -1.
    """
    bags, columns = starts.size - 1, x.shape[1]
    places = np.full((bags, columns), -1, like=x)
    for b in range(bags):
        if starts[b] < starts[b + 1]:
            places[b] = starts[b] + x[starts[b] : starts[b + 1]].argmax(0)
    y = np.take_along_axis(x, np.maximum(places, 0), 0) if x.size else np.zeros(places.shape, x.dtype, like=x)
    return np.where(places >= 0, y, 0).astype(x.dtype, copy=False), places


def bag_max_grad(g: np.ndarray, places: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Zeros of ``shape`` with g in the rows that ``bag_max`` found."""
    y = np.zeros(shape, g.dtype, like=g)
    bag, column = (places >= 0).nonzero()
    y[places[bag, column], column] = g[bag, column]
    return y


def bag_shares(starts: np.ndarray, size: int, dtype: np.dtype[Any]) -> np.ndarray:
    """For each of ``size`` (= starts[-1]) entries, 1 divided by the number of entries of its bag."""
    count = np.diff(starts)
    return np.repeat((1.0 / np.maximum(count, 1)).astype(dtype), count)


def embedding_factors(
    indices: np.ndarray, rows: int, padding: int | None, by_frequency: bool, dtype: np.dtype[Any]
) -> np.ndarray:
    """The factor of the gradient of each row used: 0 for the row ``padding``, else 1.

    by_frequency: instead of 1, 1 divided by the number of uses of the row
    """
    factors = np.ones(indices.size, like=indices)
    if by_frequency:
        factors /= np.bincount(indices, minlength=rows)[indices]
    if padding is not None:
        factors[indices == padding] = 0
    return factors.astype(dtype, copy=False)


def without_padding(indices: np.ndarray, starts: np.ndarray, padding: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The entries of bags that are not ``padding``, where the bags start among them, and their former positions."""
    kept = np.flatnonzero(indices != padding)
    return indices[kept], np.searchsorted(kept, starts), kept


@ieee
def long_rows(
    weight: np.ndarray, indices: np.ndarray, max_norm: float, norm_type: float
) -> tuple[np.ndarray, np.ndarray]:
    """The distinct indices of rows whose norm exceeds ``max_norm``, and the factors that scale them down to it."""
    used = np.unique(indices)
    norms = np.linalg.norm(weight[used], norm_type, axis=1)
    large = norms > max_norm
    return used[large], (max_norm / (norms[large] + 1e-7)).astype(weight.dtype)


@ieee
def scale_rows(weight: np.ndarray, rows: np.ndarray, factors: np.ndarray) -> None:
    """weight[rows] *= factors in place; no row occurs twice."""
    weight[rows] = weight[rows] * factors[:, np.newaxis]


def one_hot(classes: np.ndarray, count: int) -> np.ndarray:
    """y[..., c] = 1 where classes[...] = c, else 0 (int64); c < count"""
    return (classes[..., np.newaxis] == np.arange(count, like=classes)).astype(np.int64)


def inverse_rows(rows: np.ndarray, count: int) -> np.ndarray:
    """y[rows[k]] = k, and -1 for each of ``count`` rows that is not among ``rows``, which are all different."""
    y = np.full(count, -1, like=rows)
    y[rows] = np.arange(len(rows), like=rows)
    return y


# ---- Gradients of each sample ---------------------------------------------------------------------------------------


def embedding_sample_grad(
    g: np.ndarray, indices: np.ndarray, shape: tuple[int, ...], padding: int | None
) -> np.ndarray:
    """The gradient (N, *shape) to an embedding's weight of each of N samples: g summed at the indices (N, *).

    padding: a row whose gradient is 0, or None.
    """
    gw = np.zeros((indices.shape[0], *shape), g.dtype, like=g)
    samples = np.arange(indices.shape[0], like=g).reshape(-1, *(1,) * (indices.ndim - 1))
    np.add.at(gw, (np.broadcast_to(samples, indices.shape), indices), g)
    if padding is not None:
        gw[:, padding] = 0
    return gw


@ieee
def agrees(x: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    """Whether |x - expected| is at most the tolerance times |expected| plus its largest finite absolute value."""
    finite = np.abs(expected[np.isfinite(expected)])
    scale = float(finite.max()) if finite.size else 0.0
    return np.allclose(x, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
