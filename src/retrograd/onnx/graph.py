"""Execution of ONNX graphs, and Graph, the module for a loaded model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays.host import is_recorded, shared
from ..engine.memory_planning import root
from ..engine.operator import interpreted, interpreters, operator
from ..engine.steps import Step as Called
from ..engine.tensor import Tensor, wrap
from ..kernel_set import Listener
from ..nn.module import Module
from ..nn.parameter import Parameter, empty_weight
from .errors import OnnxError, UnsupportedError
from .files import modern, onnx
from .node import DOMAIN, Node, Value, array_of, value_of, varying
from .operators.registry import Operator, operators

# ---- Execution of a graph, the main one or a loop body, as steps in file order --------------------------------------

_OF_SHAPES = ("Shape", "Size")  # whose results do not depend on elements
_HALF = ("float16", "bfloat16")  # storage types: operators compute in float32 and round their results


@dataclass(frozen=True, eq=False)
class Step:
    """A node, the operator that computes it, its subgraphs, and the values that no later step uses."""

    node: Node
    operator: Operator
    bodies: dict[str, Body]
    last: tuple[str, ...]

    def reads(self) -> set[str]:
        """The names that it uses, including those within its subgraphs."""
        return set(self.node.inputs).union(*(body.free for body in self.bodies.values()))


@dataclass(frozen=True, eq=False)
class Body:
    """The steps of a graph or of a body in it.

    inputs, outputs: names of values. free: names of values of the enclosing graph. weights: its constants.
    """

    inputs: list[str]
    outputs: list[str]
    weights: dict[str, np.ndarray]
    steps: list[Step]
    free: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, graph: Any, versions: dict[str, int]) -> Body:
        """Return the steps of a GraphProto. versions: domain -> opset.

        Raises:
            OnnxError: an operator is not supported, or no node computes a value that is used.
        """
        if graph.sparse_initializer:
            raise UnsupportedError(f"the graph {graph.name!r} has sparse weights, which are not supported")
        weights = {each.name: onnx().numpy_helper.to_array(each) for each in graph.initializer}
        inputs = [each.name for each in graph.input if each.name not in weights]
        outputs = [each.name for each in graph.output]
        steps: list[Step] = []
        for proto in graph.node:
            steps.append(_step(proto, versions, steps))
        return cls._made(inputs, outputs, weights, steps)

    @classmethod
    def between(cls, inputs: list[str], output: str, steps: list[Step]) -> Body:
        """Return the steps that compute the output from the inputs; other values are free."""
        required, needed = {output} - {*inputs}, []
        for step in reversed(steps):
            if required & set(step.node.outputs):
                needed.append(step)
                required = (required | step.reads()) - {*inputs}
        return cls._made(inputs, [output], {}, needed[::-1])

    @classmethod
    def _made(cls, inputs: list[str], outputs: list[str], weights: dict[str, np.ndarray], steps: list[Step]) -> Body:
        made, free = {*inputs, *weights, ""}, set()
        for step in steps:
            free |= step.reads() - made
            made |= set(step.node.outputs)
        return cls(inputs, outputs, weights, _with_last(steps, set(outputs)), free | (set(outputs) - made))

    def run(self, values: Values, module: Any) -> tuple[Value, ...]:
        """Compute the outputs from ``values`` (inputs, weights, free values), removed after their last use."""
        for step in self.steps:
            _compute(step, values, module)
        missing = [name for name in self.outputs if name not in values]
        if missing:
            raise OnnxError(f"no node computes the outputs {missing}")
        return tuple(values[name] for name in self.outputs)

    def inner(self, outer: Values, given: tuple[Value, ...], module: Any) -> tuple[Value, ...]:
        """Compute the outputs of a body from its inputs and the values of the enclosing graph."""
        if len(given) != len(self.inputs):
            raise OnnxError(f"a body with {len(self.inputs)} inputs got {len(given)}")
        values = Values({"": None, **{name: outer[name] for name in self.free}})
        values.update({name: value_of(array) for name, array in self.weights.items()})
        values.update(zip(self.inputs, given, strict=True))
        if (known := varying.values) is None:
            return self.run(values, module)
        values.varying = {name for name in self.free if name in outer.varying}
        values.varying |= {name for name, each in zip(self.inputs, given, strict=True) if id(each) in known}
        results = self.run(values, module)
        known.update(
            (id(each), each) for name, each in zip(self.outputs, results, strict=True) if name in values.varying
        )
        return results


def _step(proto: Any, versions: dict[str, int], before: list[Step]) -> Step:
    node = Node.of(proto, versions)
    known = operators().get((node.domain, node.operator))
    if known is None:
        raise UnsupportedError(f"{node}: the operator {node.operator} of {node.domain} is not supported")
    bodies = {each.name: Body.of(each.g, versions) for each in proto.attribute if each.HasField("g")}
    if known.differentiates:
        bodies["y"] = Body.between([*node["xs"], *(node["zs"] or ())], node["y"], before)
    return Step(node, known, bodies, ())


def _with_last(steps: list[Step], outputs: set[str]) -> list[Step]:
    kept, found = set(outputs), []
    for step in reversed(steps):
        names = dict.fromkeys((*step.reads(), *step.node.outputs))
        found.append(Step(step.node, step.operator, step.bodies, tuple(n for n in names if n and n not in kept)))
        kept |= step.reads()
    return found[::-1]


class Values(dict[str, Value]):
    """Values by name. varying: the names of those that depend on what a call got, while it is recorded."""

    varying: set[str] = set()


class _Made(Listener):
    """Lists the memory of all kernels' results, and of the arrays that they write in place."""

    def __init__(self) -> None:
        self.owners: list[np.ndarray] = []

    def call(self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = kernel(*args, **kwargs)
        self.owners += map(root, Called(name, kernel, args, kwargs, result).outputs)
        return result


def _compute_recorded(step: Step, inputs: list[Value], more: dict[str, Any], values: Values) -> tuple[Value, ...]:
    """Compute a node, and report what NumPy computes from values that depend on what the call got."""
    outer = varying.values
    given = {id(values[name]): values[name] for name in step.reads() & values.varying}
    varying.values = {**given}
    try:
        with _Made() as made:
            results = compute_node(step.node, step.operator, inputs, more)
    finally:
        varying.values = outer
    if not given or step.node.operator in _OF_SHAPES:
        return results
    known = {*map(id, made.owners)} | {id(root(array_of(each))) for each in values.values() if _is_array(each)}
    for name, result in zip(step.node.outputs, results, strict=False):
        values.varying.add(name)
        if _is_array(result) and not step.bodies and id(root(array_of(result))) not in known:
            shared(array_of(result), f"what NumPy computes for {step.node.operator}")
    return results


def _is_array(value: Value) -> bool:
    return isinstance(value, (Tensor, np.ndarray))


def _compute(step: Step, values: Values, module: Any) -> None:
    node, operator = step.node, step.operator
    missing = [name for name in node.inputs if name not in values]
    if missing:
        raise OnnxError(f"{node}: no node computes its inputs {missing}")
    inputs = [values[name] for name in node.inputs]
    more: dict[str, Any] = {"module": module} if operator.stateful else {}
    if operator.branches:
        more["run"] = lambda name, *given: step.bodies[name].inner(values, given, module)
    if is_recorded():
        results = _compute_recorded(step, inputs, more, values)
    else:
        results = compute_node(node, operator, inputs, more)
    for name, result in zip(node.outputs, results, strict=False):
        if name:
            values[name] = result
    for name in step.last:
        values.pop(name, None)


@operator
def compute_node(node: Node, operator: Operator, inputs: list[Value], more: dict[str, Any]) -> tuple[Value, ...]:
    """Compute the outputs of a node from its inputs. more: further arguments of the operator.

    Raises:
        OnnxError: the inputs do not fit, or an option is not supported; the message names the node.
    """
    if interpreters and (seen := interpreted(compute_node, locals())) is not None:
        return seen
    half = None if operator.typed or operator.branches else _half(inputs)
    try:
        results = operator.compute(node, *(map(_widened, inputs) if half else inputs), **more)
    except UnsupportedError as error:
        text = f"{error}" if str(error).startswith("node") else f"{node}: not supported: {error}"
        raise UnsupportedError(text) from error
    except (AttributeError, AssertionError, KeyError, ArithmeticError) as error:
        raise OnnxError(f"{node}: its inputs or attributes do not fit: {error}") from error
    except (ValueError, TypeError, IndexError, RuntimeError) as error:
        error.add_note(f"in the {node} of an ONNX model")
        raise
    results = results if isinstance(results, tuple) else (results,)
    return tuple([_rounded(each, half) for each in results]) if half else results


def _half(inputs: Iterable[Value]) -> np.dtype[Any] | None:
    """Return the storage type of an input, if one has such a type."""
    kinds = [array_of(value).dtype for value in inputs if isinstance(value, np.ndarray)]
    return next((kind for kind in kinds if kind.name in _HALF), None)


def _widened(value: Value) -> Value:
    if isinstance(value, np.ndarray) and value.dtype.name in _HALF:
        return wrap(value.astype(np.float32))
    return value


def _rounded(value: Value, dtype: np.dtype[Any]) -> Value:
    if isinstance(value, Tensor) and value.array.dtype == np.float32:
        return value.array.astype(dtype)
    return value


# ---- An ONNX model as a module with trainable weights ---------------------------------------------------------------


class Graph(Module):
    """An ONNX model. It is called with its inputs, in order or by name, and returns its output, or a tuple of several.

    Raises:
        OnnxError: it uses an unsupported operator.
    """

    input_names: list[str]
    output_names: list[str]
    input_shapes: dict[Any, tuple[int | str, ...]]

    def __init__(self, model: Any) -> None:
        super().__init__()
        if model.functions:
            raise UnsupportedError("the model defines functions, which are not supported")
        model = modern(model)
        versions = {each.domain or DOMAIN: each.version for each in model.opset_import}
        try:
            self._body = Body.of(model.graph, versions)
        except RecursionError as error:
            raise OnnxError("the bodies of the graph are nested too deeply") from error
        self.input_names, self.output_names = self._body.inputs, self._body.outputs
        self.input_shapes = {each.name: _shape(each.type.tensor_type.shape) for each in model.graph.input}
        self._defaults = {each.name for each in model.graph.input} & set(self._body.weights)  # optional inputs
        self._attributes: dict[str, str] = {}  # of each weight
        trained, filters = _trained(self._body.steps), _filters(self._body.steps)
        for name, array in self._body.weights.items():
            self._keep(name, array, name in trained, name in filters)
        self._body.weights.clear()

    def forward(self, *inputs: Any, **named: Any) -> Any:
        values = Values({"": None})
        values.update({name: getattr(self, attribute) for name, attribute in self._attributes.items()})
        if len(inputs) > len(self.input_names):
            raise TypeError(f"Graph: {len(inputs)} inputs, the model has {len(self.input_names)}: {self.input_names}")
        given = dict(zip(self.input_names, inputs, strict=False))
        for name, value in named.items():
            if name in given or (name not in self.input_names and name not in self._defaults):
                raise TypeError(f"Graph: {name} is given twice, or is not one of the inputs {self.input_names}")
            given[name] = value
        missing = [name for name in self.input_names if name not in given]
        if missing:
            raise TypeError(f"Graph: the inputs {missing} are missing")
        values.update({name: _as_value(value) for name, value in given.items()})
        values.varying = {*given}
        outputs = self._body.run(values, self)
        return outputs[0] if len(outputs) == 1 else outputs

    def extra_repr(self) -> str:
        """The inputs with their shapes, the outputs, and the number of nodes."""
        inputs = ", ".join(f"{name}{list(self.input_shapes[name])}" for name in self.input_names)
        return f"{inputs} -> {', '.join(self.output_names)}; {len(self._body.steps)} nodes"

    def _keep(self, name: str, array: np.ndarray, trained: bool, filters: bool) -> None:
        """Store a weight as an attribute with its name, or a similar one."""
        stem = "".join(c if c.isalnum() else "_" for c in name).strip("_") or "weight"
        stem = stem if stem.isidentifier() else f"w_{stem}"
        attribute, count = stem, 1
        while hasattr(self, attribute):
            attribute, count = f"{stem}_{count}", count + 1
        value = value_of(array.copy())
        if isinstance(value, Tensor) and trained and value.array.dtype.kind == "f":
            parameter = Parameter(value)
            if filters and value.ndim > 1:  # in the kernels' memory order, so that calls need not reorder it
                parameter = empty_weight(value.shape, value.array.dtype)
                parameter.array[...] = value.array
            setattr(self, attribute, parameter)
        elif isinstance(value, Tensor):
            self.register_buffer(attribute, value)
        else:
            setattr(self, attribute, value)
        self._attributes[name] = attribute


def _shape(shape: Any) -> tuple[int | str, ...]:
    """Return the extents, or the names of variable ones."""
    return tuple(each.dim_value if each.HasField("dim_value") else each.dim_param for each in shape.dim)


def _as_value(given: Any) -> Value:
    """Convert a caller's input (a Tensor, an array, a list of them, or None) to a Value."""
    if isinstance(given, list):
        return [_as_value(each) for each in given]
    return given if given is None or isinstance(given, Tensor) else value_of(given)


def _filters(steps: Iterable[Step]) -> set[str]:
    """Return the weights of convolutions and linear layers that have the output channels first."""
    nodes = [step.node for step in steps if len(step.node.inputs) > 1]
    return {
        node.inputs[1]
        for node in nodes
        if node.operator in ("Conv", "ConvTranspose") or (node.operator == "Gemm" and node["transB"])
    }


def _trained(steps: Iterable[Step]) -> set[str]:
    """Return the values that some operator uses as a trainable weight, and none as a constant."""
    found: set[str] = set()
    fixed: set[str] = set()
    for step in steps:
        for position, name in enumerate(step.node.inputs):
            (fixed if position in step.operator.constants else found).add(name)
        fixed = fixed.union(*(body.free for body in step.bodies.values()))
    return found - fixed
