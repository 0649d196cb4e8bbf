"""Sums of products as text: the formula that a page shows, and the products behind it, are one line.

    y = x * w + b                              which entries meet is said by the letters of each array's axes
    gc = gh * o * slope + gc[t+1] * f[t+1]     a factor at another position of an axis; outside of it there is none
    sum = w[q=1] * x                           at one position of an axis
    sum = w * y:tnj                            an array whose axes have other letters here

A term is summed over the letters that the target lacks. Terms are joined by " + " or " - ", factors by " * "; a factor
may also be a number's name. A term with an array that is not there is left out, and an equation whose target is not
there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..sums import Products

__all__ = ["Equations"]

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

    texts: one equation each; several with one target add up
    axes: for each array that is there a letter for each axis; only the order of its entries counts, so that an array
        of channels may be read as one of groups and of channels in each
    extents: of each letter
    numbers: those that terms are multiplied by
    words: for a letter the names of its positions, for the text
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
        """For each target its products."""
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
        """The flat index of a factor at these places; ``inside`` becomes False where there is none."""
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
        """The letters of an array that are not fixed."""
        return factor.axes.replace(factor.letter, "") if factor.fixed else factor.axes

    @cached_property
    def formulas(self) -> dict[str, str]:
        """For each target its sum as text."""
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
