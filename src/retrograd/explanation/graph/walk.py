"""Walk through a recorded graph, from a result back to the leaves.

The result is plain data. It keeps no tensor or array alive, and does not change when the graph is freed or run.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import PurePath
from typing import Any

import numpy as np

from ...engine.aliasing import memory_owner, saved_array
from ...engine.call_site import line_number
from ...engine.function import Function
from ...engine.node import FREED, Node, SavedOutput
from ...engine.recompute import Deferred, Dropped
from ...engine.tensor import Tensor

__all__ = ["Leaf", "Operator", "Output", "Saved", "Source", "Walk", "walk"]


@dataclass(frozen=True)
class Output:
    """A result of an operator; norm: the norm of its gradient, if retained."""

    shape: tuple[int, ...]
    dtype: str
    norm: float | None = None


@dataclass(frozen=True)
class Saved:
    """An array that an operator keeps for its backward.

    name: the name of the leaf or of the forward argument that it is; "output"; "constant" for a tensor without
        gradient; "array" for an array computed by forward.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int


@dataclass(frozen=True)
class Source:
    """The destination of an argument's gradient: an operator (its number and output) or a leaf (its index).

    name: the name of the argument in forward.
    """

    name: str
    operator: int = 0
    output: int = 0
    leaf: int | None = None


@dataclass(frozen=True)
class Leaf:
    """A tensor that gradients are delivered to.

    name: its path in the model, or its kind and a number. grad_req: "null" if it takes no gradient. norm: the
    norm of ``grad``, if any.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    grad_req: str = "add"
    norm: float | None = None

    @property
    def numel(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Operator:
    """One recorded call.

    number: its position in forward, from 1. module: the path of the module whose parameters it uses, "" if unknown.
    rule: the name of the rule that replaces its backward. place: the user's line, "" if it is not recorded.
    sources: of the arguments that have a gradient. state: of its saved arrays, "kept", "freed", or "recomputed"
    (computed again in backward).
    """

    number: int
    name: str
    module: str
    rule: str | None
    place: str
    outputs: tuple[Output, ...]
    sources: tuple[Source, ...]
    saved: tuple[Saved, ...]
    state: str


@dataclass(frozen=True)
class Walk:
    """The operators and leaves found by a walk.

    operators: in forward order, without the oldest `left_out` of the graph. leaves: in the order of their first use by
    these. memory: bytes that their saved arrays keep alive besides the leaves; shared memory counts once. output: which
    output of the last operator is the result.
    """

    operators: tuple[Operator, ...]
    leaves: tuple[Leaf, ...]
    left_out: int
    memory: int
    output: int = 0


def walk(result: Tensor, names: Mapping[int, str], most: int) -> Walk:
    """Walk the graph behind a result of an operation.

    names: id of a leaf -> its name. most: the number of operators to describe, starting from the newest.
    """
    edge: Any = result._edge
    root, place, *kind = edge
    heap, waiting = [root.order], {root.order: root}
    numbers: dict[int, int] = {}  # order -> place, newest first
    shapes: dict[tuple[int, int], Any] = {(root.order, place): kind}  # (order, output) -> shape, dtype, as in edges
    kept: list[Node] = []
    while heap:
        node = waiting[heappop(heap)]
        numbers[node.order] = len(numbers)
        if len(kept) < most:
            kept.append(node)
        for edge in node.edges:
            if type(edge) is tuple:
                producer, output, shape, dtype = edge
                shapes[producer.order, output] = shape, dtype
                if producer.order not in waiting:
                    waiting[producer.order] = producer
                    heappush(heap, producer.order)
    kept.reverse()
    leaves = _Leaves(names)
    described = [_operator(node, numbers, shapes, leaves) for node in kept]
    return Walk(tuple(described), tuple(leaves.found), len(numbers) - len(kept), _memory(kept, leaves.tensors), place)


class _Leaves:
    """The leaves found so far: `places` by id, and their descriptions."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self.names = names
        self.places: dict[int, int] = {}
        self.tensors: list[Tensor] = []  # keeps them alive, so that no id is reused
        self.found: list[Leaf] = []

    def place(self, leaf: Tensor) -> int:
        place = self.places.get(id(leaf))
        if place is None:
            place = self.places[id(leaf)] = len(self.found)
            name = self.names.get(id(leaf)) or f"{type(leaf).__name__.lower()} {place + 1}"
            self.tensors.append(leaf)
            self.found.append(Leaf(name, leaf.shape, leaf.dtype.name, leaf.grad_req, _norm(leaf.grad)))
        return place


def _operator(
    node: Node, numbers: Mapping[int, int], shapes: Mapping[tuple[int, int], Any], leaves: _Leaves
) -> Operator:
    function = node.function
    arguments = _argument_names(function, len(node.edges))
    sources = []
    paths = set()
    for name, edge in zip(arguments, node.edges, strict=True):
        if type(edge) is tuple:
            sources.append(Source(name, len(numbers) - numbers[edge[0].order], edge[1]))
        elif edge is not None:
            sources.append(Source(name, leaf=leaves.place(edge)))
            if id(edge) in leaves.names:
                paths.add(leaves.names[id(edge)].rpartition(".")[0])
    place = getattr(node, "call_site", None)
    return Operator(
        len(numbers) - numbers[node.order],
        function.__name__,
        paths.pop() if len(paths) == 1 else "",
        node.rule,
        "" if place is None else f"{PurePath(place[0].co_filename).name}:{line_number(place)}",
        _outputs(node, shapes),
        tuple(sources),
        tuple(_saved(item, node, arguments, leaves.names) for item in _items(node)),
        "freed" if node.saved is FREED else "recomputed" if type(node.saved) is Deferred else "kept",
    )


def _outputs(node: Node, shapes: Mapping[tuple[int, int], Any]) -> tuple[Output, ...]:
    outputs = node.outputs
    if outputs is None:  # a single one, which an edge describes
        outputs = (shapes[node.order, 0],)
    norms = {}
    for output, keeper in node.retained:
        result = keeper()
        if result is not None:
            norms[output] = _norm(result.grad)
    return tuple(Output(tuple(shape), dtype.name, norms.get(n)) for n, (shape, dtype) in enumerate(outputs))


def _argument_names(function: type[Function], count: int) -> list[str]:
    """Return the names that forward gives to the arguments of `apply`."""
    try:
        parameters = list(inspect.signature(function.forward).parameters.values())
    except (TypeError, ValueError):  # a callable without an inspectable signature
        parameters = []
    names: list[str] = []
    for parameter in parameters[function._takes_ctx :]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{n}]" for n in range(count - len(names))]
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            names.append(parameter.name)
    return [*names, *(f"argument {n}" for n in range(len(names), count))][:count]


def _items(node: Node) -> Iterator[Any]:
    """Yield the arrays that a node has saved, in the forms of node.py and recompute.py; object arrays are unpacked."""
    saved = node.saved
    for item in () if saved is FREED else saved.items if type(saved) is Deferred else saved:
        if isinstance(item, np.ndarray) and item.dtype.kind == "O":
            yield from _inside(item.tolist())
        elif type(item) is Dropped or saved_array(item) is not None:
            yield item


def _inside(box: Any) -> Iterator[np.ndarray]:
    if isinstance(box, np.ndarray):
        yield box
    elif isinstance(box, (tuple, list)):
        for item in box:
            yield from _inside(item)


def _saved(item: Any, node: Node, arguments: list[str], names: Mapping[int, str]) -> Saved:
    array: Any = item if type(item) is Dropped else saved_array(item)
    nbytes = array.dtype.itemsize * math.prod(array.shape)
    return Saved(_role(item, node, arguments, names), tuple(array.shape), array.dtype.name, nbytes)


def _role(item: Any, node: Node, arguments: list[str], names: Mapping[int, str]) -> str:
    kind = item.kind if type(item) is Dropped else type(item)
    if kind is SavedOutput:
        return "output" if node.outputs is None or len(node.outputs) == 1 else f"output {item.index}"
    if kind is not tuple:
        return "array"
    if type(item) is Dropped:
        tensor, edge, recorded = item, item.edge, item.requires_grad
    else:
        tensor, edge, recorded = item[0], item[0]._edge, item[0]._requires_grad
    for name, other in zip(arguments, node.edges, strict=True):
        if (other is tensor) if edge is None else (type(other) is tuple and edge[:2] == other[:2]):
            return names.get(id(other), name).rpartition(".")[2]
    return "array" if recorded else "constant"


def _memory(nodes: list[Node], leaves: list[Tensor]) -> int:
    """Return the bytes that saved arrays keep alive; shared memory counts once, and memory of leaves does not count."""
    known = {id(memory_owner(leaf.array)) for leaf in leaves}
    total = 0
    for node in nodes:
        for item in _items(node):
            array = None if type(item) is Dropped else saved_array(item)
            if array is not None and id(owner := memory_owner(array)) not in known:
                known.add(id(owner))
                total += owner.nbytes
    return total


def _norm(gradient: Tensor | None) -> float | None:
    return None if gradient is None else float(np.linalg.norm(gradient.array.astype(np.float64).ravel()))
