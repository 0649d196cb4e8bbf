"""The backward pass: a sweep from outputs to leaves that visits each node once, youngest first.

A node can only depend on older nodes, so popping the youngest pending node from a heap visits every node after all of
its consumers, without a topological sort and without recursion. Each gradient is dropped as soon as it has been used.
Only one thread at a time may sweep a graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from heapq import heappop, heappush
from threading import get_ident
from typing import Any

import numpy as np

from ..arrays import from_host, shares_memory, zeros, zeros_like
from . import arithmetic
from .anomaly import describe_origin
from .arguments import as_truth
from .backward_checks import as_tuple, check_count, check_gradient_types, check_upstream, refuse_gradient
from .grad_mode import Delivery, enable_grad, no_grad, thread
from .gradients import ZERO, Entry, ReadyGradients, connect_to_arguments, deliver, spread_zeros, unshared_gradient
from .hooks import registered, run_hooks, run_leaf_hooks, run_post_hooks
from .node import FREED, Node, error_of_backward
from .recording_gate import gate
from .rule_execution import EnclosingSweep, Received, RegionSweep, run_rule
from .subgraph import Paths, Region, find_paths, outermost
from .tensor import Tensor, alias, wrap

# ---- Public functions: backward, grad and their variants ------------------------------------------------------------


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Deliver the gradients of `tensors`, weighted by `grad_tensors`, to the leaves of their graph.

    A leaf gets its gradient once, at the end, according to its `grad_req`: "add" adds to `grad`, "write" replaces it.
    If the sweep fails, no leaf changes.

    Args:
        tensors: the outputs, each of which requires a gradient.
        grad_tensors: the upstream gradient of each, of the same shape and dtype; None means 1 and is allowed for a
            tensor with one element.
        retain_graph: keep the saved tensors for a further sweep (default: the value of create_graph).
        create_graph: record the sweep, so that the gradients can be differentiated again.
        inputs: deliver only to these tensors, leaves or results of operations; None: to all leaves.

    Raises:
        RuntimeError: a tensor, or one of `inputs`, does not require a gradient, a tensor is not a scalar and has no
            upstream gradient, or its graph was freed; a gradient has the wrong shape or dtype, or a backward returned
            the wrong number of them.
        TypeError: a gradient is not a Tensor, or a flag is not a bool.
    """
    if create_graph is not False:
        create_graph = as_truth("backward", "create_graph", create_graph)
    keep = create_graph if retain_graph is None else as_truth("backward", "retain_graph", retain_graph)
    usual = type(tensors) is tuple and len(tensors) == 1 and type(tensors[0]) is Tensor
    roots: Any = tensors if usual else as_tuple(tensors, "backward", "tensors")
    requested = None if inputs is None else as_requested(inputs, "backward")
    upstream = check_upstream(roots, grad_tensors, "backward", create_graph)
    starts: list[Any] = [roots[0]._edge or roots[0]] if len(roots) == 1 else [root._edge or root for root in roots]
    if not registered.leaves:
        _run_backward(starts, upstream, keep, create_graph, roots, requested)
        return
    mode = thread.mode
    previous = mode.delivery
    if previous is not None:
        previous.starts += starts
    else:  # only hooks of leaves can ask for it
        mode.delivery = Delivery(starts)
    try:
        _run_backward(starts, upstream, keep, create_graph, roots, requested)
    finally:
        if previous is None and mode.delivery is not None:
            mode.delivery.starts = []  # the graph must not outlive this call
            mode.delivery = None


def backward_of_one(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Deliver the gradient of this tensor to the leaves of its graph; see `engine.backward_pass.backward`."""
    edge = self._edge
    # the usual case, without the checks of the others
    if edge is not None and create_graph is False and inputs is None and not registered.leaves:
        array: Any = None
        if type(gradient) is Tensor:
            array = gradient.array
        elif gradient is None and not edge[2]:
            array = from_host(1, edge[3], like=self.array)
        keep = retain_graph is True
        usual = keep or retain_graph is None or retain_graph is False
        if usual and array is not None and array.shape == edge[2] and array.dtype is edge[3]:
            _run_backward([edge], [wrap(array)], keep, False)
            return
    backward((self,), None if gradient is None else (gradient,), retain_graph, create_graph, inputs)


def _run_backward(
    starts: list[Any],
    upstream: list[Tensor],
    keep: bool,
    create_graph: bool,
    roots: tuple[Tensor, ...] = (),
    requested: tuple[Tensor, ...] | None = None,
) -> None:
    """Run the sweep of `backward` and deliver its gradients."""
    entries: Collection[Entry]
    if requested is None:
        entries, _ = _sweep(starts, upstream, keep, create_graph)
    else:
        found = _sweep(starts, upstream, keep, create_graph, find_paths(roots, requested), result_keys(requested))
        entries = requested_entries(requested, *found)
    upstream.clear()  # a gradient to which nothing else refers needs no copy
    deliver(entries, create_graph)
    if registered.leaves:
        with enable_grad() if create_graph else no_grad():
            run_post_hooks(entries)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """Return the gradients of `outputs`, weighted by `grad_outputs`, with respect to `inputs`.

    No `grad` changes, but those of results on the way that retain theirs.

    Only nodes on a path to an input run, and their `needs_input_grad` is True only for arguments on such a path.

    Args:
        inputs: leaves or results of operations; a leaf whose grad_req is "null" counts as unused.
        only_inputs: must be True, as in PyTorch. is_grads_batched: must be False; call `grad` for each instead.
        allow_unused: return None for an input that the outputs do not depend on, instead of raising.
        materialize_grads: return zeros for such an input.
        The other arguments are those of `backward`.

    If a grad_output or a view of one, such as a slice, reaches an input unchanged, it is returned without a copy, as in
    PyTorch.

    Raises:
        RuntimeError: an input is unused or requires no gradient; and the errors of `backward`.
    """
    if create_graph is not False:
        create_graph = as_truth("grad", "create_graph", create_graph)
    keep = create_graph if retain_graph is None else as_truth("grad", "retain_graph", retain_graph)
    if only_inputs is not True or is_grads_batched is not False:
        check_grad_options(only_inputs, is_grads_batched)
    materialize = materialize_grads is not False and as_truth("grad", "materialize_grads", materialize_grads)
    allow_unused = materialize if allow_unused is None else as_truth("grad", "allow_unused", allow_unused)
    roots, requested = as_tuple(outputs, "grad", "outputs"), as_requested(inputs, "grad")
    upstream = check_upstream(roots, grad_outputs, "grad", create_graph)
    return _requested_gradients(
        roots, requested, upstream, keep, create_graph, allow_unused, materialize, find_paths(roots, requested)
    )


def grad_since(
    before: int, outputs: Sequence[Tensor], inputs: Sequence[Tensor], grad_outputs: Sequence[Tensor], create_graph: bool
) -> tuple[Tensor | None, ...]:
    """Return the gradients as `grad` does, through nodes newer than `before` alone.

    An input that depends on another one gets its gradient, and does not pass it on.
    """
    roots, requested = as_tuple(outputs, "grad", "outputs"), as_requested(inputs, "grad")
    upstream = check_upstream(roots, grad_outputs, "grad", create_graph)
    paths = find_paths(roots, requested, before=before)
    return _requested_gradients(roots, requested, upstream, create_graph, create_graph, True, False, paths)


def _requested_gradients(
    roots: tuple[Tensor, ...],
    requested: tuple[Tensor, ...],
    upstream: list[Tensor],
    keep: bool,
    create_graph: bool,
    allow_unused: bool,
    materialize: bool,
    paths: Paths,
) -> tuple[Tensor, ...]:
    capture = result_keys(requested)
    starts: list[Any] = [root._edge or root for root in roots]
    entries, captured = _sweep(starts, upstream, keep, create_graph, paths, capture)
    retained = [entry for entry in entries if entry[0]._edge is not None]
    arrays = [g.array for g in upstream]
    del upstream
    delivered = {id(entry[0]): entry for entry in entries}
    results: list[Tensor | None] = []
    for position, tensor in enumerate(requested):
        edge = tensor._edge
        entry = delivered.get(id(tensor)) if edge is None else captured.get((edge[0].order, edge[1]))
        if entry is not None:
            returned_as_is = not create_graph and _is_view_of_some(arrays, entry[1].array)
            results.append(wrap(entry[1].array) if returned_as_is else unshared_gradient(entry, create_graph))
        elif allow_unused:
            results.append(wrap(zeros_like(tensor.array)) if materialize else None)
        else:
            null = edge is None and tensor._grad_req == "null"
            why = 'its grad_req is "null"' if null else "unused, or cut off by a backward that returned None"
            if edge is not None and edge[0].region is not None:
                region = edge[0].region
                why = f"made within {region.name}, whose backward is the rule {region.rule.name}, or unused"
            raise RuntimeError(
                f"grad: outputs do not depend on inputs[{position}] ({why}); pass allow_unused=True to get None for it"
            )
    if retained:
        deliver(retained, create_graph)
    return tuple(results)  # type: ignore[arg-type]  # None only with allow_unused


def grad_when_ready(
    outputs: Sequence[Tensor],
    leaves: Sequence[Tensor],
    grad_outputs: Sequence[Tensor | None],
    each: Callable[[int, Tensor, bool], object],
    retain_graph: bool = False,
) -> None:
    """Call each(position, gradient, unshared) for each of `leaves` as soon as its gradient is complete.

    unshared: True if nothing else refers to the gradient's memory. If False, the callback must not write to the
    gradient, and its values may change later. Hooks of leaves do not run. An exception raised by `each` ends the sweep.
    Everything else is as in `grad`.
    """
    roots, requested = as_tuple(outputs, "grad", "outputs"), as_requested(leaves, "grad")
    upstream = check_upstream(roots, grad_outputs, "grad", False)
    starts: list[Any] = [root._edge or root for root in roots]
    oldest: dict[int, float] = {}
    paths = find_paths(roots, requested, oldest)
    _sweep(starts, upstream, retain_graph, False, paths, ready=ReadyGradients(oldest, requested, each))


def leaf_gradients(
    outputs: Sequence[Tensor], grad_outputs: Sequence[Tensor], retain_graph: bool
) -> list[tuple[Tensor, Tensor]]:
    """Return (leaf, gradient) for all reachable leaves. Each gradient owns its memory; no `grad` changes.

    grad_outputs: one for each output, of the same shape and dtype (not checked).
    """
    entries, _ = _sweep([output._edge or output for output in outputs], [*grad_outputs], retain_graph, False)
    return [(entry[0], unshared_gradient(entry, False)) for entry in entries if entry[0]._edge is None]


def _is_view_of_some(arrays: Sequence[np.ndarray], view: np.ndarray) -> bool:
    """Return whether `view` is one of the arrays or a writable view of one; a result of `expand` is not writable."""
    base = view.base
    for array in arrays:
        if view is array:
            return True
        if base is None:  # as almost always: it owns its memory
            continue
        owner = array.base
        # otherwise the memory of an owner holds more than `array`
        if (
            base is (array if owner is None else owner)
            and view.flags.writeable
            and (owner is None or shares_memory(view, array))
        ):
            return True
    return False


# ---- The sweep ---------------------------------------------------------------------------------------------


def _sweep_region(inner: RegionSweep, grads: Sequence[Tensor]) -> list[Tensor | None]:
    """Return the gradients that arrive at the ends of a sweep of one region; None where none arrives."""
    ends, outer = inner.ends, inner.outer
    capture = {(edge[0].order, edge[1]) for edge in ends if type(edge) is tuple}
    entries, captured = _sweep(
        inner.roots, [*grads], True, outer.create_graph, inner.paths, capture | outer.capture, inner
    )
    outer.captured.update({key: captured[key] for key in outer.capture - capture if key in captured})
    delivered = {id(entry[0]): entry for entry in entries}
    found = [captured.get((e[0].order, e[1])) if type(e) is tuple else delivered.get(id(e)) for e in ends]
    return [None if entry is None else entry[1] for entry in found]


def _sweep(
    edges: Any,
    upstream: list[Any],
    keep: bool,
    create_graph: bool,
    paths: Paths | None = None,
    capture: Set[tuple[int, int]] = frozenset(),
    inner: RegionSweep | None = None,
    ready: ReadyGradients | None = None,
) -> tuple[Collection[Entry], dict[tuple[int, int], Entry]]:
    """Run the backward of the nodes reachable from `edges`; with `paths`, only of the nodes in it.

    Returns the entries [tensor, gradient, ...] of all leaves and of all results that retain their gradients, and the
    entries of the results in `capture`, by (order of the node, output index).

    inner: set if this sweep computes the true backward of one region; the hooks of that region's ends and roots run in
        the enclosing sweep.
    ready: delivers the gradients of leaves as soon as they are complete.
    """
    captured: dict[tuple[int, int], Entry] = {}
    heap: Any = ()  # a list once several entries are pending
    pending: Any = None  # then, too: order -> [node, gradient of output 0, of output 1, ...]
    lone: Any = None  # the only such entry, as in a chain; it is then in neither `heap` nor `pending`
    made: set[tuple[int, int]] | None = None  # (order, output) whose pending gradient is a buffer of this sweep
    leaves: dict[int, Entry] = {}
    retained: dict[int, Entry] = {}  # by the id of the result
    zeros: list[Any] | None = None  # edges that get a gradient of zeros, see gradients.py
    node: Any = None
    data: Any
    entry: Any
    gradient: Any
    grads: Any = upstream
    if paths is None and len(upstream) == 1 and type(edges[0]) is tuple and edges[0][0].outputs is None:
        lone = [edges[0][0], upstream[0]]  # the usual start: the caller has checked the gradient
        grads = ()
    mode = thread.mode
    rules, watch = mode.rules, mode.watch
    interpreter = mode.interpreter
    previous = mode.enabled, mode.sweeping, mode.retain_graph, mode.pending
    unusual = None if rules is watch is interpreter is None else (rules, watch, interpreter)
    inspect = None if watch is None else getattr(watch, "after_backward", None)  # anomaly detection
    quiet = _NONE  # nodes whose hooks the enclosing sweep runs
    enclosing: Region | None = None  # the region whose rule does not run in this sweep
    outer: EnclosingSweep | None = None
    if rules is not None:
        enclosing = rules.region  # a layer that calls `grad` in its forward
        rules = rules.during_sweep()
    if inner is not None:
        enclosing, retained = inner.region, inner.outer.retained
        quiet = {edge[0].order for edge in edges} | {order for order, needs in inner.paths.items() if needs is None}
    identity = get_ident() if gate.is_used and inner is None else 0
    if identity:
        gate.enter(identity)
    # No call between this line and the next: Python may raise KeyboardInterrupt after one.
    if unusual is not None:
        mode.rules, mode.watch, mode.interpreter = rules, None, None
    mode.enabled, mode.sweeping, mode.retain_graph, mode.pending = create_graph, not create_graph, keep, ()
    try:
        while True:
            # Add each gradient to the entry of its edge. Gradients beyond the last edge are known to be None.
            place = -1  # counted by hand: zip takes 0.1 us
            for gradient in grads:
                place += 1
                if gradient is None or (edge := edges[place]) is None:
                    continue
                if type(gradient) is not Tensor and not isinstance(gradient, Tensor):
                    if gradient is ZERO:
                        zeros = [] if zeros is None else zeros
                        zeros.append(edge)
                        continue
                    refuse_gradient(node, grads, gradient, edge)
                data = gradient.array
                if type(edge) is tuple:
                    target, output, shape, dtype = edge
                    if data.shape != shape or (data.dtype is not dtype and data.dtype != dtype):
                        refuse_gradient(node, grads, gradient, edge)
                    order = target.order
                    if lone is None:
                        entry = pending.get(order) if heap else None
                    else:
                        entry = lone if lone[0] is target else None
                    if entry is None:
                        if paths is not None and order not in paths:
                            continue
                        if target.outputs is None:
                            entry = [target, gradient]
                        else:
                            entry = [target] + [None] * len(target.outputs)
                            entry[output + 1] = gradient
                        if lone is None and not heap:
                            lone = entry
                            continue
                        if lone is not None:
                            if pending is None:
                                heap, pending = [], {}
                                mode.pending = heap
                            heap.append(lone[0].order)
                            pending[heap[0]], lone = lone, None
                        pending[order] = entry
                        heappush(heap, order)
                    elif entry[output + 1] is None:
                        entry[output + 1] = gradient
                    else:
                        key = (order, output)
                        made = set() if made is None else made
                        entry[output + 1] = _sum(entry[output + 1], gradient, create_graph, key in made)
                        made.add(key)
                elif edge._grad_req != "null":
                    value = edge.array
                    if data.shape != value.shape or not (data.dtype is value.dtype or data.dtype == value.dtype):
                        refuse_gradient(node, grads, gradient, edge)
                    leaf = leaves.get(id(edge))
                    if leaf is None:
                        leaves[id(edge)] = [edge, gradient, False]
                    else:
                        leaf[1] = _sum(leaf[1], gradient, create_graph, leaf[2])
                        leaf[2] = True
            gradient = data = entry = grads = None  # drop references, so that nothing outlives its use
            if lone is not None:
                entry, lone = lone, None
                order = entry[0].order
            elif heap:
                order = heappop(heap)
                entry = pending.pop(order)
            else:
                break
            if ready is not None and ready.order < order:
                ready.emit(order, leaves)
            node = entry[0]
            edges = node.edges
            try:
                if paths is None and node.outputs is None:
                    if node.function._user_defined:
                        grads = _run_user_defined(node, entry[1:])
                    else:
                        run = node.function.backward
                        direct = direct_backwards.get(run)
                        grads = NotImplemented if direct is None else direct(node, entry[1])
                        if grads is NotImplemented:
                            grads = run(node, entry[1])
                elif (
                    (region := node.region) is not None
                    and region is not enclosing
                    and not mode.rules_disabled
                    and (paths is None or paths[order] is not None)
                ):
                    if region.parent is not enclosing:
                        region = outermost(region, enclosing)
                    if outer is None:
                        outer = EnclosingSweep(keep, create_graph, capture, captured, retained, _sweep_region, grad)
                    received: list[Received] = []
                    for each in (
                        (entry,) if not heap or len(region.orders) == 1 else _pop_region(region, entry, pending, heap)
                    ):
                        node = each[0]
                        if node.order not in quiet:
                            if node.hooks:
                                run_hooks(node, each)
                            if node.retained:
                                retained.update(_retained_entries(node, each))
                        for output, gradient in enumerate(each[1:]):
                            if gradient is not None:
                                received.append((node, output, gradient))
                                if capture and (node.order, output) in capture:
                                    captured[node.order, output] = [None, gradient, False]
                    edges, grads = run_rule(region, received, outer)
                    if inspect is not None:
                        inspect(node, entry, grads)
                    continue
                elif paths is not None:
                    if order not in quiet:
                        if node.hooks:
                            run_hooks(node, entry)
                        if node.retained:
                            retained.update(_retained_entries(node, entry))
                    for output in range(len(entry) - 1 if capture else 0):
                        if (order, output) in capture and entry[output + 1] is not None:
                            captured[order, output] = [None, entry[output + 1], False]
                    needs = paths[order]
                    if needs is None:
                        edges = ()
                        grads = ()
                        continue
                    if needs == node.needs_input_grad:  # all that were recorded; the other edges are None
                        grads = _run(node, entry)
                    else:
                        grads = _run_needed(node, entry, needs)
                        edges = [edge if need else None for edge, need in zip(edges, needs, strict=True)]
                else:
                    if node.hooks:
                        run_hooks(node, entry)
                    if node.retained:
                        retained.update(_retained_entries(node, entry))
                    grads = _run(node, entry)
                if inspect is not None:
                    inspect(node, entry, grads)
            except Exception as caught:
                error = error_of_backward(node, caught)
                error.add_note(f"raised in the backward of {node.function.__qualname__}{describe_origin(node)}")
                if error is caught:
                    raise
                raise error from None
            if type(grads) is not tuple:
                grads = tuple(grads) if type(grads) is list else (grads,)
            if len(grads) != len(edges):
                check_count(node, grads)
            if create_graph and node.function.piecewise_linear:
                grads = connect_to_arguments(node, grads)
            if not keep and node.saved:
                node.saved = FREED
        if zeros:
            spread_zeros(zeros, paths, leaves, captured, capture, _first_array(upstream))
        if ready is not None:
            ready.emit(float("inf"), leaves)
        elif registered.leaves and inner is None:
            run_leaf_hooks(leaves.values())
    finally:
        mode.enabled, mode.sweeping, mode.retain_graph, mode.pending = previous
        if unusual is not None:
            mode.rules, mode.watch, mode.interpreter = unusual
        if identity:
            gate.active.remove(identity)
    return [*leaves.values(), *retained.values()] if retained else leaves.values(), captured


_NONE: Set[int] = frozenset()
# built-in forms of backwards, which return NotImplemented where the backward itself must run; see ops/direct.py
direct_backwards: dict[Callable[..., Any], Callable[..., Any]] = {}


def _pop_region(region: Region, entry: list[Any], pending: dict[int, list[Any]], heap: list[int]) -> list[list[Any]]:
    """Remove and return the pending entries of a region's nodes that have received gradients, oldest first."""
    entries = [pending.pop(order) for order in region.orders if order in pending]
    if entries:
        heap[:] = sorted(pending)  # a sorted list is a heap
    return [*entries, entry]


def _retained_entries(node: Node, entry: list[Any]) -> dict[int, Entry]:
    """Return the results of a node that retain their gradients."""
    alive = [(keeper(), entry[output + 1]) for output, keeper in node.retained]
    return {id(result): [result, g, False] for result, g in alive if result is not None and g is not None}


def _run_needed(node: Node, entry: list[Any], needs: tuple[bool, ...]) -> Any:
    """Run a node that must compute only some of its gradients."""
    previous = node.needs_input_grad
    node.needs_input_grad = needs
    try:
        return _run(node, entry)
    finally:
        node.needs_input_grad = previous


def _run(node: Node, entry: list[Any]) -> Any:
    """Run a node with a gradient for each of its outputs."""
    grads = _all_outputs(node, entry)
    return _run_user_defined(node, grads) if node.function._user_defined else node.function.backward(node, *grads)


def _run_user_defined(node: Node, grads: list[Any]) -> Any:
    """Run a user's backward on aliases, so that it may keep the tensors or assign other arrays to them."""
    results = node.function.backward(node, *[alias(g) if isinstance(g, Tensor) else g for g in grads])
    several = results if isinstance(results, (tuple, list)) else (results,)
    check_gradient_types(node, several)
    return tuple([alias(item) if type(item) is Tensor else item for item in several])


def _all_outputs(node: Node, entry: list[Any]) -> list[Any]:
    """Return one gradient per output: zeros, or None without `materialize`, for outputs that received none."""
    grads = entry[1:]
    if node.outputs is not None and node.materialize:
        like = _first_array(grads)
        for index, (shape, dtype) in enumerate(node.outputs):
            if grads[index] is None:
                grads[index] = wrap(zeros(shape, dtype, like=like))
    return grads


def _first_array(gradients: Sequence[Any]) -> Any:
    """Return the array of the first gradient that is not None; None if all are."""
    for g in gradients:
        if isinstance(g, Tensor):
            return g.array
    return None


def _sum(total: Tensor, gradient: Tensor, create_graph: bool, in_place: bool) -> Tensor:
    """Return total + gradient, in the array of `total` if the sweep made that array."""
    if create_graph:
        return total + gradient  # attached by ops
    if in_place:
        arithmetic.accumulate(total.array, gradient.array)
        return total
    return wrap(arithmetic.add(total.array, gradient.array))


# ---- The tensors whose gradients are requested, and their nodes in the graph ----------------------------------------


def as_requested(inputs: Any, caller: str) -> tuple[Tensor, ...]:
    """Return the tensors `inputs` as a tuple.

    Raises:
        TypeError, ValueError: it is empty, or contains something other than Tensors.
        RuntimeError: one does not require a gradient.
    """
    requested = as_tuple(inputs, caller, "inputs")
    for position, tensor in enumerate(requested):
        if not tensor._requires_grad:
            raise RuntimeError(
                f"{caller}: inputs[{position}] does not require a gradient; set requires_grad=True before using it"
            )
    return requested


def result_keys(requested: tuple[Tensor, ...]) -> set[tuple[int, int]]:
    """Return (order of the node, output index) for those that are results of operations."""
    return {(tensor._edge[0].order, tensor._edge[1]) for tensor in requested if tensor._edge is not None}


def requested_entries(
    requested: tuple[Tensor, ...], entries: Iterable[Entry], captured: Mapping[tuple[int, int], Entry]
) -> list[Entry]:
    """Return the entries of the requested tensors, from `captured` for results, and of those that retain theirs."""
    these = {id(tensor): tensor for tensor in requested}
    found = [entry for entry in entries if (entry[0]._edge is None) is (id(entry[0]) in these)]
    for tensor in these.values():
        edge = tensor._edge
        entry = None if edge is None else captured.get((edge[0].order, edge[1]))
        if entry is not None:
            found.append([tensor, entry[1], False])
    return found


def check_grad_options(only_inputs: Any, is_grads_batched: Any) -> None:
    """Reject, or warn about, options of `grad` that accept only one value, as PyTorch does.

    Raises:
        RuntimeError: is_grads_batched is True.
    """
    if not as_truth("grad", "only_inputs", only_inputs):
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use retrograd.autograd.backward.",
            FutureWarning,
            stacklevel=3,
        )
    if as_truth("grad", "is_grads_batched", is_grads_batched):
        raise RuntimeError("grad: is_grads_batched=True is not supported; call grad for each row of grad_outputs")
