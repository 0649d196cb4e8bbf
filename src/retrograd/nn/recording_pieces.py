"""Pieces: modules whose calls are recorded by themselves, inside a function that cannot be recorded as a whole.

While such a function runs as usual, ``Module.__call__`` asks its ``Pieces``. A module with children or a ``forward`` of
the user gets a recorder of its own, whose calls are replayed; if those cannot be recorded either, its own modules are
pieces in turn. The results are those of the function, to the bit: where a piece uses a tensor several times, its
gradients are not added up inside, but by the sweep, as without the piece.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..engine.aliasing import move_changes
from ..engine.grad_mode import thread
from ..engine.tensor import Tensor, wrap
from .module import Module

LEAST = 5  # steps of the forward pass of a piece, before fusions; with fewer, a replay takes as long as the call
_MOST = 256  # pieces of a function; the oldest is dropped
_MOST_SEPARATE = 1 << 26  # bytes of gradients that are not added up


class Pieces:
    """The recorders of the modules that a function calls."""

    def __init__(self, owner: Callable[..., Any], make: Callable[[Module], Any]) -> None:
        self.recorders: dict[int, Any] = {}  # by the id of the module, which the recorder keeps
        self._owner, self._make = owner, make

    def of(self, module: Module) -> Callable[[tuple[Any, ...], dict[str, Any]], Any] | None:
        """Return the function that calls a module; None for one that runs as usual."""
        if module is self._owner or (type(module)._is_plain and not module._child_names):
            return None
        found = self.recorders.get(id(module))
        if found is None:
            while len(self.recorders) >= _MOST:
                self.recorders.pop(next(iter([*self.recorders]), 0), None)
            found = self.recorders.setdefault(id(module), self._make(module))
        call: Callable[[tuple[Any, ...], dict[str, Any]], Any] = found.call
        return call

    def explained(self) -> Iterator[str]:
        """The lines of each piece, with its name."""
        names = {} if not isinstance(self._owner, Module) else {id(m): name for name, m in self._owner.named_modules()}
        for key, recorder in [*self.recorders.items()]:
            if recorder.found:
                name = names.get(key, "")
                kind = type(recorder.function).__name__
                yield f"{name} ({kind})" if name else kind
                yield from (f"  {line}" for line in recorder.explained().splitlines())


@contextmanager
def without_pieces() -> Iterator[None]:
    """Let modules run as usual in this thread."""
    mode = thread.mode
    before, mode.pieces = mode.pieces, None
    try:
        yield
    finally:
        mode.pieces = before


# ---- The graph of a call ---------------------------------------------------------------------------------------------


@contextmanager
def separated(
    results: Sequence[Tensor], wanted: Sequence[Tensor], before: int, is_piece: bool
) -> Iterator[list[tuple[int, Tensor]] | None]:
    """For a while, let each use of a wanted tensor by the nodes of a piece's call lead to a leaf of its own.

    Gives the leaves, each with its place in ``wanted``, those of one place in the order in which a sweep adds up their
    gradients; None if these would be too large, or if a backward rule defines them. before: an order older than the
    call's nodes.
    """
    nodes = _nodes(results, before) if is_piece else []
    places = {_key(tensor._edge or tensor): place for place, tensor in enumerate(wanted)}
    uses: list[list[tuple[Any, int]]] = [[] for _ in wanted]
    for node in nodes:
        for at, edge in enumerate(node.edges):
            if edge is not None and (place := places.get(_key(edge))) is not None:
                uses[place].append((node, at))
    size = sum(tensor.array.nbytes * (len(found) - 1) for tensor, found in zip(wanted, uses, strict=True) if found)
    if not size:
        yield [*enumerate(wanted)]
        return
    if size > _MOST_SEPARATE or any(node.region is not None for node in nodes):
        yield None
        return
    kept = [(node, node.edges) for node in nodes]
    leaves: list[tuple[int, Tensor]] = []
    try:
        for place, found in enumerate(uses):
            if not found:
                leaves.append((place, wanted[place]))
            for node, at in found:
                leaves.append((place, wrap(wanted[place].array).requires_grad_()))
                node.edges = (*node.edges[:at], leaves[-1][1], *node.edges[at + 1 :])
        yield leaves
    finally:
        for node, edges in kept:
            node.edges = edges


def put_in_place(node: Any, results: Sequence[Tensor], before: int, changes: Any) -> None:
    """Let a node pass gradients on to those of the results, and these have run in its place.

    before: an order older than theirs. changes: those ``recorded_changes`` before they ran.
    """
    newer = _nodes(results, before)
    old = [each.order for each in newer]
    orders = {order: node.order + at / (len(newer) + 1) for at, order in enumerate(old, 1)}
    for each in newer:
        each.order = orders[each.order]  # a sweep only compares them
    saved = [item for each in newer if isinstance(each.saved, (list, tuple)) for item in each.saved]
    move_changes(saved, changes, lambda order: node.order + (bisect(old, order) + 0.5) / (len(newer) + 1))
    for region in _regions(newer):
        region.orders = [orders.get(order, order) for order in region.orders]
        region.results = [each and (orders.get(each[0], each[0]), each[1]) for each in region.results]
    node.edges = (*(y._edge or (y if y._requires_grad else None) for y in results),)
    node.needs_input_grad = (*(y._requires_grad for y in results),)


def _regions(nodes: Sequence[Any]) -> list[Any]:
    """The calls with a backward rule that nodes belong to."""
    found: dict[int, Any] = {}
    for region in [node.region for node in nodes]:
        while region is not None and id(region) not in found:
            found[id(region)] = region
            region = region.parent
    return [*found.values()]


def _nodes(results: Sequence[Tensor], before: int) -> list[Any]:
    """The nodes of the results' graph that are newer than ``before``, the newest first."""
    found: dict[float, Any] = {}
    pending = [tensor._edge for tensor in results]
    while pending:
        edge = pending.pop()
        if type(edge) is tuple and edge[0].order < before and edge[0].order not in found:  # the count goes down
            found[edge[0].order] = edge[0]
            pending += edge[0].edges
    return [node for _, node in sorted(found.items())]


def _key(edge: Any) -> Any:
    return (edge[0].order, edge[1]) if type(edge) is tuple else id(edge)
