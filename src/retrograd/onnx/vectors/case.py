"""A case: an operator with attributes, the numbers of its inputs, and the outputs whose gradients are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..package import onnx
from .numbers import Apart, Fixed, Given, Shape, Uniform

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
