"""Templates of the nodes that an operator records, from which machine code makes the same nodes again.

For the same layouts and options, an operator records the same nodes each time: only arrays, tensors and call sites
differ. See machine/operation.py of the compiled kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from .node import Node, SavedOutput, saved_output
from .tensor import Tensor

_MOST_NODES, _MOST_ENDS = 8, 32
_SLOTS = ("function", "needs_input_grad", "outputs")  # of a node; the others differ, or are made from templates
_CONSTANTS = frozenset({bool, int, float, str, type(None), *map(type, map(np.dtype, "fdlbB?"))})


class NodeTemplate(NamedTuple):
    """A node.

    slots: the values of some of its slots. edges: for each argument None, ("argument", the place of a tensor among
    those given) or ("end", a result of another node). saved: its saved items, see ``Template``; None if there are none.
    attributes: others, by name. ends: index, shape and dtype of each result.
    """

    slots: dict[str, Any]
    edges: list[tuple[str, int] | None]
    saved: list[tuple[Any, ...]] | None
    attributes: dict[str, Any]
    ends: list[tuple[int, tuple[int, ...], Any]]


class Template(NamedTuple):
    """The nodes of a call, oldest first. results: for each result its place among all ends, or -1.

    arrays: those that nodes save, without constants. A saved item is ("object", value), ("argument", place), ("output",
    array, index), ("array", array), ("tensor", array, end or -1), or ("number", the array of a constant), where an
    array is its place in ``arrays``.
    """

    nodes: list[NodeTemplate]
    results: list[int]
    arrays: list[np.ndarray]


class _Maker:
    """Makes the template of the nodes from ``given``, which are leaves, to ``results``."""

    def __init__(self, results: Sequence[Tensor], given: Sequence[Tensor]) -> None:
        self.given = {id(each): place for place, each in enumerate(given)}
        self.edges: dict[tuple[int, int], Any] = {}  # of all results of nodes, by the node's id and the index
        self.arrays: list[np.ndarray] = []
        nodes: dict[int, Node] = {}
        stack = [each._edge for each in results]
        while stack:
            edge: Any = stack.pop()
            if type(edge) is tuple:
                node = edge[0]
                self.edges[id(node), edge[1]] = edge
                if id(node) not in nodes:
                    nodes[id(node)] = node
                    stack += node.edges
                    if type(node.saved) is list:
                        stack += [item[0]._edge for item in node.saved if type(item) is tuple]
        self.nodes = sorted(nodes.values(), key=lambda node: -node.order)
        oldest = {id(node): place for place, node in enumerate(self.nodes)}
        ordered = sorted(self.edges, key=lambda key: (oldest[key[0]], key[1]))
        self.ends = {key: place for place, key in enumerate(ordered)}
        self.results = [self._end(each) for each in results]

    def _end(self, tensor: Tensor) -> int:
        return -1 if tensor._edge is None else self.ends[id(tensor._edge[0]), tensor._edge[1]]

    def _place(self, array: np.ndarray) -> int:
        self.arrays.append(array)
        return len(self.arrays) - 1

    def node(self, node: Node) -> NodeTemplate | None:
        """The template of one; None if it holds something that may differ from call to call."""
        attributes = dict(vars(node))
        if node.function._user_defined or not all(map(_is_constant, attributes.values())):
            return None
        slots = {name: getattr(node, name) for name in _SLOTS}
        saved: list[Any] | None = None
        if type(node.saved) is list:
            saved = [self._saved(item) for item in node.saved]
        elif node.saved == ():
            slots["saved"] = ()
        else:
            return None
        edges = [*map(self._edge, node.edges)]
        if None in (saved or ()) or False in edges:
            return None
        own = sorted([index for key, index in self.edges if key == id(node)])
        return NodeTemplate(slots, edges, saved, attributes, [self.edges[id(node), each][1:] for each in own])

    def _edge(self, edge: Any) -> Any:
        """None, a source, or False for a tensor that is not among those given."""
        if edge is None:
            return None
        if type(edge) is tuple:
            return "end", self.ends[id(edge[0]), edge[1]]
        return ("argument", self.given[id(edge)]) if id(edge) in self.given else False

    def _saved(self, item: Any) -> tuple[Any, ...] | None:
        kind = type(item)
        if item is None:
            return "object", None
        if kind is SavedOutput:
            return "output", self._place(item.array), item.index
        if kind is not tuple:  # a constant might be written by a backward
            return ("array", self._place(item)) if isinstance(item, np.ndarray) and kind is not np.ndarray else None
        tensor, array = item
        if tensor.array is not array or type(tensor) is not Tensor:
            return None
        if id(tensor) in self.given:
            return "argument", self.given[id(tensor)]
        if type(array) is not np.ndarray:
            usual = not tensor._requires_grad or tensor._edge is not None
            return ("tensor", self._place(array), self._end(tensor)) if usual else None
        if array.ndim or tensor._requires_grad:
            return None
        array.flags.writeable = False  # all calls share it
        return "number", array


def template_of(results: Sequence[Tensor], given: Sequence[Tensor]) -> Template | None:
    """Return the template of the nodes that a call has recorded while a plan was made.

    None if it holds something that may differ from call to call. given: the tensors among its arguments, leaves.
    """
    maker = _Maker(results, given)
    if len(maker.nodes) > _MOST_NODES or len(maker.ends) > _MOST_ENDS:
        return None
    nodes = [*map(maker.node, maker.nodes)]
    if None in nodes:
        return None
    return Template([each for each in nodes if each is not None], maker.results, maker.arrays)


def node_like(node: Node, next_saved: Callable[[], Any]) -> Node:
    """Return a copy of a node for a backward that is not recorded; it has saved the next Tensors, or Nones."""
    made = Node()
    for name in (*_SLOTS, "edges", "order"):
        setattr(made, name, getattr(node, name))
    vars(made).update(vars(node))
    made.saved = []
    for item in node.saved:
        tensor = next_saved()
        if type(item) is tuple:
            made.saved.append((tensor, tensor.array))
        elif isinstance(item, SavedOutput):
            made.saved.append(saved_output(tensor.array, item.index))
        else:
            made.saved.append(None if tensor is None else tensor.array)
    return made


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    if getattr(getattr(value, "__dataclass_params__", None), "frozen", False):  # such as the window of a convolution
        return all(_is_constant(getattr(value, each.name)) for each in fields(value))
    return type(value) in _CONSTANTS


# ---- Comparison of two calls -----------------------------------------------------------------------------------------


def is_same_graph(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same nodes above the same tensors, and these have saved the same bits."""
    return one._requires_grad is other._requires_grad and _is_same_edge(one._edge, other._edge)


def _is_same_edge(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not tuple or type(other) is not tuple or one[1:] != other[1:]:
        return False
    x, y = one[0], other[0]
    same = all(getattr(x, name) == getattr(y, name) for name in _SLOTS) and vars(x) == vars(y)
    if not same or hasattr(x, "call_site") != hasattr(y, "call_site") or type(x.saved) is not type(y.saved):
        return False
    pairs = ((x.saved, y.saved, _is_same_item), (x.edges, y.edges, _is_same_edge))
    return all(len(each) == len(others) and all(map(check, each, others)) for each, others, check in pairs)


def _is_same_item(one: Any, other: Any) -> bool:
    """Whether two saved items are the same for a backward."""
    if type(one) is tuple and type(other) is tuple:
        return (one[0] is other[0] or is_same_graph(one[0], other[0])) and _has_same_bits(one[1], other[1])
    if isinstance(one, SavedOutput) and isinstance(other, SavedOutput):
        return one.index == other.index and _has_same_bits(one.array, other.array)
    return one is other or _has_same_bits(one, other)


def _has_same_bits(one: Any, other: Any) -> bool:
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return False
    return (one.shape, one.dtype, one.tobytes()) == (other.shape, other.dtype, other.tobytes())
