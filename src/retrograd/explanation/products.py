"""The products that add up to each array entry, as index tables and as formulas.

A ``Products`` describes one array, the target: which entries of other arrays are multiplied, and to which entry of the
target each product is added:

    target[index[j, 0]] += scale * factors[0][index[j, 1]] * factors[1][index[j, 2]] * ...      for every row j

All indices are flat. A negative index is padding, which is 0: -1 - p is position p of the padded factor.

    y = x * w + b                              the letters of each array's axes determine which entries meet
    gc = gh * o * slope + gc[t+1] * f[t+1]     a factor at another position of an axis; omitted outside the axis
    sum = w[q=1] * x                           at one position of an axis
    sum = w * y:tnj                            an array whose axes are named by other letters in this term

A term is summed over the letters that the target lacks. Terms are joined by " + " or " - ", factors by " * "; a factor
may also be the name of a number. Terms with an absent array and equations with an absent target are omitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..specs.geometry import Window

__all__ = ["Equations", "Products", "along", "convolution", "convolved", "einsum", "elementwise"]


# ---- Index tables: the links between the arrays of a page -----------------------------------------------------------


@dataclass(frozen=True)
class Products:
    """The products that are added to the entries of one array.

    factors: the names of the arrays whose entries are multiplied
    rows: returns the rows of one entry of the target, or all rows for None: (products, 1 + len(factors)) int64, the
        flat index of the target's entry and of each factor's
    scale: a factor of all products
    """

    factors: tuple[str, ...]
    rows: Callable[[int | None], np.ndarray]
    scale: float = 1.0

    @cached_property
    def index(self) -> np.ndarray:
        """The rows of all entries."""
        return self.rows(None)

    def of(self, entry: int) -> np.ndarray:
        """Return the rows of one entry of the target, without the column of the target: (n, len(factors))."""
        return self.rows(entry)[:, 1:]

    def values(self, rows: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the products of some rows in float64: (n,)."""
        products = np.full(len(rows), self.scale)
        for column, name in enumerate(self.factors):
            at = rows[:, column]
            products *= np.where(at < 0, 0.0, arrays[name].ravel()[np.maximum(at, 0)])
        return products

    def add_to(self, target: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
        """Add all products to a flat float64 array."""
        np.add.at(target, self.index[:, 0], self.values(self.index[:, 1:], arrays))


def einsum(equation: str, shapes: Sequence[Sequence[int]], factors: Sequence[str], scale: float = 1.0) -> Products:
    """Return the products of an einsum in NumPy's notation: ``einsum("nc,kc->nk", (x.shape, w.shape), ("x", "w"))``.

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
    """Return products where entry i of the target gets the product of the entries i of the factors."""

    def rows(entry: int | None) -> np.ndarray:
        entries = np.arange(size) if entry is None else np.array([entry])
        return np.repeat(entries[:, None], 1 + len(factors), 1)

    return Products(tuple(factors), rows, scale)


def along(target: np.ndarray, factors: Sequence[str], indices: Sequence[np.ndarray], scale: float = 1.0) -> Products:
    """Return products with given indices: one array of flat indices for the target and one for each factor."""
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
    """Return the products of a convolution that are added to one of its three arrays.

    target: "x", "w" or "y". factors: the names of the other two arrays, {"y": "gy", "x": "x"} for the gradient to w
    padding: whether to include products with an i in the padding; never if x is the target
    """

    def rows(entry: int | None) -> np.ndarray:
        index = convolution(window, batch, x_channels, w_shape, None if entry is None else (target, entry))
        found = np.stack([index[target], *(index[name] for name in factors)], 1)
        return found if padding and target != "x" else found[index["x"] >= 0]

    return Products(tuple(factors.values()), rows)


def convolution(
    window: Window, batch: int, x_channels: int, w_shape: Sequence[int], only: tuple[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Return every product of a convolution, as the flat indices of its three arrays: {"x": i, "w": r, "y": o}.

    T(x, w, g) = their sum of x[i] w[r] g[o]; leaving out one factor gives the products of its gradient.
    An i in the padding is -1 - p, where p is the position in the padded x. The order is n, k, o, c, r.

    only: only the products of one entry of an array, such as ("w", 17)
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
    if which == "x":  # the filters in the channel's group
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
    order = np.lexsort((found["w"], found["y"]))  # groups the taps of an output
    return {name: index[order] for name, index in found.items()}


def _meetings(window: Window, axis: int, which: str, place: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs (o, r) of an output and a tap on one axis, or only those that meet one place of an array."""
    o, r = np.indices((window.output[axis], window.kernel[axis])).reshape(2, -1)
    reads = o * window.stride[axis] + r * window.dilation[axis] - window.padding[axis][0]
    kept = {"": np.ones(len(o), bool), "x": reads == place, "y": o == place, "w": r == place}[which]
    return o[kept], r[kept]


def _grid(ranges: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return all combinations of one number from each range, the last range fastest."""
    return [each.ravel() for each in np.meshgrid(*ranges, indexing="ij")]


def _flat(places: Sequence[np.ndarray], extents: Sequence[int]) -> np.ndarray:
    """Return the flat index of a position on each axis; positions outside give meaningless numbers."""
    index = np.zeros((), np.int64)
    for place, extent in zip(places, extents, strict=True):
        index = index * extent + place
    return index


# ---- Sums of products as text ---------------------------------------------------------------------------------------

_FACTOR = re.compile(r"(\w+)(?::(\w+))?(?:\[(\w)(?:=(\d+)|([+-]\d+))\])?$")


class _Factor(NamedTuple):
    name: str
    axes: str
    letter: str  # of the axis that is read at another position
    fixed: str  # the position, a number
    shift: int


class _Term(NamedTuple):
    sign: float
    numbers: tuple[str, ...]
    factors: tuple[_Factor, ...]


@dataclass(frozen=True)
class Equations:
    """Equations between arrays.

    texts: one equation each; several with the same target add up
    axes: for each existing array one letter per axis; only the order of its entries matters, so that an array of
        channels may be read as one of groups and of channels within each
    extents: of each letter
    numbers: factors of terms, by name
    words: for a letter, the names of its positions in ``formulas``
    """

    texts: Sequence[str]
    axes: Mapping[str, str]
    extents: Mapping[str, int]
    numbers: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def _parsed(self) -> list[tuple[_Factor, list[_Term]]]:
        found = []
        for text in self.texts:
            left, _, right = text.partition(" = ")
            target = self._factor(left)
            terms = [term for term in self._terms(right) if all(factor.name in self.axes for factor in term.factors)]
            if target.name in self.axes and terms:
                found.append((target, terms))
        return found

    def _terms(self, text: str) -> list[_Term]:
        terms = []
        for piece in re.split(r" (?=[+-] )", f"+ {text.removeprefix('-')}" if text[0] != "-" else f"- {text[1:]}"):
            names = piece[2:].split(" * ")
            numbers = tuple(name for name in names if name in self.numbers)
            factors = tuple(self._factor(name) for name in names if name not in self.numbers)
            terms.append(_Term(-1.0 if piece[0] == "-" else 1.0, numbers, factors))
        return terms

    def _factor(self, text: str) -> _Factor:
        found = _FACTOR.match(text)
        assert found is not None, text
        axes = found[2] or self.axes.get(found[1], "")
        return _Factor(found[1], axes, found[3] or "", found[4] or "", int(found[5] or 0))

    @cached_property
    def sums(self) -> dict[str, list[Products]]:
        """Return the products of each target."""
        found: dict[str, list[Products]] = {}
        for target, terms in self._parsed:
            found.setdefault(target.name, []).extend(self._products(target, term) for term in terms)
        return found

    def _products(self, target: _Factor, term: _Term) -> Products:
        read = (target, *term.factors)
        others = sorted({letter for each in read for letter in self._free(each)} - set(self._free(target)))

        def rows(entry: int | None) -> np.ndarray:
            ranges = {letter: np.arange(self.extents[letter]) for letter in (*self._free(target), *others)}
            if entry is not None:
                at = np.unravel_index(entry, [self.extents[letter] for letter in target.axes])
                for letter, place in zip(target.axes, at, strict=True):
                    if letter == target.letter and place != int(target.fixed):
                        return np.empty((0, len(read)), np.int64)
                    ranges[letter] = np.array([place])
            grid = [each.ravel() for each in np.meshgrid(*ranges.values(), indexing="ij")]
            places = dict(zip(ranges, grid, strict=True))
            count = len(grid[0]) if grid else 1
            inside = np.ones(count, bool)
            columns = [self._flat(factor, places, count, inside) for factor in read]
            return np.stack(columns, 1)[inside]

        scale = term.sign * float(np.prod([self.numbers[name] for name in term.numbers]))
        return Products(tuple(factor.name for factor in term.factors), rows, scale)

    def _flat(self, factor: _Factor, places: Mapping[str, np.ndarray], count: int, inside: np.ndarray) -> np.ndarray:
        """Return the flat index of a factor at these places; ``inside`` becomes False where it has none."""
        index = np.zeros(count, np.int64)
        for letter in factor.axes:
            if letter == factor.letter:
                at = np.full(count, int(factor.fixed)) if factor.fixed else places[letter] + factor.shift
                inside &= (at >= 0) & (at < self.extents[letter])
            else:
                at = places[letter]
            index = index * self.extents[letter] + at
        return index

    def _free(self, factor: _Factor) -> str:
        """Return the letters of an array that are not fixed."""
        return factor.axes.replace(factor.letter, "") if factor.fixed else factor.axes

    @cached_property
    def formulas(self) -> dict[str, str]:
        """Return the sum of each target as text."""
        lines: dict[str, list[str]] = {}
        before: list[_Factor] = []
        for target, terms in self._parsed:
            more = any(each.name == target.name and each.fixed in ("", target.fixed) for each in before)
            before.append(target)
            text, summed = "", ""
            for term in terms:
                free = "".join(self._free(factor) for factor in term.factors)
                over = [letter for letter in dict.fromkeys(free) if letter not in target.axes]
                summed += "".join(letter for letter in over if letter not in summed)
                product = ("Σ " if over else "") + " · ".join(map(self._text, term.factors))
                sign = " − " if term.sign < 0 else " + "
                text += (sign if text else sign.strip(" +")) + " · ".join([*term.numbers, product])
            over_all = f"   over {', '.join(summed)}" if summed else ""
            sign = "+=" if more else "="
            lines.setdefault(target.name, []).append(f"{self._text(target)} {sign} {text}{over_all}")
        return {name: "\n".join(each) for name, each in lines.items()}

    def _text(self, factor: _Factor) -> str:
        places = []
        for letter in factor.axes:
            if letter != factor.letter:
                places.append(letter)
            elif factor.fixed:
                words = self.words.get(letter, ())
                places.append(words[int(factor.fixed)] if words else factor.fixed)
            else:
                places.append(f"{letter} {'+' if factor.shift > 0 else '−'} {abs(factor.shift)}")
        return f"{factor.name}[{', '.join(places)}]" if places else factor.name
