"""Subgraphs: the nodes recorded by one call, and the nodes on paths to requested tensors.

A region may contain the regions of inner calls with rules. rule_execution.py runs the rules in a sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from .aliasing import check_unchanged
from .function import Function
from .node import FREED, Node
from .tensor import Tensor, wrap
from .views import View

if TYPE_CHECKING:
    from .backward_rules import Overrides, Rule


# ---- Region: the nodes and input tensors of one call whose backward is a rule ---------------------------------------

LayerParameters = list[tuple[dict[str, Any], str, Tensor]]  # a layer's parameters with their owner dict and name


class Identity(View):
    """y = x, as a separate tensor in the graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return wrap(x.array.view())

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


class Constant(Function):
    """A result without a recorded dependence on any argument."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> None:
        return None


class Region:
    """One call of an operator or layer.

    rule: its rule. name: the name of the operator or layer. parent: the region that it is part of.
    inputs: the Tensors among its arguments, then the layer's parameters, each once. arrays: their arrays at the call.
    edges: the destination of the gradient of each input; None if it requires none.
    call: the function, its arguments, the layer's parameters, and the overrides in force.
    override: the override that began the region, if it is a call of an operator.
    orders: the orders of its nodes, oldest first. results: (order, output) of each result of a layer with several.
    """

    name: str
    override: Any
    parent: Region | None
    rule: Rule

    __slots__ = ("arrays", "call", "edges", "inputs", "name", "orders", "override", "parent", "results", "rule")

    def __init__(
        self,
        rule: Rule,
        name: str,
        parent: Region | None,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        parameters: LayerParameters,
        overrides: Overrides,
        override: Any = None,
    ) -> None:
        self.rule, self.name, self.parent, self.override = rule, name, parent, override
        self.call: Any = function, args, kwargs, parameters, overrides
        self.orders: list[int] = []
        self.results: Sequence[Any] = ()
        tensors = tensors_in([*args, *kwargs.values(), *[each for _, _, each in parameters]])
        self.inputs: Any = tensors
        self.arrays: Any = None
        try:  # noqa: SIM105, suppress is slower
            self.record_arrays()
        except ValueError:  # a parameter of a lazy layer has no values until forward has run
            pass
        self.edges: list[Any] = [edge_of(tensor) for tensor in tensors]

    def record_arrays(self) -> None:
        """Record the current arrays of the inputs."""
        self.arrays = [tensor.array for tensor in self.inputs]

    def add(self, node: Node) -> None:
        """Add a node that was just made to the call."""
        node.region = region = self
        while region is not None:
            region.orders.append(node.order)
            region = region.parent  # type: ignore[assignment]

    def replace_input(self, x: Tensor) -> None:
        """Replace an input that the call changes in place by its old state, to avoid a reference cycle with x."""
        if self.inputs is not FREED:
            for index, tensor in enumerate(self.inputs):
                if tensor is x:
                    self.inputs[index] = old = wrap(x.array)
                    old._requires_grad, old._edge = x._requires_grad, x._edge
                    function, args, kwargs, parameters, overrides = self.call
                    replaced = {id(x): old}
                    self.call = (
                        function,
                        replace_tensors(args, replaced),
                        replace_tensors(kwargs, replaced),
                        parameters,
                        overrides,
                    )

    def free(self) -> None:
        """Drop the inputs of the rule after their last use."""
        self.inputs = self.arrays = self.call = FREED

    def saved(self, node: Node) -> tuple[Tensor, ...]:
        """Return the inputs as they were at the call.

        Raises:
            RuntimeError: one was changed in place since, or a sweep has freed them.
        """
        if self.inputs is FREED:
            raise RuntimeError(
                f"{self.name}: the inputs of the rule {self.rule.name} were freed by an earlier backward through this "
                "graph; pass retain_graph=True to the first backward, or run forward again"
            )
        pairs = [*zip(self.inputs, self.arrays, strict=True)]
        check_unchanged(node, pairs)
        return tuple([t if t.array is array else t._as_saved(array) for t, array in pairs])

    def encloses(self, node: Node) -> bool:
        """Return whether this call recorded the node."""
        region = node.region
        while region is not None and region is not self:
            region = region.parent
        return region is not None


def edge_of(tensor: Tensor) -> Any:
    """Return the edge to which the gradient of a tensor flows, as in ``Node.edges``; None if there is none."""
    if not tensor._requires_grad:
        return None
    edge = tensor._edge
    return tensor if edge is None and tensor._grad_req != "null" else edge


def same_edge(edge: Any, other: Any) -> bool:
    """Return whether two edges lead to the same tensor."""
    if edge is other:
        return True
    return type(edge) is tuple and type(other) is tuple and edge[0] is other[0] and edge[1] == other[1]


def outermost(region: Region, enclosing: Region | None) -> Region:
    """Return the outermost region that contains `region`; if `enclosing` does, the outermost one within it."""
    while region.parent is not None and region.parent is not enclosing:
        region = region.parent
    return region


def tensors_in(values: Iterable[Any], kind: Any = Tensor) -> list[Any]:
    """Return the Tensors, or objects of another kind, in values and in nested tuples, lists and dicts; each once."""
    found: dict[int, Any] = {}
    for value in values:
        if isinstance(value, kind):
            found[id(value)] = value
        elif isinstance(value, (tuple, list)):
            found |= {id(tensor): tensor for tensor in tensors_in(value, kind) if id(tensor) not in found}
        elif isinstance(value, dict) and value:
            found |= {id(tensor): tensor for tensor in tensors_in(value.values(), kind) if id(tensor) not in found}
    return [*found.values()]


def replace_tensors(value: Any, other: Mapping[int, Any], kind: Any = Tensor) -> Any:
    """Return the value with its Tensors, or objects of another kind, replaced by those in `other` with their ids."""
    if isinstance(value, kind):
        return other.get(id(value), value)
    if isinstance(value, dict):
        copied = copy(value)  # an OrderedDict stays one
        copied.update({key: replace_tensors(item, other, kind) for key, item in value.items()})
        return copied
    if isinstance(value, (tuple, list)):
        items = [replace_tensors(item, other, kind) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


# ---- Paths: the nodes that a sweep has to run for the gradients of given tensors ------------------------------------

# order of a node on a path to an input -> its needs_input_grad; None: the path ends there
Paths = Mapping[int, tuple[bool, ...] | None]


AT_THE_END = float(2**62)  # above the order of any node


def find_paths(
    roots: tuple[Tensor, ...],
    requested: tuple[Tensor, ...],
    oldest: dict[int, float] | None = None,
    before: float = AT_THE_END,
) -> Paths:
    """Return the nodes on paths from `roots` to `requested` as `Paths`; a rule leads to all inputs of its call.

    oldest: filled with the order of the oldest node that uses each reached leaf of `requested`, by the id of the
        leaf; AT_THE_END if a rule's region uses it or it is a root.
    before: an order; paths end at nodes that are not newer.
    """
    targets = {tensor._edge[0].order for tensor in requested if tensor._edge is not None}
    leaves = {id(tensor) for tensor in requested if tensor._edge is None}
    stack = [root._edge[0] for root in roots if root._edge is not None]
    seen = {node.order: node for node in stack}
    regions: dict[Region, bool] = {}  # whether an input of the call is requested or leads to a requested tensor
    while stack:
        node = stack.pop()
        if node.order >= before:  # the count goes down
            continue
        edges = node.edges
        region = node.region
        while region is not None and region not in regions:
            regions[region] = False
            edges = (*edges, *region.edges)
            region = region.parent
        for edge in edges:
            if type(edge) is tuple and edge[0].order not in seen:
                seen[edge[0].order] = edge[0]
                stack.append(edge[0])
    paths: dict[int, tuple[bool, ...] | None] = {}

    def leads(edges: Iterable[Any]) -> tuple[bool, ...]:
        return tuple(
            [
                edge is not None and (edge[0].order in paths if type(edge) is tuple else id(edge) in leaves)
                for edge in edges
            ]
        )

    for order in sorted(seen, reverse=True):  # the oldest first
        node = seen[order]
        is_end = order >= before
        needs = () if is_end else leads(node.edges)
        region = node.region if regions and not is_end else None
        while region is not None and not (regions[region] or any(leads(region.edges))):
            region = region.parent
        if region is not None:
            regions[region] = True
        if True in needs or region is not None:
            paths[order] = needs
            if oldest is not None:
                last = order if node.region is None else AT_THE_END
                for edge, need in zip(node.edges, needs, strict=True):
                    if need and type(edge) is not tuple:
                        oldest[id(edge)] = max(last, oldest.get(id(edge), last))
        elif order in targets:
            paths[order] = None
    if oldest is not None:
        used = [*roots, *(edge for region in regions for edge in region.edges if type(edge) is not tuple)]
        oldest.update((id(leaf), AT_THE_END) for leaf in used if id(leaf) in leaves)
    return paths
