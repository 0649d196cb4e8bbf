"""A model of ONNX as a module, whose weights can be trained."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..nn.module import Module
from ..nn.parameter import Parameter, empty_weight
from .body import Body, Step
from .errors import OnnxError, UnsupportedError
from .files import modern
from .node import DOMAIN
from .values import Value, value_of


class Graph(Module):
    """A model of ONNX: called with its inputs, in their order or by name, it returns its output, or a tuple of several.

    Raises:
        OnnxError: it uses an operator that is not here.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        if model.functions:
            raise UnsupportedError("the model has functions of its own: they are not here")
        model = modern(model)
        versions = {each.domain or DOMAIN: each.version for each in model.opset_import}
        try:
            self._body = Body.of(model.graph, versions)
        except RecursionError as error:
            raise OnnxError("the graph has bodies within bodies, deeper than can be read") from error
        self.input_names, self.output_names = self._body.inputs, self._body.outputs
        self.input_shapes = {each.name: _shape(each.type.tensor_type.shape) for each in model.graph.input}
        self._defaults = {each.name for each in model.graph.input} & set(self._body.weights)  # may be given, too
        self._attributes: dict[str, str] = {}  # of each weight
        trained, filters = _trained(self._body.steps), _filters(self._body.steps)
        for name, array in self._body.weights.items():
            self._keep(name, array, name in trained, name in filters)
        self._body.weights.clear()

    def forward(self, *inputs: Any, **named: Any) -> Any:
        values: dict[str, Value] = {"": None}
        values |= {name: getattr(self, attribute) for name, attribute in self._attributes.items()}
        if len(inputs) > len(self.input_names):
            raise TypeError(f"Graph: {len(inputs)} inputs, the model has {len(self.input_names)}: {self.input_names}")
        given = dict(zip(self.input_names, inputs, strict=False))
        for name, value in named.items():
            if name in given or (name not in self.input_names and name not in self._defaults):
                raise TypeError(f"Graph: {name} is given twice, or is none of the inputs {self.input_names}")
            given[name] = value
        missing = [name for name in self.input_names if name not in given]
        if missing:
            raise TypeError(f"Graph: the inputs {missing} are missing")
        values |= {name: _as_value(value) for name, value in given.items()}
        outputs = self._body.run(values, self)
        return outputs[0] if len(outputs) == 1 else outputs

    def extra_repr(self) -> str:
        """The inputs with their shapes, the outputs, and how many nodes are between them."""
        inputs = ", ".join(f"{name}{list(self.input_shapes[name])}" for name in self.input_names)
        return f"{inputs} -> {', '.join(self.output_names)}; {len(self._body.steps)} nodes"

    def _keep(self, name: str, array: np.ndarray, trained: bool, filters: bool) -> None:
        """Keep a weight under an attribute of its name, or of one like it."""
        stem = "".join(c if c.isalnum() else "_" for c in name).strip("_") or "weight"
        stem = stem if stem.isidentifier() else f"w_{stem}"
        attribute, count = stem, 1
        while hasattr(self, attribute):
            attribute, count = f"{stem}_{count}", count + 1
        value = value_of(array.copy())
        if isinstance(value, Tensor) and trained and value.array.dtype.kind == "f":
            parameter = Parameter(value)
            if filters and value.ndim > 1:  # in the order that the kernels read, or each call reorders it
                parameter = empty_weight(value.shape, value.array.dtype)
                parameter.array[...] = value.array
            setattr(self, attribute, parameter)
        elif isinstance(value, Tensor):
            self.register_buffer(attribute, value)
        else:
            setattr(self, attribute, value)
        self._attributes[name] = attribute


def _shape(shape: Any) -> tuple[int | str, ...]:
    """Extents, or the names of those that the file leaves open."""
    return tuple(each.dim_value if each.HasField("dim_value") else each.dim_param for each in shape.dim)


def _as_value(given: Any) -> Value:
    """Convert a caller's input (a Tensor, an array, a list of them, or None) to a Value."""
    if isinstance(given, list):
        return [_as_value(each) for each in given]
    return given if given is None or isinstance(given, Tensor) else value_of(given)


def _filters(steps: Iterable[Step]) -> set[str]:
    """The values that are weights of convolutions and linear layers, with the channels of the output first."""
    nodes = [step.node for step in steps if len(step.node.inputs) > 1]
    return {
        node.inputs[1]
        for node in nodes
        if node.operator in ("Conv", "ConvTranspose") or (node.operator == "Gemm" and node["transB"])
    }


def _trained(steps: Iterable[Step]) -> set[str]:
    """The values that an operator uses as a weight that training may change, and none as a constant."""
    found: set[str] = set()
    fixed: set[str] = set()
    for step in steps:
        for position, name in enumerate(step.node.inputs):
            (fixed if position in step.operator.constants else found).add(name)
        fixed = fixed.union(*(body.free for body in step.bodies.values()))
    return found - fixed
