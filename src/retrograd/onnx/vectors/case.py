"""A gradient test case: an operator, its attributes, and reproducible inputs.

Two bytes of SHAKE-256 of the text "case/input", the lower one first, are a number w from 0 to 65535. Entries follow the
order of C.
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

# ---- The numbers of a case: random ones by a rule that any program can follow, all of which float32 holds -----------

Shape = Sequence[int]


@dataclass(frozen=True)
class Uniform:
    """low + (high - low) (2 w + 1) / 2^17 for each entry."""

    shape: Shape
    low: float = -2.0
    high: float = 2.0

    def drawn(self, text: str) -> np.ndarray:
        fractions = (2.0 * _words(text, prod(self.shape)) + 1) / 2**17
        return (self.low + (self.high - self.low) * fractions).reshape(self.shape)


@dataclass(frozen=True)
class Apart:
    """Entries of which no two are equal or near, and none is near 0: maxima and kinks are not in doubt.

    Of n entries, the one whose w has the rank r from 0 on, the earlier first of equal ones, is (2 r + 3/2 - n) s, where
    s is the power of two with n s from 2 on and below 4.
    """

    shape: Shape

    def drawn(self, text: str) -> np.ndarray:
        count = prod(self.shape)
        ranks = np.argsort(np.argsort(_words(text, count), kind="stable"), kind="stable")
        step = 2.0 ** (2 - count.bit_length())
        return ((2 * ranks + 1.5 - count) * step).reshape(self.shape)


@dataclass(frozen=True)
class Fixed:
    """Numbers to which no gradient is asked for, such as a running mean."""

    numbers: Uniform | Apart

    def drawn(self, text: str) -> np.ndarray:
        return self.numbers.drawn(text)


@dataclass(frozen=True, eq=False)
class Given:
    """An array that is written out: indices, lengths, masks, limits. No gradient is asked for."""

    array: np.ndarray

    def drawn(self, text: str) -> np.ndarray:
        return self.array


def whole(*values: int) -> Given:
    """Whole numbers in int64."""
    return Given(np.array(values, np.int64))


def _words(text: str, count: int) -> np.ndarray:
    return np.frombuffer(shake_256(text.encode()).digest(2 * count), "<u2").astype(np.int64)


# ---- A case: an operator with attributes, the numbers of its inputs, and the outputs whose gradients are taken ------

Numbers = Uniform | Apart | Fixed | Given
OPSET = 22


@dataclass(frozen=True, eq=False)
class Case:
    """outputs: how many the node has. weighted: positions of those that have an upstream gradient."""

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
        """Those of the operator's documentation, "" for an input that is left out."""
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
        """The inputs to which gradients are taken."""
        drawn = zip(self.input_names, self.inputs, strict=True)
        return [name for name, each in drawn if isinstance(each, (Uniform, Apart))]

    @property
    def weighted_names(self) -> list[str]:
        return [self.output_names[place] for place in self.weighted]

    def upstream(self, shapes: dict[str, Shape]) -> dict[str, np.ndarray]:
        """The upstream gradients, by the name of the output; shapes: of the outputs."""
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
    """A row of a table of cases.

    Args:
        inputs: numbers, or a shape for those from -2 to 2; None for an input that is left out.
        weighted: positions of the outputs that have an upstream gradient; all for None.
        attributes: those of the operator.
    """
    numbers = tuple(Uniform(each) if isinstance(each, tuple) else each for each in inputs)
    places = range(outputs) if weighted is None else weighted
    return Case(name, operator, numbers, attributes, outputs, tuple(places), opset)  # type: ignore[arg-type]


def _names(formal: Sequence[Any], count: int) -> list[str]:
    """Names of values; those behind the last formal name, which stands for several, are numbered."""
    last = formal[-1]
    several = last.option == onnx().defs.OpSchema.FormalParameterOption.Variadic
    names = [each.name for each in (formal[:-1] if several else formal)]
    if several:
        stem = last.name.removesuffix("_0")
        names += [f"{stem}_{place}" for place in range(count - len(names))]
    return names[:count]
