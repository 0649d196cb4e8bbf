"""A graph that is being written: nodes and constants, in the order of the calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..files import onnx
from .tracing import Call, Fixed, Known, Lost, Named, Result

OPSET = 18  # the least that is written


@dataclass(frozen=True, eq=False)
class Value:
    """A value of the graph. ``array``: what it was for the example, if it is a value of the model's."""

    name: str
    dtype: np.dtype[Any]
    array: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        assert self.array is not None, "an intermediate value of a converter has no shape"
        return self.array.shape


@dataclass
class NodeText:
    """A node as it will stand in the file; ``inputs`` are names, "" for one that is left out."""

    operator: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]

    def key(self) -> tuple[Any, ...]:
        """Equal for nodes that do the same with the same values."""
        return self.operator, self.name, self.inputs, self.outputs, repr(sorted(self.attributes.items()))


@dataclass
class Writer:
    """Writes the nodes of calls; converters use ``node``, ``constant`` and ``ints``.

    calls: all that were recorded. named: the values of inputs, parameters and buffers. opset: of the operators used.
    """

    calls: list[Call]
    named: dict[str, np.ndarray]
    nodes: list[NodeText] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    opset: int = OPSET
    path: str = ""  # of the module whose call is written
    results: tuple[Any, ...] = ()  # the arrays that the call gave
    inputs: frozenset[str] = frozenset()  # the names in ``named`` that are inputs
    trained: set[str] = field(default_factory=set)  # parameters, and constants made of them
    made: dict[Any, Any] = field(default_factory=dict)  # what a converter keeps for its next call
    _values: dict[Result, Value] = field(default_factory=dict)
    _promises: dict[str, Any] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)  # of names with a stem
    _names: set[str] = field(default_factory=set)

    def reserve(self, names: Iterable[str]) -> None:
        """Names that no value of the writer may have."""
        self._names |= {*names}

    def write(self, number: int, convert: Callable[..., Any]) -> None:
        """Write a call's nodes and remember its values.

        Raises:
            UnsupportedError: ONNX has nothing like it.
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
            raise UnsupportedError(f"what {origin.maker.lstrip('_')}{where} makes of an input")
        found = self.reshape(self.value(Known(origin.origin, array)), origin.shape)
        if origin.wide is not None:
            found = self.node("Expand", found, self.ints(origin.wide))
        return Value(found.name, array.dtype, array)

    def finish(self, values: list[Value], names: list[str]) -> None:
        """Give the outputs of the model their names, and let equal constants and nodes be one."""
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
        """Whether no node before it does the same with the same values; if one does, its outputs take their place."""
        node.inputs = [renamed.get(each, each) for each in node.inputs]
        attributes = repr(sorted(node.attributes.items()))
        first = known.setdefault((node.operator, *node.inputs, attributes, len(node.outputs)), node)
        if first is not node:
            renamed.update(zip(node.outputs, first.outputs, strict=True))
        return first is node

    def weight(self, value: Value) -> np.ndarray | None:
        """The array of a parameter, a buffer or a constant; None for what is computed."""
        if value.name in self.constants:
            return self.constants[value.name]
        return None if value.name in self.inputs else self.named.get(value.name)

    def is_weight(self, name: str) -> bool:
        """Whether a value is a parameter, or a statistic that training updates."""
        normalized = (node.inputs[3:5] for node in self.nodes if node.operator == "BatchNormalization")
        return name in self.trained or any(name in each for each in normalized)

    def promise(self, what: Any) -> Value:
        """A value that is not written: the converter of the call that takes it asks for ``promised``."""
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
        """Write a node; returns its output, or a tuple of several.

        dtype: of the outputs; by default that of the first input. opset: the least in which the node is as meant.
        more: attributes whose names may be those of arguments here.
        """
        attributes |= more or {}
        self.opset = max(self.opset, opset)
        name = self.new_name(f"{self.path}/{operator}" if self.path else operator)
        names = [name] if outputs == 1 else [f"{name}:{place}" for place in range(outputs)]
        attributes = {key: value for key, value in attributes.items() if value is not None}
        given = ["" if each is None else each.name for each in inputs]
        self.require(not self._promises.keys() & set(given), "a value that stands for several")
        while given and not given[-1]:
            given.pop()
        self.nodes.append(NodeText(operator, name, given, names, attributes))
        kind = np.dtype(dtype) if dtype is not None else next(each.dtype for each in inputs if each is not None)
        values = [Value(each, kind) for each in names]
        return values[0] if outputs == 1 else tuple(values)

    def constant(self, array: Any, dtype: Any = None, name: str = "constant", trained: bool = False) -> Value:
        """An array, or a number, that is in the file; ``trained``: made of parameters, and a weight itself."""
        array = np.asarray(array, dtype)
        label = self.new_name(f"{self.path}/{name}" if self.path else name)
        self.constants[label] = array
        if trained:
            self.trained.add(label)
        return Value(label, array.dtype, array)

    def ints(self, numbers: Iterable[int]) -> Value:
        """Shapes, axes and the like; those that depend on an extent left open are computed from it, see ``merge``."""
        return self.constant(np.array(list(numbers), np.int64))

    def reshape(self, x: Value, shape: Iterable[int]) -> Value:
        """x in another shape."""
        extents = list(shape)
        return self.node("Reshape", x, self.ints(extents), allowzero=1 if 0 in extents else None)

    def cast(self, x: Value, dtype: Any) -> Value:
        """x in another type."""
        kind = np.dtype(dtype)
        if x.dtype == kind:
            return x
        return self.node("Cast", x, dtype=kind, to=int(onnx().helper.np_dtype_to_tensor_dtype(kind)))

    def taken(self, array: Any) -> Value:
        """An argument that may be an array, as a Value."""
        return array if isinstance(array, Value) else self.constant(array)

    def require(self, condition: Any, what: str) -> None:
        """Refuse what ONNX has no word for.

        Raises:
            UnsupportedError: the condition does not hold.
        """
        if not condition:
            raise UnsupportedError(what)

    def new_name(self, stem: str) -> str:
        """A name that no value has yet."""
        name = stem
        while name in self._names:
            count = self._counts[stem] = self._counts.get(stem, 0) + 1
            name = f"{stem}_{count}"
        self._names.add(name)
        return name
