"""Elements at places given by strides.

A layout (shape, stride, start) has element (i, j, ...) at the place start + i stride[0] + j stride[1] + ...
"""

from __future__ import annotations

import numpy as np

__all__ = ["rearranged"]

Layout = tuple[tuple[int, ...], tuple[int, ...], int]


def rearranged(x: np.ndarray, source: Layout, target: Layout, added: bool, shared: Layout | None) -> np.ndarray:
    """The elements of x, put at the places of ``source``, as ``target`` shows them; 0 where there is none.

    Of several elements at one place: the sum if ``added``, else one of them. shared: divide by how many elements of
    this layout have the place.
    """
    layouts = [layout for layout in (source, target, shared) if layout is not None]
    bounds = [_bounds(*layout) for layout in layouts]
    low = min(first for first, _ in bounds)
    line = np.zeros(max(last for _, last in bounds) - low + 1, x.dtype, like=x)
    places = _places(x, *source) - low
    if added:
        np.add.at(line, places, x)
    else:
        line[places] = x
    if shared is not None:
        counts = np.bincount((_places(x, *shared) - low).ravel(), minlength=line.size)
        if counts.max(initial=0) > 1:
            line /= np.maximum(counts, 1).astype(line.dtype)
    return np.asarray(line[_places(x, *target) - low], like=x)


def _places(x: np.ndarray, shape: tuple[int, ...], stride: tuple[int, ...], start: int) -> np.ndarray:
    """The places of a layout, next to x."""
    found = np.full((), start, np.int64, like=x)
    for extent, step in zip(shape, stride, strict=True):
        found = np.asarray(np.add.outer(found, np.arange(extent, like=x) * step), like=x)
    return found


def _bounds(shape: tuple[int, ...], stride: tuple[int, ...], start: int) -> tuple[int, int]:
    """The lowest and the highest place; of no elements, twice the first."""
    if 0 in shape:
        return start, start
    ends = [(extent - 1) * step for extent, step in zip(shape, stride, strict=True)]
    return start + sum(end for end in ends if end < 0), start + sum(end for end in ends if end > 0)
