"""Einstein summation (einsum), which multiplies two operands at a time as a batched matrix product.

With more than two operands, ``numpy.einsum_path`` decides the order.
"""

from __future__ import annotations

import math
import string
from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...arrays import broadcast_to, zeros
from ...engine.arguments import kind_name
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..argument_checks import require_same, require_tensor
from ..shape.diagonal import Diagonal
from ..shape.shape import Permute, Reshape, reshape
from .matmul import MatMul

__all__ = ["einsum"]

_LETTERS = string.ascii_letters


@operator(records=MatMul, dtypes="bihf")
def einsum(equation: str, *operands: Any) -> Tensor:
    """Sum of products over the letters that are not in the output: "bij,bjk->bik" is a batched matrix product.

    equation: the subscripts of each operand, one letter per axis, separated by commas, then "->" and the subscripts of
    the result. Without "->" the result has the letters that occur once, in alphabetical order. "..." stands for any
    further axes. They are broadcast and, without "->", come first in the result. A letter repeated within one operand
    takes the diagonal.

    Raises:
        TypeError: an operand is not a Tensor, two that are contracted differ in type or are bool, or lists of ints are
            given instead of letters, which is not supported.
        ValueError: the equation is wrong or does not fit the operands.
    """
    if interpreters and (seen := interpreted(einsum, locals())) is not None:
        return seen
    if not isinstance(equation, str):
        raise TypeError(f'einsum: equation is {kind_name(equation)}, needs a str such as "ij,jk->ik"')
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    if not operands:
        raise ValueError("einsum: there is no operand")
    for i, operand in enumerate(operands):
        require_tensor("einsum", operand, f"operands[{i}]")
    shapes = tuple(operand.array.shape for operand in operands)
    words, output, extents = _parse(equation, shapes)
    parts = [_plain(x, word, extents) for x, word in zip(operands, words, strict=True)]
    for places in _path(tuple(word for _, word in parts), output, tuple(x.array.shape for x, _ in parts)):
        chosen = [parts[i] for i in places]
        parts = [part for i, part in enumerate(parts) if i not in places]
        while len(chosen) > 1:
            needed = {*output}.union(*[word for _, word in parts + chosen[2:]])
            chosen = [_product(*chosen[0], *chosen[1], needed), *chosen[2:]]
        parts += chosen
    ((x, word),) = parts
    x, word = _summed(x, word, {*output})
    order = tuple(word.index(letter) for letter in output)
    if order != tuple(range(len(order))):
        x = Permute.apply(x, order)
    return x.clone() if any(x is operand for operand in operands) else x


def _product(x: Tensor, word_x: str, y: Tensor, word_y: str, needed: set[str]) -> tuple[Tensor, str]:
    """Multiply two operands as a batched matrix product (*batch, rows, inner) (*batch, inner, columns)."""
    x, word_x = _summed(x, word_x, needed | {*word_y})
    y, word_y = _summed(y, word_y, needed | {*word_x})
    plan = _grouped(word_x, word_y, frozenset(needed), x.array.shape, y.array.shape)
    left, right = _in_form(x, *plan.left), _in_form(y, *plan.right)
    if plan.summed:
        require_same("einsum", word_x, left, word_y, right, True)
    product = MatMul.apply(left, right) if plan.summed else left * right
    return product if product.array.shape == plan.shape else Reshape.apply(product, plan.shape), plan.word


class _Plan(NamedTuple):
    """The axis order and shape of the factors of a product and of its result."""

    left: tuple[tuple[int, ...], tuple[int, ...]]
    right: tuple[tuple[int, ...], tuple[int, ...]]
    summed: bool  # whether it is a matrix product, else elementwise
    shape: tuple[int, ...]
    word: str


@lru_cache(maxsize=1024)
def _grouped(
    word_x: str, word_y: str, needed: frozenset[str], shape_x: tuple[int, ...], shape_y: tuple[int, ...]
) -> _Plan:
    """Group the letters into batch, rows, inner and columns; batch letters keep separate axes."""
    extents = dict(zip(word_x + word_y, shape_x + shape_y, strict=True))
    batch = [c for c in word_x if c in word_y and c in needed]
    inner = [c for c in word_x if c in word_y and c not in needed]
    rows, columns = [c for c in word_x if c not in word_y], [c for c in word_y if c not in word_x]

    def form(word: str, first: list[str], second: list[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        order = tuple(word.index(c) for c in batch + first + second)
        sizes = (math.prod(extents[c] for c in group) for group in (first, second))
        return order, (*[extents[c] for c in batch], *sizes)

    word = "".join(batch + rows + columns)
    return _Plan(
        form(word_x, rows, inner), form(word_y, inner, columns), bool(inner), tuple(extents[c] for c in word), word
    )


def _in_form(x: Tensor, order: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
    """Permute x, then reshape it."""
    if order != tuple(range(len(order))):
        x = Permute.apply(x, order)
    return x if x.array.shape == shape else Reshape.apply(x, shape)


def _plain(x: Tensor, word: str, extents: dict[str, int]) -> tuple[Tensor, str]:
    """Reduce x to one axis per letter, without axes of extent 1 that are larger in another operand."""
    while len({*word}) != len(word):
        letter = next(c for c, count in Counter(word).items() if count > 1)
        a, b = word.index(letter), word.rindex(letter)
        x, word = Diagonal.apply(x, 0, a, b), word[:a] + word[a + 1 : b] + word[b + 1 :] + letter
    kept = [i for i, (n, c) in enumerate(zip(x.array.shape, word, strict=True)) if n == extents[c]]
    if len(kept) < len(word):
        x, word = reshape(x, tuple(x.array.shape[i] for i in kept)), "".join(word[i] for i in kept)
    return x, word


def _summed(x: Tensor, word: str, needed: set[str]) -> tuple[Tensor, str]:
    """Sum x over the letters that are not needed elsewhere."""
    over = tuple(i for i, c in enumerate(word) if c not in needed)
    return (x.sum(over), "".join(c for c in word if c in needed)) if over else (x, word)


@lru_cache(maxsize=256)
def _path(words: tuple[str, ...], output: str, shapes: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Return the operands to multiply at each step; each result is appended to the remaining operands."""
    if len(words) < 3:
        return [tuple(range(len(words)))]
    arrays = [broadcast_to(zeros((), np.float32), shape) for shape in shapes]  # only their shapes count
    path, _ = np.einsum_path(f"{','.join(words)}->{output}", *arrays, optimize="greedy")
    return path[1:]


@lru_cache(maxsize=1024)
def _parse(equation: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[list[str], str, dict[str, int]]:
    """Return the letters of operands and result, without "...", and their extents; ValueError if they do not fit."""
    text = equation.replace(" ", "")
    left, arrow, output = text.partition("->")
    words = left.split(",")

    def wrong(reason: str) -> ValueError:
        return ValueError(
            f"einsum: equation {equation!r}: {reason}; the operands have shapes {', '.join(map(str, shapes))}"
        )

    for word in (*words, output):
        bare = word.replace("...", "", 1)
        if any(c not in _LETTERS for c in bare):
            raise wrong(f"{word!r} must consist of letters and at most one ...")
    if len(words) != len(shapes):
        raise wrong(f"it is for {len(words)} operands, there are {len(shapes)}")
    further = [len(shape) - len(word.replace("...", "")) for word, shape in zip(words, shapes, strict=True)]
    for i, (word, count) in enumerate(zip(words, further, strict=True)):
        if count < 0 or (count and "..." not in word):
            raise wrong(f"{word!r} does not name the {len(shapes[i])} axes of operand {i}")
    unused = [c for c in _LETTERS if c not in text]
    most = max((count for count, word in zip(further, words, strict=True) if "..." in word), default=0)
    if most > len(unused):
        raise wrong("too many axes for the available letters")
    dots = "".join(unused[:most])
    words = [word.replace("...", dots[most - count :]) for word, count in zip(words, further, strict=True)]
    if not arrow:
        counts = Counter("".join(words))
        output = dots + "".join(sorted(c for c in counts if counts[c] == 1 and c not in dots))
    output = output.replace("...", dots)
    extents: dict[str, int] = {}
    for word, shape in zip(words, shapes, strict=True):
        for letter, extent in zip(word, shape, strict=True):
            known = extents.get(letter, 1)
            if known != extent and 1 not in (known, extent):
                raise wrong(f"the axes {letter!r} have {known} and {extent} elements")
            if word.count(letter) > 1 and any(n != extent for c, n in zip(word, shape, strict=True) if c == letter):
                raise wrong(f"the axes {letter!r} of one operand have different extents")
            extents[letter] = extent if known == 1 else known
    for letter, count in Counter(output).items():
        if count > 1 or letter not in extents:
            raise wrong(f"the result has {letter!r} " + ("twice" if count > 1 else "which no operand has"))
    return words, output, extents
