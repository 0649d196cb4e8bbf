"""Region: the nodes that one call recorded, whose backward is a rule; and the tensors that go into the call.

A region may contain others, of rules on inner calls. How the sweep runs a rule is in ruled.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .changes import check
from .function import Function
from .node import FREED, Node
from .tensor import Tensor

if TYPE_CHECKING:
    from .rule import Rule

Own = list[tuple[dict[str, Any], str]]  # a layer's parameters: where each stands


class Identity(Function):
    """y = x: a tensor of its own in the graph."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


class Region:
    """One call of an operator or layer.

    rule: its rule. name: of the operator or layer. parent: the region that it is part of.
    inputs: the Tensors among its arguments, then the layer's parameters, each once, with the arrays that they had.
    edges: where the gradient of each goes; None if it requires none.
    call: the function, its arguments, and the places of the layer's parameters.
    """

    __slots__ = ("call", "edges", "inputs", "name", "parent", "rule")

    def __init__(
        self,
        rule: Rule,
        name: str,
        parent: Region | None,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None = None,
        own: Own | None = None,
    ) -> None:
        self.rule, self.name, self.parent = rule, name, parent
        self.call = function, args, kwargs or {}, own or []
        tensors = tensors_in([*args, kwargs, *[members[key] for members, key in own]] if own else [*args, kwargs])
        self.inputs: Any = [(tensor, tensor.array) for tensor in tensors]
        self.edges = [edge_of(tensor) for tensor in tensors]

    def saved(self, node: Node) -> tuple[Tensor, ...]:
        """The inputs as they were.

        Raises:
            RuntimeError: one was changed in place since, or a sweep has freed them.
        """
        if self.inputs is FREED:
            raise RuntimeError(
                f"{self.name}: what the rule {self.rule.name} needs was freed by an earlier backward through this "
                "graph; pass retain_graph=True to the first backward, or run forward again"
            )
        check(node, self.inputs)
        return tuple([t if t.array is array else t._as_saved(array) for t, array in self.inputs])

    def encloses(self, node: Node) -> bool:
        """Whether this call recorded the node."""
        region = node.region
        while region is not None and region is not self:
            region = region.parent
        return region is not None


def edge_of(tensor: Tensor) -> Any:
    """Where the gradient of a tensor goes, as in ``Node.edges``."""
    if not tensor._requires_grad:
        return None
    return tensor if tensor._edge is None and tensor._grad_req != "null" else tensor._edge


def same(edge: Any, other: Any) -> bool:
    """Whether two edges lead to the same tensor."""
    if edge is other:
        return True
    return type(edge) is tuple and type(other) is tuple and edge[0] is other[0] and edge[1] == other[1]


def outermost(node: Node, inside: Region | None) -> Region | None:
    """The outermost region of a node within the region ``inside``; None if there is none."""
    region: Region | None = node.region
    if region is inside:
        return None
    while region is not None and region.parent is not inside:
        region = region.parent
    return region


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """The Tensors among values, and in tuples, lists and dicts of them; each once."""
    found: dict[int, Tensor] = {}
    for value in values:
        if isinstance(value, Tensor):
            found.setdefault(id(value), value)
        elif isinstance(value, (tuple, list)):
            found |= {id(tensor): tensor for tensor in tensors_in(value) if id(tensor) not in found}
        elif isinstance(value, dict) and value:
            found |= {id(tensor): tensor for tensor in tensors_in(value.values()) if id(tensor) not in found}
    return [*found.values()]


def replace_tensors(value: Any, other: Mapping[int, Tensor]) -> Any:
    """The value with other tensors, found by id, in place of those in it."""
    if isinstance(value, Tensor):
        return other.get(id(value), value)
    if isinstance(value, dict):
        return {key: replace_tensors(item, other) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [replace_tensors(item, other) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
