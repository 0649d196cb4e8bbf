"""How the sweep runs a rule in place of the backward of a call.

The sweep visits nodes youngest first. When it comes to the first node of a region, everything younger has been visited,
so the gradients of all results of the call are complete. The rule then runs in place of all nodes of the region. If it
asks for the true backward, a sweep of the region alone gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from .function import Function
from .grad_mode import enable_grad
from .node import FREED, Node, with_history
from .region import Identity, Own, Region, edge_of, replace_tensors, same, tensors_in
from .tensor import Tensor, alias
from .zero_slope import join

if TYPE_CHECKING:
    from .rule import Rule

# order of a node on a path to an input -> the needs_input_grad it gets; None: it ends the path
Paths = Mapping[int, tuple[bool, ...] | None]


class Arrived(NamedTuple):
    """A result of the call, and the gradient that it received."""

    node: Node
    output: int
    g: Any


class Inner(NamedTuple):
    """A sweep of one region: from the edges `roots` to the edges `ends`, over the nodes in `paths`."""

    region: Region
    roots: list[Any]
    ends: list[Any]
    paths: Paths
    create_graph: bool


class Sweeps(NamedTuple):
    """What sweep.py, which imports this file, does for it: a sweep of one region, and the public function."""

    region: Callable[[Inner, Sequence[Tensor]], list[Tensor | None]]
    grad: Callable[..., Any]


def run_rule(
    region: Region, arrived: list[Arrived], keep: bool, create_graph: bool, sweeps: Sweeps
) -> tuple[list[Any], list[Tensor | None]]:
    """The edges of a call and the gradient that goes to each, from its rule; keep, create_graph: of the whole sweep.

    The rule gets all gradients, even if the sweep was asked for some: it may compute one from another.
    """
    true = TrueBackward(region, arrived, create_graph, sweeps)
    gradients = [alias(each.g) for each in arrived]
    grads = _checked(true, _FORMS[region.rule.form](region.rule, true, gradients))
    if not keep:
        for node in true.nodes:
            if node.saved:
                node.saved = FREED
        region.inputs = region.call = FREED
    return true.edges, grads


class TrueBackward:
    """The backward that a rule replaces: ``true(g)`` gives the gradient of each of ``true.inputs``."""

    def __init__(self, region: Region, arrived: list[Arrived], create_graph: bool, sweeps: Sweeps) -> None:
        self._region, self._arrived = region, arrived
        self._create_graph, self._sweeps = create_graph, sweeps
        self.edges = region.edges  # where the gradients go
        self._places = _places(region, arrived)
        if self._places is not None:
            self.nodes = [arrived[0].node]  # what the call recorded, youngest first
            return
        self.nodes, outside = _walk(region, arrived)
        for edge in outside:  # what the call reads besides its arguments
            if not any(edge is not None and same(edge, known) for known in self.edges):
                self.edges = [*self.edges, edge]

    @property
    def name(self) -> str:
        """The operator or layer."""
        return self._region.name

    @property
    def rule(self) -> Rule:
        return self._region.rule

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The Tensors among the arguments of the call, then the parameters of the layer; each once.

        Raises:
            RuntimeError: one was changed in place since the call.
        """
        return self._region.saved(self.nodes[0])

    def __call__(self, *grads: Tensor) -> Any:
        """The gradient of each of `inputs`, or None where it requires none; that of a single input is not in a tuple.

        grads: one for each result of the call that received one.

        Raises:
            RuntimeError: there is another number of gradients, or the shape or dtype of one is not that of its result.
        """
        found = self.gradients(grads)
        return found[0] if len(found) == 1 else tuple(found)

    def gradients(self, grads: Sequence[Tensor], sweep: bool = False) -> list[Tensor | None]:
        """As a call, always in a list; sweep: with the checks that a user's backward needs."""
        self._check(grads)
        return self._of_several(grads) if sweep or self._places is None else self._of_one(grads[0], self._places)

    def _of_one(self, g: Tensor, places: list[int]) -> list[Tensor | None]:
        """The gradients of a call that is one node, without a sweep."""
        node = self.nodes[0]
        grads = node.function.backward(node, g)
        if type(grads) is not tuple:
            grads = (grads,)
        if self._create_graph and node.function.piecewise_linear:
            grads = join(node, grads)
        return [grads[place] if 0 <= place < len(grads) else None for place in places]

    def _of_several(self, grads: Sequence[Tensor]) -> list[Tensor | None]:
        roots = [(node, output, *node.outputs[output]) for node, output, _ in self._arrived]
        leads: dict[int, Any] = {edge[0].order: None for edge in self.edges if type(edge) is tuple}
        leads |= {node.order: node.needs_input_grad for node in self.nodes}
        return self._sweeps.region(Inner(self._region, roots, self.edges, leads, self._create_graph), grads)

    def _check(self, grads: Sequence[Tensor]) -> None:
        if len(grads) != len(self._arrived):
            raise RuntimeError(
                f"{self.name}: the rule {self.rule.name} passed {len(grads)} gradients to the true backward, expected "
                f"{len(self._arrived)}: one for each result that received one"
            )
        for g, (node, output, _) in zip(grads, self._arrived, strict=True):
            shape, dtype = node.outputs[output]
            if not isinstance(g, Tensor) or g.array.shape != shape or g.array.dtype != dtype:
                got = f"{g.array.dtype} of shape {g.array.shape}" if isinstance(g, Tensor) else type(g).__name__
                raise RuntimeError(
                    f"{self.name}: the rule {self.rule.name} passed {got} to the true backward, expected {dtype} of "
                    f"shape {shape} like the result"
                )

    def at(self, *tensors: Tensor) -> Callable[..., Any]:
        """The true backward of the same call with other Tensors for `inputs`: ``true.at(x, w)(g)``.

        The call runs once more, so a layer that keeps statistics updates them once more.

        Raises:
            TypeError: the number of tensors is not that of the inputs.
        """
        inputs = self.inputs
        if len(tensors) != len(inputs):
            raise TypeError(f"{self.name}: at takes {len(inputs)} tensors, one for each of inputs; got {len(tensors)}")
        wanted = [edge is not None for edge in self._region.edges]
        fresh = [
            with_history(tensor.array, Identity, (edge_of(tensor),)) if want else tensor
            for tensor, want in zip(tensors, wanted, strict=True)
        ]
        function, args, kwargs, own = self._region.call
        other = {id(old): new for (old, _), new in zip(self._region.inputs, fresh, strict=True)}
        with enable_grad(), _replaced(own, other):
            results = tensors_in([function(*replace_tensors(args, other), **replace_tensors(kwargs, other))])

        def run(*grads: Tensor) -> Any:
            self._check(grads)
            roots = [y for y in results if y._requires_grad][: len(grads)]
            sources = [tensor for tensor, want in zip(fresh, wanted, strict=True) if want]
            found = iter(self._sweeps.grad(roots, sources, grads, True, self._create_graph, True))
            gradients = tuple([next(found) if want else None for want in wanted])
            return gradients[0] if len(gradients) == 1 else gradients

        return run


@contextmanager
def _replaced(own: Own, other: Mapping[int, Tensor]) -> Iterator[None]:
    """With other tensors in place of a layer's parameters."""
    before = [members[name] for members, name in own]
    try:
        for (members, name), parameter in zip(own, before, strict=True):
            members[name] = other.get(id(parameter), parameter)
        yield
    finally:
        for (members, name), parameter in zip(own, before, strict=True):
            members[name] = parameter


def _places(region: Region, arrived: list[Arrived]) -> list[int] | None:
    """Which argument of its Function each edge of a call is, if the call is one node; -1: none."""
    node = arrived[0].node
    if len(arrived) > 1 or len(node.outputs) > 1 or node.function._foreign:
        return None
    count, places = 0, []
    for edge in region.edges:
        place = -1
        if edge is not None:
            for index, other in enumerate(node.edges):
                if other is edge:
                    if place >= 0:
                        return None
                    place = index
                    count += 1
        places.append(place)
    return places if count == sum([edge is not None for edge in node.edges]) else None


def _walk(region: Region, arrived: list[Arrived]) -> tuple[list[Node], list[Any]]:
    """The nodes of the region to run, youngest first, and the edges that leave it, in order of use."""
    stack = [each.node for each in arrived]
    seen = {node.order: node for node in stack}
    outside: list[tuple[int, list[Any]]] = []
    while stack:
        node = stack.pop()
        leaving = []
        for edge in node.edges:
            if edge is None:
                continue
            if type(edge) is tuple and (edge[0].region is region or region.encloses(edge[0])):
                if edge[0].order not in seen:
                    seen[edge[0].order] = edge[0]
                    stack.append(edge[0])
            else:
                leaving.append(edge)
        outside.append((-node.order, leaving))
    nodes = [seen[order] for order in sorted(seen)]
    if len(outside) > 1:
        outside.sort(key=lambda each: each[0])
    return nodes, [edge for _, leaving in outside for edge in leaving]


# ---- the forms of a rule -----------------------------------------------------------------------------------------


def _with_true(rule: Rule, true: TrueBackward, grads: list[Tensor]) -> Any:
    return rule.function(true, *grads)


def _with_inputs(rule: Rule, true: TrueBackward, grads: list[Tensor]) -> Any:
    if rule.takes == len(grads) - 1:
        return rule.function(*grads)
    given = [*grads, *true.inputs]
    if rule.takes >= len(given):
        raise TypeError(
            f"{true.name}: the rule {rule.name} takes {rule.takes + 1} arguments; there are {len(grads)} gradient and "
            f"{len(true.inputs)} Tensors of the call"
        )
    return rule.function(*given[: rule.takes + 1] if rule.takes >= 0 else given)


def _with_ctx(rule: Rule, true: TrueBackward, grads: list[Tensor]) -> Any:
    """The true backward, in which the rule replaces that of the one Function that computes."""
    nodes = true.nodes if len(true.nodes) == 1 else [node for node in true.nodes if not node.function.moves]
    if len(nodes) != 1:
        names = ", ".join(node.function.__name__ for node in reversed(true.nodes))
        raise TypeError(
            f"{true.name}: a rule of (ctx, g) replaces the backward of one Function, and this call recorded {names}; "
            f"write the rule {rule.name} as (true, g), or override one of its operators"
        )
    node, cls = nodes[0], nodes[0].function
    node.function = _replaced_backward(cls, rule.function)  # type: ignore[arg-type]
    try:
        return true.gradients(grads, sweep=True)
    finally:
        node.function = cls


_FORMS = {"true": _with_true, "g": _with_inputs, "ctx": _with_ctx}


@lru_cache(maxsize=256)  # the functions are few
def _replaced_backward(cls: Any, backward: Callable[..., Any]) -> type[Function]:
    """The Function with another backward."""
    members: dict[str, Any] = {"backward": staticmethod(backward), "__module__": cls.__module__}
    made: Any = type(cls.__name__, (cls,), members | {"_foreign": True, "piecewise_linear": False, "formulas": ()})
    made.__qualname__ = cls.__qualname__
    return made


def _checked(true: TrueBackward, result: Any) -> list[Tensor | None]:
    """What a rule returned, as one gradient for each edge.

    Raises:
        RuntimeError: there is another number of gradients, or the shape or dtype of one differs from its tensor's.
        TypeError: one is neither a Tensor nor None.
    """
    edges = true.edges
    grads: list[Tensor | None]
    if isinstance(result, Tensor):
        places = [place for place, edge in enumerate(edges) if edge is not None]
        grads = [result if place in places else None for place in range(len(edges))] if len(places) == 1 else [result]
    else:
        grads = [*result] if isinstance(result, (tuple, list)) else [result]
    if len(grads) != len(edges):
        raise RuntimeError(
            f"{true.name}: the rule {true.rule.name} returned {len(grads)} gradient{'s' * (len(grads) != 1)}, expected "
            f"{len(edges)}, one for each Tensor of the call: {', '.join(map(_describe, edges))}"
        )
    for place, edge in enumerate(edges):
        g: Any = grads[place]
        if g is None or edge is None:
            grads[place] = None
            continue
        if not isinstance(g, Tensor):
            _refuse(true, place, type(g).__name__, "a Tensor or None")
        data = g.array
        shape, dtype = edge[2:] if type(edge) is tuple else (edge.array.shape, edge.array.dtype)
        if data.shape != shape or (data.dtype is not dtype and data.dtype != dtype):
            got = f"{data.dtype} of shape {data.shape}"
            _refuse(true, place, got, f"{dtype} of shape {shape} like the Tensor itself")
        grads[place] = alias(g)
    return grads


def _refuse(true: TrueBackward, place: int, got: str, expected: str) -> NoReturn:
    error = TypeError if "None" in expected else RuntimeError
    raise error(f"{true.name}: the rule {true.rule.name} returned {got} as gradient {place}, expected {expected}")


def _describe(edge: Any) -> str:
    if edge is None:
        return "one without a gradient (None)"
    shape, dtype = edge[2:] if type(edge) is tuple else (edge.array.shape, edge.array.dtype)
    return f"{dtype} of shape {shape}"
