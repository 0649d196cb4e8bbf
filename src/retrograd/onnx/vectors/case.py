"""A gradient test case: an operator, its attributes, and reproducible inputs.

Two bytes of SHAKE-256 of the string "case/input", low byte first, are a number w from 0 to 65535. Entries are in C
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import shake_256
from math import prod
from typing import Any

import numpy as np

from ..files import onnx

# ---- Reproducible random inputs, by a rule that any program can follow; float32 represents all of them exactly ------

Shape = Sequence[int]


@dataclass(frozen=True)
class Uniform:
    """The number low + (high - low) (2 w + 1) / 2^17 for each entry."""

    shape: Shape
    low: float = -2.0
    high: float = 2.0

    def drawn(self, text: str) -> np.ndarray:
        fractions = (2.0 * _words(text, prod(self.shape)) + 1) / 2**17
        return (self.low + (self.high - self.low) * fractions).reshape(self.shape)


@dataclass(frozen=True)
class Apart:
    """Entries that are never equal, close to each other or close to 0, so that maxima and kinks are unambiguous.

    Of n entries, the one whose w has rank r from 0 on (ties in order of position) is (2 r + 3/2 - n) s, where s is the
    power of two for which n s is at least 2 and below 4.
    """

    shape: Shape

    def drawn(self, text: str) -> np.ndarray:
        count = prod(self.shape)
        ranks = np.argsort(np.argsort(_words(text, count), kind="stable"), kind="stable")
        step = 2.0 ** (2 - count.bit_length())
        return ((2 * ranks + 1.5 - count) * step).reshape(self.shape)


@dataclass(frozen=True)
class Fixed:
    """Numbers for which no gradient is computed, such as a running mean."""

    numbers: Uniform | Apart

    def drawn(self, text: str) -> np.ndarray:
        return self.numbers.drawn(text)


@dataclass(frozen=True, eq=False)
class Literal:
    """A literal array: indices, lengths, masks, limits. No gradient is computed for it."""

    array: np.ndarray

    def drawn(self, text: str) -> np.ndarray:
        return self.array


def whole(*values: int) -> Literal:
    """Return whole numbers as int64."""
    return Literal(np.array(values, np.int64))


def _words(text: str, count: int) -> np.ndarray:
    return np.frombuffer(shake_256(text.encode()).digest(2 * count), "<u2").astype(np.int64)


# ---- Cases: an operator with attributes, its inputs, and the outputs that have upstream gradients -------------------

Numbers = Uniform | Apart | Fixed | Literal
OPSET = 22


@dataclass(frozen=True, eq=False)
class Case:
    """A test case. outputs: the number of outputs. weighted: positions of outputs with an upstream gradient."""

    name: str
    operator: str
    inputs: tuple[Numbers | None, ...]
    attributes: dict[str, Any]
    outputs: int
    weighted: tuple[int, ...]
    opset: int

    @property
    def folder(self) -> str:
        return f"test_gradient_of_{self.name}"

    @cached_property
    def input_names(self) -> list[str]:
        """The input names in the operator's documentation, "" for an omitted input."""
        names = _names(self._schema.inputs, len(self.inputs))
        return ["" if each is None else name for name, each in zip(names, self.inputs, strict=True)]

    @cached_property
    def output_names(self) -> list[str]:
        return _names(self._schema.outputs, self.outputs)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The inputs of the node."""
        drawn = zip(self.input_names, self.inputs, strict=True)
        return {name: each.drawn(f"{self.name}/{name}") for name, each in drawn if each is not None}

    @property
    def differentiated(self) -> list[str]:
        """The inputs for which gradients are computed."""
        drawn = zip(self.input_names, self.inputs, strict=True)
        return [name for name, each in drawn if isinstance(each, (Uniform, Apart))]

    @property
    def weighted_names(self) -> list[str]:
        return [self.output_names[place] for place in self.weighted]

    def upstream(self, shapes: dict[str, Shape]) -> dict[str, np.ndarray]:
        """Return the upstream gradients by output name; shapes: of the outputs."""
        return {name: Uniform(shapes[name]).drawn(f"{self.name}/grad_{name}") for name in self.weighted_names}

    @cached_property
    def _schema(self) -> Any:
        return onnx().defs.get_schema(self.operator, self.opset, "")


def case(
    name: str,
    operator: str,
    *inputs: Numbers | Shape | None,
    outputs: int = 1,
    weighted: Sequence[int] | None = None,
    opset: int = OPSET,
    **attributes: Any,
) -> Case:
    """Make a row of a table of cases.

    Args:
        inputs: numbers, or a shape for numbers from -2 to 2; None for an omitted input.
        weighted: positions of the outputs that have an upstream gradient; all for None.
        attributes: of the operator.
    """
    numbers = tuple(Uniform(each) if isinstance(each, tuple) else each for each in inputs)
    places = range(outputs) if weighted is None else weighted
    return Case(name, operator, numbers, attributes, outputs, tuple(places), opset)  # type: ignore[arg-type]


def _names(formal: Sequence[Any], count: int) -> list[str]:
    """Return names of values; a variadic last formal name is numbered."""
    last = formal[-1]
    several = last.option == onnx().defs.OpSchema.FormalParameterOption.Variadic
    names = [each.name for each in (formal[:-1] if several else formal)]
    if several:
        stem = last.name.removesuffix("_0")
        names += [f"{stem}_{place}" for place in range(count - len(names))]
    return names[:count]
