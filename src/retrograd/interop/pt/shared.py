"""Storages in a file for tensors that share memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["Placed", "place_all"]


@dataclass(frozen=True)
class Placed:
    """A tensor as a view of a storage; offset and stride count numbers."""

    storage: int
    numbers: int
    dtype: str
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True)
class _View:
    number: int
    array: np.ndarray
    low: int  # addresses of its first byte and behind its last one
    high: int


def place_all(arrays: Mapping[int, np.ndarray]) -> tuple[list[np.ndarray], dict[int, Placed]]:
    """The storages of arrays, as arrays of one axis, and the place of each array in them, by its number.

    Arrays of one dtype whose memory overlaps share a storage: the memory from the first number of one to the last of
    another. Nothing else of the memory that they are parts of is in it.
    """
    views = sorted((_view(number, array) for number, array in arrays.items()), key=_address)
    groups: list[list[_View]] = []
    end = 0
    for view in views:
        first = groups[-1][0] if groups else view
        same = first.array.dtype == view.array.dtype and (view.low - first.low) % view.array.itemsize == 0
        if groups and same and view.low < end:
            groups[-1].append(view)
            end = max(end, view.high)
        else:
            groups.append([view])
            end = view.high
    position = {number: place for place, number in enumerate(arrays)}
    groups.sort(key=lambda group: min(position[view.number] for view in group))
    storages: list[np.ndarray] = []
    placed = {}
    for group in groups:
        first, width = group[0], group[0].array.itemsize
        numbers = (max(view.high for view in group) - first.low) // width
        for view in group:
            stride = tuple(step // width for step in view.array.strides)
            offset = (view.low - first.low) // width
            name = view.array.dtype.name
            placed[view.number] = Placed(len(storages), numbers, name, offset, view.array.shape, stride)
        storages.append(np.lib.stride_tricks.as_strided(first.array, (numbers,), (width,)))
    return storages, placed


def _view(number: int, array: np.ndarray) -> _View:
    """An array whose numbers PyTorch could view: in the machine's byte order, with strides that count numbers."""
    if not array.dtype.isnative or array.size == 0 or any(step < 0 or step % array.itemsize for step in array.strides):
        array = np.array(array, array.dtype.newbyteorder("="), order="C")
    low = array.ctypes.data
    reach = sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)) + array.itemsize
    return _View(number, array, low, low + (reach if array.size else 0))


def _address(view: _View) -> tuple[str, int, int]:
    return view.array.dtype.name, view.low, -view.high
