"""Execution of backward rules: a rule runs in place of the backward of a call.

The sweep visits nodes youngest first. When it reaches the first node of a region, all younger nodes have been visited,
so the gradients of all results of the call are complete. The rule then runs in place of all nodes of the region. If the
rule calls the true backward, a sweep of only this region computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from numpy import ndarray

from ..kernel_set import instead
from .aliasing import change_since, clock
from .backward_rules import ActiveRules, Rule
from .call_site import describe_call_site
from .grad_mode import enable_grad, thread
from .gradients import connect_to_arguments
from .node import FREED, Node, with_history
from .subgraph import Identity, Paths, Region, edge_of, replace_tensors, same_edge, tensors_in
from .tensor import Tensor, alias

if TYPE_CHECKING:
    from .gradients import Entry

Received = tuple[Node, int, Tensor]  # a result of the call: its node, the output index, and the gradient it received


class RegionSweep(NamedTuple):
    """A sweep of one region: from the edges `roots` to the edges `ends`, over the nodes in `paths`."""

    region: Region
    roots: list[Any]
    ends: list[Any]
    paths: Paths
    outer: EnclosingSweep


class EnclosingSweep(NamedTuple):
    """The sweep that runs a rule, and the functions of backward_pass.py (which imports this file) that rules need.

    keep, create_graph: options of the sweep. capture, captured: the results whose gradients are requested, and those
    found so far. retained: retained gradients by the id of the result. sweep_region: runs a sweep of one region.
    grad: the public function.
    """

    keep: bool
    create_graph: bool
    capture: Set[tuple[int, int]]
    captured: dict[tuple[int, int], Entry]
    retained: dict[int, Entry]
    sweep_region: Callable[[RegionSweep, Sequence[Tensor]], list[Tensor | None]]
    grad: Callable[..., Any]


def run_rule(region: Region, received: list[Received], outer: EnclosingSweep) -> tuple[list[Any], list[Tensor | None]]:
    """Run the rule of a call, and return the edges of the call and the gradient that goes to each.

    The rule gets all gradients even if only some are requested of the sweep: it may compute one from another.
    """
    if len(received) > 1:  # sort by the order of the results
        received.sort(key=lambda each: _result_index(region.results, each))
    true, rule = TrueBackward(region, received, outer), region.rule
    gradients = [alias(g) for _, _, g in received]
    form, before = _FORMS[rule.form], clock.latest
    try:
        result = rule.function(true, *gradients) if form is None else form(rule, true, gradients)
    except Exception as error:
        error.add_note(
            f"raised in the rule {rule.name} of {true.name}, which gets {len(gradients)} gradient"
            f"{'s' * (len(gradients) != 1)} and returns one for each Tensor of the call: {_described(true.edges)}"
        )
        raise
    if clock.latest != before:
        _check_received(true, received, before)
    grads = _checked_gradients(true, result)
    if not outer.keep:
        for node in true.nodes:
            if node.saved:
                node.saved = FREED
            inner = node.region
            while inner is not region:
                inner.free()
                inner = inner.parent
        region.free()
    return true.edges, grads


def _check_received(true: TrueBackward, received: list[Received], order: int) -> None:
    """Raise RuntimeError if the rule changed a gradient in place, since other parts of the graph may use it."""
    for _, _, g in received:
        change = change_since(g.array, order)
        if change is not None:
            raise RuntimeError(
                f"{true.name}: the rule {true.rule.name} changed the gradient g in place, which other parts of the "
                "graph may use too.\n"
                f"  changed by {change[1]} at {describe_call_site(change[2])}\n"
                "Compute a new Tensor, such as g = g * 2 instead of g *= 2, or change a copy: g.clone()"
            )


def _result_index(results: Sequence[Any], each: Received) -> int:
    """Return the index among the call's results; outputs used elsewhere without being results come last."""
    place = each[0].order, each[1]
    return results.index(place) if place in results else len(results)


class TrueBackward:
    """The backward that a rule replaces: ``true(g)`` gives the gradient of each of ``true.inputs``."""

    nodes: list[Node]
    edges: list[Any | None]

    __slots__ = ("_argument_positions", "_outer", "_received", "_region", "edges", "gave_none", "nodes")

    def __init__(self, region: Region, received: list[Received], outer: EnclosingSweep) -> None:
        self._region, self._received, self._outer = region, received, outer
        self.gave_none = False  # whether the only gradient is None
        self.edges = region.edges  # the destinations of the gradients
        self._argument_positions = _argument_positions(region, received)
        if self._argument_positions is not None:
            self.nodes = [received[0][0]]  # the nodes that the call recorded, youngest first
            return
        self.nodes, external_edges = _collect_nodes(region, received)
        for edge in external_edges:  # tensors that the call uses besides its arguments
            if not any(edge is not None and same_edge(edge, known) for known in self.edges):
                self.edges = [*self.edges, edge]

    @property
    def name(self) -> str:
        """The name of the operator or layer."""
        return self._region.name

    @property
    def rule(self) -> Rule:
        return self._region.rule

    @property
    def creates_graph(self) -> bool:
        """True if the gradients it returns are recorded."""
        return self._outer.create_graph

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The Tensors among the arguments of the call, then the parameters of the layer; each once.

        Raises:
            RuntimeError: one was changed in place since the call.
        """
        return self._region.saved(self.nodes[0])

    def __call__(self, *grads: Tensor) -> Any:
        """Return the gradient of each of `inputs`, or None where none is required; for a single input, not in a tuple.

        grads: one for each result of the call that received a gradient.

        Raises:
            RuntimeError: the number of gradients is wrong, or the shape or dtype of one is not that of its result.
        """
        self._check(grads)
        positions = self._argument_positions
        if positions is None:
            found = self.by_sweep(grads)
            if len(found) != 1:
                return tuple(found)
            self.gave_none = found[0] is None
            return found[0]
        node = self.nodes[0]
        result = node.function.backward(node, *grads)
        of_args = result if type(result) is tuple else (result,)
        if self._outer.create_graph and node.function.piecewise_linear:
            of_args = connect_to_arguments(node, of_args)
        if len(positions) == 1:
            only = of_args[positions[0]] if 0 <= positions[0] < len(of_args) else None
            self.gave_none = only is None
            return only
        return tuple([of_args[position] if 0 <= position < len(of_args) else None for position in positions])

    def by_sweep(self, grads: Sequence[Tensor]) -> list[Tensor | None]:
        """Return the gradients as a list, with the checks that a user's backward needs."""
        roots = [(node, output, *node.outputs[output]) for node, output, _ in self._received]
        leads: dict[int, Any] = {edge[0].order: None for edge in self.edges if type(edge) is tuple}
        leads |= {node.order: node.needs_input_grad for node in self.nodes}
        return self._outer.sweep_region(RegionSweep(self._region, roots, self.edges, leads, self._outer), grads)

    def _check(self, grads: Sequence[Tensor]) -> None:
        if len(grads) != len(self._received):
            raise RuntimeError(
                f"{self.name}: the rule {self.rule.name} passed {len(grads)} gradients to the true backward, expected "
                f"{len(self._received)}: one for each result that received one"
            )
        for g, (node, output, _) in zip(grads, self._received, strict=True):
            shape, dtype = node.outputs[output]
            if not isinstance(g, Tensor) or g.array.shape != shape or g.array.dtype != dtype:
                got = f"{g.array.dtype} of shape {g.array.shape}" if isinstance(g, Tensor) else type(g).__name__
                raise RuntimeError(
                    f"{self.name}: the rule {self.rule.name} passed {got} to the true backward, expected {dtype} of "
                    f"shape {shape} like the result"
                )

    def at(self, *tensors: Tensor) -> Callable[..., Any]:
        """Return the true backward of the same call with other Tensors for `inputs`: ``true.at(x, w)(g)``.

        The call runs once more, so a layer that keeps statistics updates them again.

        Raises:
            TypeError: the number of tensors differs from the number of inputs.
        """
        inputs = self.inputs
        if len(tensors) != len(inputs):
            raise TypeError(f"{self.name}: at takes {len(inputs)} tensors, one for each of inputs; got {len(tensors)}")
        needs_grad = [edge is not None for edge in self._region.edges]
        fresh = [
            with_history(tensor.array, Identity, (edge_of(tensor),)) if needed else tensor
            for tensor, needed in zip(tensors, needs_grad, strict=True)
        ]
        replaced = {id(old): new for old, new in zip(self._region.inputs, fresh, strict=True)}
        results = tensors_in([_run_again(self._region, replaced)])

        def run(*grads: Tensor) -> Any:
            self._check(grads)
            roots = self._matching(results)
            sources = [tensor for tensor, needed in zip(fresh, needs_grad, strict=True) if needed]
            found = iter(self._outer.grad(roots, sources, grads, True, self._outer.create_graph, True))
            gradients = tuple([next(found) if needed else None for needed in needs_grad])
            return gradients[0] if len(gradients) == 1 else gradients

        return run

    def _matching(self, results: list[Tensor]) -> list[Tensor]:
        """Return the results of another run of the call that correspond to those with a gradient in this run.

        Raises:
            RuntimeError: the correspondence is ambiguous.
        """
        before = self._region.results
        if before:
            indices = [_result_index(before, each) for each in self._received]
            found = [results[index] for index in indices if index < len(results)]
        else:
            found = [each for each in results if each._requires_grad]
            if len({id(each.grad_fn) for each in found}) == 1 and len({id(node) for node, _, _ in self._received}) == 1:
                outputs = [output for _, output, _ in self._received]
                found = [each for each in found if each._edge is not None and each._edge[1] in outputs]
        if len(found) != len(self._received):
            raise RuntimeError(
                f"{self.name}: at cannot tell which results of another run have a gradient in this run; let the rule "
                f"{self.rule.name} use the true backward only, or use all results"
            )
        return found


def _run_again(region: Region, replaced: Mapping[int, Tensor]) -> Any:
    """Run the call with other tensors, under the overrides then in force, except its own rule."""
    function, args, kwargs, parameters, overrides = region.call
    rules: ActiveRules | None = thread.mode.rules
    owners = [members for members, _, _ in parameters]
    names = [name for _, name, _ in parameters]
    before = [members[name] for members, name, _ in parameters]
    try:
        for members, name, tensor in parameters:
            members[name] = replaced.get(id(tensor), tensor)
        with overrides.in_force(None if rules is None else rules.region), enable_grad():
            return function(*replace_tensors(args, replaced), **replace_tensors(kwargs, replaced))
    finally:
        [*map(dict.__setitem__, owners, names, before)]  # Python may raise KeyboardInterrupt in a loop


def _argument_positions(region: Region, received: list[Received]) -> Sequence[int] | None:
    """Return the index of the Function's argument for each edge of a call, -1 for none; None if there is no mapping."""
    node = received[0][0]
    if len(region.orders) > 1 or len(received) > 1 or len(node.outputs) > 1 or node.function._user_defined:
        return None
    known, count = region.edges, len(region.edges)
    if all(map(is_, known, node.edges)) and (
        len(node.edges) == count or not any(edge is not None for edge in node.edges[count:])
    ):
        return range(count)  # as in most calls
    positions = []
    for edge in known:
        of_edge = [] if edge is None else [position for position, other in enumerate(node.edges) if other is edge]
        if len(of_edge) > 1:
            return None
        positions += of_edge or [-1]
    used = sum([position >= 0 for position in positions])
    return positions if used == sum([edge is not None for edge in node.edges]) else None


def _collect_nodes(region: Region, received: list[Received]) -> tuple[list[Node], list[Any]]:
    """Return the nodes of the region to run, youngest first, and the edges that leave it, in order of use."""
    stack = [node for node, _, _ in received]
    seen = {node.order: node for node in stack}
    external_edges: list[tuple[int, list[Any]]] = []
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
        external_edges.append((-node.order, leaving))
    nodes = [seen[order] for order in sorted(seen)]
    if len(external_edges) > 1:
        external_edges.sort(key=lambda each: each[0])
    return nodes, [edge for _, leaving in external_edges for edge in leaving]


# ---- The forms of a rule -----------------------------------------------------------------------------------------


def _with_inputs(rule: Rule, true: TrueBackward, grads: list[Tensor]) -> Any:
    """Run a rule of the form (g, x, ...); a copy of a backward's source runs inside the true backward instead."""
    copied = [(node, found) for node in true.nodes if (found := _backward_with_rule(node.function, rule)) is not None]
    if copied:
        return _run_with_backwards(true, copied, grads)
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
    """Run the true backward with the rule in place of the backward of the only Function that computes."""
    nodes = true.nodes if len(true.nodes) == 1 else [node for node in true.nodes if not node.function.moves]
    if len(nodes) != 1:
        names = ", ".join(node.function.__name__ for node in reversed(true.nodes))
        raise TypeError(
            f"{true.name}: a rule of (ctx, g) replaces the backward of one Function, and this call recorded {names}; "
            f"write the rule {rule.name} as (true, g), or override one of its operators"
        )
    return _run_with_backwards(true, [(nodes[0], rule.function)], grads)


def _with_kernel(rule: Rule, true: TrueBackward, grads: list[Tensor]) -> Any:
    """Run the true backward with the rule in place of a kernel; if the kernel does not run, run it as (g, x, ...)."""
    if any(_backward_with_rule(node.function, rule) is not None for node in true.nodes):
        return _with_inputs(rule, true, grads)

    def checked(*args: Any, **kwargs: Any) -> Any:
        if true.creates_graph:
            raise TypeError(
                f"{true.name}: the rule {rule.name} takes arrays, like the textbook kernel that it copies, so its "
                "gradient cannot be differentiated; for create_graph=True write it as (ctx, g) or (true, g)"
            )
        result = rule.function(*args, **kwargs)
        for each in result if isinstance(result, tuple) else (result,):
            if not isinstance(each, (ndarray, list)) and (each is not None or result is None):
                raise TypeError(
                    f"{true.name}: the rule {rule.name} returned {type(each).__name__}, expected arrays, like the "
                    "textbook kernel of its name"
                )
        return result

    with instead({rule.function.__name__: checked}) as entered:
        found = true.by_sweep(grads)
    if entered.calls:
        return found
    if rule.takes > len(true.inputs):
        raise TypeError(
            f"{true.name}: the rule {rule.name} has the name and parameters of a kernel that the backward of this call "
            "does not run; backward_source prints what it runs, and under another name a rule takes (g, x, ...)"
        )
    return _with_inputs(rule, true, grads)


def _backward_with_rule(function: Any, rule: Rule) -> Callable[..., Any] | None:
    """Return the backward of a Function with the rule in place of the function of that name; None if there is none."""
    backward_with = getattr(function, "backward_with", None)
    found: Callable[..., Any] | None = None if backward_with is None else backward_with(rule.function)
    return found


def _run_with_backwards(
    true: TrueBackward, backwards: list[tuple[Node, Callable[..., Any]]], grads: list[Tensor]
) -> Any:
    """Run the true backward with another backward in place of that of some nodes."""
    before = [node.function for node, _ in backwards]
    try:
        for node, backward in backwards:
            node.function = _WithBackward(node.function, backward)  # type: ignore[assignment]
        return true.by_sweep(grads)
    finally:
        for (node, _), function in zip(backwards, before, strict=True):
            node.function = function


_FORMS = {"true": None, "g": _with_inputs, "ctx": _with_ctx, "kernel": _with_kernel}


class _WithBackward:
    """Stand-in for a Function with another backward."""

    _user_defined, piecewise_linear = True, False

    def __init__(self, cls: Any, backward: Callable[..., Any]) -> None:
        self.__name__, self.__qualname__ = cls.__name__, cls.__qualname__
        self.forward, self._takes_ctx, self._rule = cls.forward, cls._takes_ctx, backward

    def backward(self, ctx: Node, *grads: Tensor) -> tuple[Any, ...]:
        """Return the rule's gradients; the rule may omit trailing arguments without a gradient, such as numbers."""
        result = self._rule(ctx, *grads)
        several = (*result,) if isinstance(result, (tuple, list)) else (result,)
        edges = ctx.edges
        while len(several) < len(edges) and edges[len(several)] is None:
            several += (None,)
        return several


def _checked_gradients(true: TrueBackward, result: Any) -> list[Tensor | None]:
    """Return the result of a rule as one gradient for each edge.

    Raises:
        RuntimeError: the number of gradients is wrong, or the shape or dtype of one differs from its tensor's.
        TypeError: one is neither a Tensor nor None.
    """
    edges = true.edges
    if result is None and not true.gave_none and edges != [None]:
        raise TypeError(
            f"{true.name}: the rule {true.rule.name} returned None, expected one gradient for each Tensor of the call: "
            f"{_described(edges)}; it may lack a return. To stop the gradient, return {_NONES[len(edges) > 1]}"
        )
    grads: list[Tensor | None]
    if isinstance(result, Tensor):
        positions = [position for position, edge in enumerate(edges) if edge is not None]
        grads = (
            [result if position in positions else None for position in range(len(edges))]
            if len(positions) == 1
            else [result]
        )
    else:
        grads = [*result] if isinstance(result, (tuple, list)) else [result]
    if len(grads) != len(edges):
        raise RuntimeError(
            f"{true.name}: the rule {true.rule.name} returned {len(grads)} gradient{'s' * (len(grads) != 1)}, expected "
            f"{len(edges)}, one for each Tensor of the call: {_described(edges)}"
        )
    for position, edge in enumerate(edges):
        g: Any = grads[position]
        if g is None:
            continue
        if edge is None:
            grads[position] = None
            continue
        if not isinstance(g, Tensor):
            _refuse(true, position, type(g).__name__, "a Tensor or None")
        data = g.array
        if type(edge) is tuple:
            _, _, shape, dtype = edge
        else:
            shape, dtype = edge.array.shape, edge.array.dtype
        if data.shape != shape or (data.dtype is not dtype and data.dtype != dtype):
            got = f"{data.dtype} of shape {data.shape}"
            _refuse(true, position, got, f"{dtype} of shape {shape} like the Tensor itself")
        grads[position] = alias(g)
    return grads


def _refuse(true: TrueBackward, position: int, got: str, expected: str) -> NoReturn:
    error = TypeError if "None" in expected else RuntimeError
    raise error(f"{true.name}: the rule {true.rule.name} returned {got} as gradient {position}, expected {expected}")


_NONES = ("(None,)", "a tuple with a None for each")


def _described(edges: Sequence[Any]) -> str:
    return ", ".join(map(_describe, edges)) or "none"


def _describe(edge: Any) -> str:
    if edge is None:
        return "None for one that requires no gradient"
    shape, dtype = edge[2:] if type(edge) is tuple else (edge.array.shape, edge.array.dtype)
    return f"{dtype} of shape {shape}"
