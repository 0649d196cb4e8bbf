"""The products that add up to each entry: the links between the arrays of a page.

A ``Products`` says of one array, the target, which entries of other arrays are multiplied, and to which entry of the
target each product is added:

    target[index[j, 0]] += scale * factors[0][index[j, 1]] * factors[1][index[j, 2]] * ...      for every row j

All indices are flat. A negative one is padding, which is 0: -1 - p is position p of the padded factor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..specs.geometry import Window

__all__ = ["Products", "along", "convolution", "convolved", "einsum", "elementwise"]


@dataclass(frozen=True)
class Products:
    """The products that are added to the entries of one array.

    factors: the names of the arrays whose entries are multiplied
    rows: gives the rows of one entry of the target, or with None all of them: (products, 1 + len(factors)) int64, the
        flat index of the target's entry and of each factor's
    scale: a number that all products are multiplied by
    """

    factors: tuple[str, ...]
    rows: Callable[[int | None], np.ndarray]
    scale: float = 1.0

    @cached_property
    def index(self) -> np.ndarray:
        """The rows of all entries."""
        return self.rows(None)

    def of(self, entry: int) -> np.ndarray:
        """The rows of one entry of the target, without the column of the target: (n, len(factors))."""
        return self.rows(entry)[:, 1:]

    def values(self, rows: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """The products of some rows in float64: (n,)."""
        products = np.full(len(rows), self.scale)
        for column, name in enumerate(self.factors):
            at = rows[:, column]
            products *= np.where(at < 0, 0.0, arrays[name].ravel()[np.maximum(at, 0)])
        return products

    def add_to(self, target: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
        """Add all products to a flat float64 array."""
        np.add.at(target, self.index[:, 0], self.values(self.index[:, 1:], arrays))


def einsum(equation: str, shapes: Sequence[Sequence[int]], factors: Sequence[str], scale: float = 1.0) -> Products:
    """The products of a sum in the notation of NumPy's einsum: ``einsum("nc,kc->nk", (x.shape, w.shape), ("x", "w"))``.

    Letters that the target lacks are summed over.
    """
    operands, target = equation.replace(" ", "").split("->")
    terms = operands.split(",")
    extents = {
        letter: extent
        for term, shape in zip(terms, shapes, strict=True)
        for letter, extent in zip(term, shape, strict=True)
    }
    letters = [*target, *sorted(set(extents) - set(target))]

    def rows(entry: int | None) -> np.ndarray:
        ranges = [np.arange(extents[letter]) for letter in letters]
        if entry is not None:
            at = np.unravel_index(entry, [extents[letter] for letter in target])
            ranges[: len(target)] = [np.array([place]) for place in at]
        places = dict(zip(letters, _grid(ranges), strict=True))
        columns = [
            _flat([places[letter] for letter in term], [extents[letter] for letter in term])
            for term in (target, *terms)
        ]
        return np.stack(np.broadcast_arrays(*columns), 1)

    return Products(tuple(factors), rows, scale)


def elementwise(size: int, factors: Sequence[str], scale: float = 1.0) -> Products:
    """Entry i of the target gets the product of the entries i of the factors."""

    def rows(entry: int | None) -> np.ndarray:
        entries = np.arange(size) if entry is None else np.array([entry])
        return np.repeat(entries[:, None], 1 + len(factors), 1)

    return Products(tuple(factors), rows, scale)


def along(target: np.ndarray, factors: Sequence[str], indices: Sequence[np.ndarray], scale: float = 1.0) -> Products:
    """Products whose indices are given, one array of flat indices for the target and one for each factor."""
    columns = [np.asarray(each).ravel() for each in (target, *indices)]
    index = np.stack(np.broadcast_arrays(*columns), 1).astype(np.int64)
    return Products(tuple(factors), lambda entry: index if entry is None else index[index[:, 0] == entry], scale)


def convolved(
    window: Window,
    batch: int,
    x_channels: int,
    w_shape: Sequence[int],
    target: str,
    factors: dict[str, str],
    padding: bool = True,
) -> Products:
    """The products of a convolution that are added to one of its three arrays.

    target: "x", "w" or "y". factors: for the other two their names, {"y": "gy", "x": "x"} for the gradient to w
    padding: whether products with an i in the padding are among them; never where x is the target
    """

    def rows(entry: int | None) -> np.ndarray:
        index = convolution(window, batch, x_channels, w_shape, None if entry is None else (target, entry))
        found = np.stack([index[target], *(index[name] for name in factors)], 1)
        return found if padding and target != "x" else found[index["x"] >= 0]

    return Products(tuple(factors.values()), rows)


def convolution(
    window: Window, batch: int, x_channels: int, w_shape: Sequence[int], only: tuple[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Every product of a convolution, as the flat indices of its three arrays: {"x": i, "w": r, "y": o}.

    T(x, w, g) = sum over them of x[i] w[r] g[o]; leave one factor out, and the others are the products of its gradient.
    An i in the padding is -1 - p, where p is the position in the padded x. The order is n, k, o, c, r.

    only: those of one entry of an array, ("w", 17) for example
    """
    ndim, (K, C) = window.ndim, w_shape[:2]
    shapes = {
        "x": [batch, x_channels, *window.input],
        "w": [*w_shape],
        "y": [batch, K, *window.output],
    }
    which, at = only or ("", 0)
    place = [int(i) for i in np.unravel_index(at, shapes[which])] if which else []
    samples = np.array([place[0]]) if which in ("x", "y") else np.arange(batch)
    filters, channels = np.arange(K), np.arange(C)
    if which == "x":  # the filters of the channel's group
        per_group = K // window.groups
        first = place[1] // C * per_group
        filters, channels = np.arange(first, first + per_group), np.array([place[1] % C])
    elif which == "y":
        filters = np.array([place[1]])
    elif which == "w":
        filters, channels = np.array([place[0]]), np.array([place[1]])
    pairs = [_meetings(window, axis, which, place[2 + axis] if which else 0) for axis in range(ndim)]
    n, k, c, *chosen = _grid([samples, filters, channels, *(np.arange(len(o)) for o, _ in pairs)])
    o = [pair[0][j] for pair, j in zip(pairs, chosen, strict=True)]
    r = [pair[1][j] for pair, j in zip(pairs, chosen, strict=True)]
    channel = k // (K // window.groups) * C + c
    reads = [o_a * s + r_a * d for o_a, r_a, s, d in zip(o, r, window.stride, window.dilation, strict=True)]
    lows = [lo for lo, _ in window.padding]
    inside = np.ones(len(n), bool)
    for position, extent, lo in zip(reads, window.input, lows, strict=True):
        inside &= (position >= lo) & (position < lo + extent)
    padded = [lo + i + hi for i, (lo, hi) in zip(window.input, window.padding, strict=True)]
    x_index = _flat([n, channel, *(i - lo for i, lo in zip(reads, lows, strict=True))], shapes["x"])
    found = {
        "x": np.where(inside, x_index, -1 - _flat([n, channel, *reads], [batch, x_channels, *padded])),
        "w": _flat([k, c, *r], shapes["w"]),
        "y": _flat([n, k, *o], shapes["y"]),
    }
    order = np.lexsort((found["w"], found["y"]))  # the taps of an output together
    return {name: index[order] for name, index in found.items()}


def _meetings(window: Window, axis: int, which: str, place: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs (o, r) of an output and a tap on one axis; those that meet one place of an array where it is given."""
    o, r = np.indices((window.output[axis], window.kernel[axis])).reshape(2, -1)
    reads = o * window.stride[axis] + r * window.dilation[axis] - window.padding[axis][0]
    kept = {"": np.ones(len(o), bool), "x": reads == place, "y": o == place, "w": r == place}[which]
    return o[kept], r[kept]


def _grid(ranges: Sequence[np.ndarray]) -> list[np.ndarray]:
    """All combinations of one number from each range, the last range fastest."""
    return [each.ravel() for each in np.meshgrid(*ranges, indexing="ij")]


def _flat(places: Sequence[np.ndarray], extents: Sequence[int]) -> np.ndarray:
    """The flat index of a position on each axis; places outside give a number without meaning."""
    index = np.zeros((), np.int64)
    for place, extent in zip(places, extents, strict=True):
        index = index * extent + place
    return index
