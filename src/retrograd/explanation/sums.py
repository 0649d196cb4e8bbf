"""Which products add up to an entry: the links between the arrays of a page.

A ``Products`` says of one array, the target, which entries of other arrays are multiplied, and to which entry of the
target each product is added:

    target[index[j, 0]] += scale * factors[0][index[j, 1]] * factors[1][index[j, 2]] * ...      for every row j

All indices are flat. A negative one is padding, which is 0: -1 - p is position p of the padded factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..geometry import Window

__all__ = ["Products", "along", "convolution", "einsum", "elementwise"]


@dataclass(frozen=True)
class Products:
    """The products that are added to the entries of one array.

    factors: the names of the arrays whose entries are multiplied
    index: (products, 1 + len(factors)) int64, the flat index of the target's entry and of each factor's
    scale: a number that all products are multiplied by
    """

    factors: tuple[str, ...]
    index: np.ndarray
    scale: float = 1.0

    def of(self, entry: int) -> np.ndarray:
        """The rows of one entry of the target: (n, len(factors))."""
        return self.index[self.index[:, 0] == entry, 1:]

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
    extents = {letter: extent for term, shape in zip(terms, shapes, strict=True)
               for letter, extent in zip(term, shape, strict=True)}  # fmt: skip
    letters = [*target, *sorted(set(extents) - set(target))]
    grid = np.indices([extents[letter] for letter in letters]).reshape(len(letters), -1)
    places = dict(zip(letters, grid, strict=True))
    columns = [_flat([places[letter] for letter in term], [extents[letter] for letter in term], grid.shape[1])
               for term in (target, *terms)]  # fmt: skip
    return Products(tuple(factors), np.stack(columns, 1), scale)


def elementwise(size: int, factors: Sequence[str], scale: float = 1.0) -> Products:
    """Entry i of the target gets the product of the entries i of the factors."""
    return Products(tuple(factors), np.repeat(np.arange(size)[:, None], 1 + len(factors), 1), scale)


def along(target: np.ndarray, factors: Sequence[str], indices: Sequence[np.ndarray], scale: float = 1.0) -> Products:
    """Products whose indices are given, one array of flat indices for the target and one for each factor."""
    columns = [np.asarray(each).ravel() for each in (target, *indices)]
    return Products(tuple(factors), np.stack(np.broadcast_arrays(*columns), 1).astype(np.int64), scale)


def convolution(window: Window, batch: int, x_channels: int, w_shape: Sequence[int]) -> dict[str, np.ndarray]:
    """Every product of a convolution, as the flat indices of its three arrays: {"x": i, "w": r, "y": o}.

    T(x, w, g) = sum over them of x[i] w[r] g[o]; leave one factor out, and the others are the products of its gradient.
    An i in the padding is -1 - p, where p is the position in the padded x.
    """
    ndim, groups = window.ndim, window.groups
    K, C = w_shape[0], w_shape[1]
    per_group = K // groups
    padded = [lo + i + hi for i, (lo, hi) in zip(window.input, window.padding, strict=True)]
    extents = (batch, K, *window.output, C, *window.kernel)
    n, k, *rest = np.indices(extents).reshape(len(extents), -1)
    o, c, r = rest[:ndim], rest[ndim], rest[ndim + 1 :]
    channel = k // per_group * C + c
    at = [o_a * s + r_a * d for o_a, r_a, s, d in zip(o, r, window.stride, window.dilation, strict=True)]
    inside = np.ones(len(n), bool)
    places = []
    for position, extent, (lo, _) in zip(at, window.input, window.padding, strict=True):
        places.append(position - lo)
        inside &= (position >= lo) & (position < lo + extent)
    x_index = _flat([n, channel, *places], [batch, x_channels, *window.input], len(n))
    x_padded = _flat([n, channel, *at], [batch, x_channels, *padded], len(n))
    return {
        "x": np.where(inside, x_index, -1 - x_padded),
        "w": _flat([k, c, *r], w_shape, len(n)),
        "y": _flat([n, k, *o], [batch, K, *window.output], len(n)),
    }


def _flat(places: Sequence[np.ndarray], extents: Sequence[int], count: int) -> np.ndarray:
    """The flat index of a position on each axis; places outside give a number without meaning."""
    index = np.zeros(count, np.int64)
    for place, extent in zip(places, extents, strict=True):
        index = index * extent + place
    return index
