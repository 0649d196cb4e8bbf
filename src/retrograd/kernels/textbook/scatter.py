"""gather and scatter: elements read or written by index along an axis, or at the places of an index of arrays.

Such an index is split in three: ints, slices, None and Ellipsis, which give a view (None for the array itself); axes of
that view; and an array of int64 for each of them, all of one shape, none negative.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

__all__ = [
    "coordinates",
    "floor_mean",
    "gather",
    "last_writes",
    "normalize_index",
    "put",
    "put_into",
    "ravel_multi_index",
    "scatter_add",
    "scatter_count",
    "scatter_extreme",
    "scatter_turns",
    "take",
    "unravel_index",
]

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

    include: whether x counts where an element of src goes. NaN wins. Also returns which elements of x and of src it is,
    and how many of them share each place, at least 1.
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
    if y.dtype.kind == "f":  # the gradient of NaN goes to NaN
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
    """total / count, rounded down, in the type of total, which holds integers."""
    return (total // count).astype(total.dtype, copy=False)


def scatter_turns(indices: np.ndarray, axis: int, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The flat place in ``shape`` of each index along ``axis``, and how many indices before it have the same place."""
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
        np.add.at(target, _advanced(axes, arrays), v)
    else:
        target += v


def last_writes(places: Places, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """1 for each value that ``put`` writes last to its place in an array of ``shape``, 0 for those overwritten."""
    basic, axes, arrays = places
    numbers = np.arange(prod(shape), like=arrays[0]).reshape(shape)
    flat = (numbers if basic is None else _view(numbers, basic))[_advanced(axes, arrays)]
    own = np.arange(flat.size, like=flat).reshape(flat.shape)
    owner = np.empty(numbers.size, np.int64, like=flat)
    owner[flat] = own
    return np.asarray(owner[flat] == own, dtype, like=flat)


def take(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """The lines of x at indices (R,) along ``axis``, in x's memory order; elements of any type."""
    order = sorted(range(x.ndim), key=lambda a: -abs(x.strides[a]))
    if order == list(range(x.ndim)):
        return x.take(indices, axis)
    y = x.transpose(order).take(indices, order.index(axis))
    return y.transpose(sorted(range(x.ndim), key=order.__getitem__))


def normalize_index(index: np.ndarray, extent: int) -> np.ndarray:
    """index, where negative ones count from the end, counted from the front."""
    return np.where(index < 0, index + extent, index)


def ravel_multi_index(arrays: tuple[np.ndarray, ...], shape: tuple[int, ...]) -> np.ndarray:
    """The flat places in ``shape``, in C order, of indices along its axes, all of one shape; a vector."""
    return np.ravel_multi_index(arrays, shape).ravel() if arrays[0].size else np.empty(0, np.int64)


def unravel_index(flat: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """For each axis of ``shape``, the index along it of the flat places ``flat``, in C order."""
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
