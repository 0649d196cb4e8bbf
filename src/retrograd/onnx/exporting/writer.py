"""Writer of an ONNX graph: nodes and constants, in the order of the calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..files import onnx
from .tracing import Call, Fixed, Known, Lost, Named, Result

OPSET = 18  # the lowest opset written


@dataclass(frozen=True, eq=False)
class Value:
    """A value of the graph. ``array``: its content for the example, if the model has this value."""

    name: str
    dtype: np.dtype[Any]
    array: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        assert self.array is not None, "an intermediate value of a converter has no shape"
        return self.array.shape


@dataclass
class NodeText:
    """A node as written to the file; ``inputs`` are names, "" for an omitted one."""

    operator: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]

    def key(self) -> tuple[Any, ...]:
        """A key that is equal for nodes that compute the same from the same values."""
        return self.operator, self.name, self.inputs, self.outputs, repr(sorted(self.attributes.items()))


@dataclass
class Writer:
    """Writes the nodes of calls; converters use ``node``, ``constant`` and ``ints``.

    calls: all recorded calls. named: the values of inputs, parameters and buffers. opset: of the operators used.
    """

    calls: list[Call]
    named: dict[str, np.ndarray]
    nodes: list[NodeText] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    opset: int = OPSET
    path: str = ""  # of the module whose call is being written
    results: tuple[Any, ...] = ()  # the arrays that the call returned
    inputs: frozenset[str] = frozenset()  # the names in ``named`` that are inputs
    trained: set[str] = field(default_factory=set)  # parameters, and constants made from them
    made: dict[Any, Any] = field(default_factory=dict)  # what a converter stores for its next call
    _values: dict[Result, Value] = field(default_factory=dict)
    _promises: dict[str, Any] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)  # used names by stem
    _names: set[str] = field(default_factory=set)

    def reserve(self, names: Iterable[str]) -> None:
        """Reserve names that no value of the writer may have."""
        self._names |= {*names}

    def write(self, number: int, convert: Callable[..., Any]) -> None:
        """Write a call's nodes and record its output values.

        Raises:
            UnsupportedError: ONNX has no equivalent.
        """
        call = self.calls[number]
        self.path, self.results = call.path, call.outputs
        arguments = [self.value(each) for each in call.arguments]
        found = convert(self, *arguments, **{name: self.value(each) for name, each in call.named.items()})
        values = found if isinstance(found, tuple) else (found,)
        for place, (value, array) in enumerate(zip(values, call.outputs, strict=False)):
            if array is not None:
                self._values[Result(number, place)] = Value(value.name, array.dtype, array)

    def value(self, argument: Any) -> Any:
        """Convert an argument for a converter: a Value for each tensor, anything else as it is."""
        if isinstance(argument, Fixed):
            return self.constant(argument.array)
        if isinstance(argument, (tuple, list)) and type(argument) in (tuple, list):
            return type(argument)(self.value(each) for each in argument)
        if not isinstance(argument, Known):
            return argument
        origin, array = argument.origin, argument.array
        if isinstance(origin, Named):
            return Value(origin.name, array.dtype, array)
        if isinstance(origin, Result):
            return self._values[origin]
        if isinstance(origin, Lost):
            where = f" in the module {origin.path!r}" if origin.path else ""
            raise UnsupportedError(f"the result of {origin.maker.lstrip('_')}{where} for an input")
        found = self.reshape(self.value(Known(origin.origin, array)), origin.shape)
        if origin.wide is not None:
            found = self.node("Expand", found, self.ints(origin.wide))
        return Value(found.name, array.dtype, array)

    def finish(self, values: list[Value], names: list[str]) -> None:
        """Name the outputs of the model, and merge equal constants and equal nodes."""
        renamed: dict[str, str] = {}
        known: dict[Any, Any] = {}
        for name, array in list(self.constants.items()):
            content = array.dtype, array.shape, array.tobytes()
            first = name if name in self.trained else known.setdefault(content, name)
            if first != name:
                renamed[name] = first
                del self.constants[name]
        self.nodes = [node for node in self.nodes if self._is_new(node, renamed, known)]
        made = {name for node in self.nodes for name in node.outputs}
        values = [replace(value, name=renamed.get(value.name, value.name)) for value in values]
        for value, name in zip(values, names, strict=True):
            if value.name in made and value.name not in renamed:
                renamed[value.name] = name
        for node in self.nodes:
            node.inputs = [renamed.get(each, each) for each in node.inputs]
            node.outputs = [renamed.get(each, each) for each in node.outputs]
        for value, name in zip(values, names, strict=True):
            if renamed.get(value.name) != name:
                given = renamed.get(value.name, value.name)
                self.nodes.append(NodeText("Identity", f"{name}/Identity", [given], [name], {}))

    @staticmethod
    def _is_new(node: NodeText, renamed: dict[str, str], known: dict[Any, Any]) -> bool:
        """Return whether no earlier node computes the same; if one does, its outputs replace those of this node."""
        node.inputs = [renamed.get(each, each) for each in node.inputs]
        attributes = repr(sorted(node.attributes.items()))
        first = known.setdefault((node.operator, *node.inputs, attributes, len(node.outputs)), node)
        if first is not node:
            renamed.update(zip(node.outputs, first.outputs, strict=True))
        return first is node

    def weight(self, value: Value) -> np.ndarray | None:
        """Return the array of a parameter, a buffer or a constant; None for a computed value."""
        if value.name in self.constants:
            return self.constants[value.name]
        return None if value.name in self.inputs else self.named.get(value.name)

    def is_weight(self, name: str) -> bool:
        """Return whether a value is a parameter, or a statistic that training updates."""
        normalized = (node.inputs[3:5] for node in self.nodes if node.operator == "BatchNormalization")
        return name in self.trained or any(name in each for each in normalized)

    def promise(self, what: Any) -> Value:
        """Return a placeholder that is never written; the converter that receives it calls ``promised``."""
        name = self.new_name("promise")
        self._promises[name] = what
        return Value(name, np.dtype(np.float32))

    def promised(self, value: Value) -> Any:
        """Return the object promised under this value, or None."""
        return self._promises.get(value.name)

    def node(
        self,
        operator: str,
        *inputs: Value | None,
        dtype: Any = None,
        outputs: int = 1,
        opset: int = OPSET,
        more: Mapping[str, Any] | None = None,
        **attributes: Any,
    ) -> Any:
        """Write a node and return its output, or a tuple of several.

        dtype: of the outputs; by default that of the first input. opset: the lowest in which the node has this meaning.
        more: attributes whose names may coincide with arguments of this method.
        """
        attributes |= more or {}
        self.opset = max(self.opset, opset)
        name = self.new_name(f"{self.path}/{operator}" if self.path else operator)
        names = [name] if outputs == 1 else [f"{name}:{place}" for place in range(outputs)]
        attributes = {key: value for key, value in attributes.items() if value is not None}
        given = ["" if each is None else each.name for each in inputs]
        self.require(not self._promises.keys() & set(given), "a placeholder for several values")
        while given and not given[-1]:
            given.pop()
        self.nodes.append(NodeText(operator, name, given, names, attributes))
        kind = np.dtype(dtype) if dtype is not None else next(each.dtype for each in inputs if each is not None)
        values = [Value(each, kind) for each in names]
        return values[0] if outputs == 1 else tuple(values)

    def constant(self, array: Any, dtype: Any = None, name: str = "constant", trained: bool = False) -> Value:
        """Write an array or a number to the file; ``trained``: it is made from parameters, and is a weight itself."""
        array = np.asarray(array, dtype)
        label = self.new_name(f"{self.path}/{name}" if self.path else name)
        self.constants[label] = array
        if trained:
            self.trained.add(label)
        return Value(label, array.dtype, array)

    def ints(self, numbers: Iterable[int]) -> Value:
        """Write a list of numbers such as a shape; ``merge`` computes those that depend on a variable extent."""
        return self.constant(np.array(list(numbers), np.int64))

    def reshape(self, x: Value, shape: Iterable[int]) -> Value:
        """Write x in another shape."""
        extents = list(shape)
        return self.node("Reshape", x, self.ints(extents), allowzero=1 if 0 in extents else None)

    def cast(self, x: Value, dtype: Any) -> Value:
        """Write x in another type."""
        kind = np.dtype(dtype)
        if x.dtype == kind:
            return x
        return self.node("Cast", x, dtype=kind, to=int(onnx().helper.np_dtype_to_tensor_dtype(kind)))

    def as_value(self, array: Any) -> Value:
        """Return an argument as a Value, even if it is an array."""
        return array if isinstance(array, Value) else self.constant(array)

    def require(self, condition: Any, what: str) -> None:
        """Raise an error for something that ONNX cannot express.

        Raises:
            UnsupportedError: the condition does not hold.
        """
        if not condition:
            raise UnsupportedError(what)

    def new_name(self, stem: str) -> str:
        """Return a name that no value has yet."""
        name = stem
        while name in self._names:
            count = self._counts[stem] = self._counts.get(stem, 0) + 1
            name = f"{stem}_{count}"
        self._names.add(name)
        return name
