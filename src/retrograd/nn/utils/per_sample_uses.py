"""Finds uses of parameters that per-sample gradients would miss.

A parameter's per-sample gradient is the sum over the calls of its layers. So every operator that uses it must run
within such a call, and gradients may enter a call only through the Tensors that the layer returns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from typing import Any, NoReturn

from ...engine.anomaly import describe_origin
from ..module import Module

__all__ = ["Window", "check_uses"]


class Window:
    """The time between the start and the end of one call of a layer, as orders of nodes, which decrease.

    whole: the call accounts for the parameters of the layer's children, too. owned: ids of its parameters.
    once: a built-in rule accounts for a single use of each parameter; used: ids of those that were found.
    outputs: (order, output) of the Tensors that the call returned. parent: the innermost window around this one.
    """

    __slots__ = (
        *("__weakref__", "buffers", "end", "layer", "once", "outputs", "owned", "parent", "path", "start", "used"),
        "whole",
    )

    def __init__(self, path: str, layer: Module, whole: bool, start: int) -> None:
        self.path, self.layer, self.whole, self.start, self.end = path, layer, whole, start, start
        self.owned = {id(parameter) for parameter in layer.parameters(recurse=whole)}
        self.outputs: set[tuple[int, int]] = set()
        self.parent: Window | None = None
        self.buffers: Any = ()
        self.once = False
        self.used: set[int] = set()

    def name(self) -> str:
        return f"{self.path or 'the module'} ({self.layer.describe()})"


def check_uses(starts: Iterable[Any], names: dict[int, str], windows: Collection[Window]) -> None:
    """Check that the calls account for all uses of parameters in a graph.

    starts: the edges where gradients enter it. names: the path of each parameter, by id.

    Raises:
        ValueError: a parameter is used outside the calls of its layers, or the graph uses a Tensor from inside a call
            that the layer did not return.
    """
    ordered = _nested(windows)
    for window in ordered:
        window.used.clear()
    ends = [window.end for window in ordered]

    def around(order: int) -> list[Window]:
        """The windows that contain the node, from the innermost."""
        place = bisect_left(ends, order) - 1
        window = ordered[place] if place >= 0 else None
        found = []
        while window is not None:
            if order < window.start:
                found.append(window)
            window = window.parent
        return found

    seen: set[tuple[int, int]] = set()
    for node, edge in _edges(starts):
        if type(edge) is not tuple:
            running = [] if node is None else around(node.order)
            if id(edge) in names:
                calls = [window for window in running if id(edge) in window.owned]
                if not calls:
                    _refuse_use(names[id(edge)], node, "outside the forward of its layer")
                if calls[0].once and id(edge) in calls[0].used:
                    _refuse_use(names[id(edge)], node, "a second time in one call of its layer")
                calls[0].used.add(id(edge))
            continue
        target, output = edge[0], edge[1]
        inside = around(target.order)
        if not inside or (target.order, output) in seen:
            continue
        outer = around(node.order) if node is not None else []
        for window in inside:
            if window not in outer and (target.order, output) not in window.outputs:
                seen.add((target.order, output))
                if any(id(leaf) in window.owned and id(leaf) in names for leaf in _leaves(edge, window)):
                    raise ValueError(
                        f"per_sample_gradients: the losses use a Tensor that was computed in the forward of "
                        f"{window.name()} but not returned by it, so the gradients of its parameters would be "
                        "incomplete; return that Tensor as a further output"
                    )


def _nested(windows: Iterable[Window]) -> list[Window]:
    """The windows, those that ended last first, with their parents."""
    ordered = sorted(windows, key=lambda window: (window.end, -window.start))
    open_ones: list[Window] = []
    for window in ordered:
        while open_ones and open_ones[-1].start <= window.end:
            open_ones.pop()
        window.parent = open_ones[-1] if open_ones else None
        open_ones.append(window)
    return ordered


def _edges(starts: Iterable[Any]) -> Iterable[tuple[Any, Any]]:
    """(node, edge) of a graph; None as the node of a start."""
    stack, seen = [], set()
    for start in starts:
        yield None, start
        stack.append(start)
    while stack:
        edge = stack.pop()
        if type(edge) is not tuple or edge[0].order in seen:
            continue
        node = edge[0]
        seen.add(node.order)
        for other in _edges_of(node):
            yield node, other
            stack.append(other)


def _edges_of(node: Any) -> list[Any]:
    """The edges of a node, and those into the regions that it is part of."""
    edges, region = [*node.edges], node.region
    while region is not None:
        edges += region.edges
        region = region.parent
    return [edge for edge in edges if edge is not None]


def _leaves(start: Any, window: Window) -> Iterable[Any]:
    """The leaves that lead to an edge within a call."""
    stack, seen = [start], set()
    while stack:
        edge = stack.pop()
        if type(edge) is not tuple:
            yield edge
        elif edge[0].order not in seen and window.end < edge[0].order < window.start:
            seen.add(edge[0].order)
            stack += _edges_of(edge[0])


def _refuse_use(name: str, node: Any, where: str) -> NoReturn:
    by = "is itself differentiated" if node is None else f"is used by {node.function.__name__}{describe_origin(node)}"
    raise ValueError(
        f"per_sample_gradients: the parameter {name} {by}, {where}, so its gradient for each sample is unknown; use it "
        "in the forward of the module that owns it, or freeze it: requires_grad_(False)"
    )
