"""Gradients of leaves as soon as they are complete, while the sweep goes on, for whoever sends them meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .deliver import is_alone
from .tensor import Tensor


class Early:
    """Calls ``each(position, gradient, alone)`` once for each of `leaves` that a sweep from `roots` reaches; alone:
    nothing else holds the gradient.

    A sweep runs the youngest nodes first. So the gradient of a leaf is complete when the oldest node that uses it has
    run. Leaves that a rule's region uses come at the end.
    """

    __slots__ = ("_each", "_waiting", "order")

    def __init__(
        self, roots: Iterable[Tensor], leaves: Iterable[Tensor], each: Callable[[int, Tensor, bool], object]
    ) -> None:
        self._each = each
        oldest = _oldest_uses(roots)
        waiting = [(oldest[id(leaf)], place, leaf) for place, leaf in enumerate(leaves) if id(leaf) in oldest]
        self._waiting = sorted(waiting, key=lambda item: item[0], reverse=True)
        self.order: float = self._waiting[-1][0] if self._waiting else _NEVER

    def emit(self, coming: float, found: dict[int, Any]) -> None:
        """Hand out what no node of the order `coming` or older adds to; `found` holds the sweep's entries by id."""
        waiting = self._waiting
        while waiting and waiting[-1][0] < coming:
            _, place, leaf = waiting.pop()
            entry = found.get(id(leaf))
            if entry is not None:
                alone = is_alone(entry)
                self._each(place, entry[1], alone)
        self.order = waiting[-1][0] if waiting else _NEVER


_NEVER = float("inf")
_AT_THE_END = float(2**62)


def _oldest_uses(roots: Iterable[Tensor]) -> dict[int, float]:
    """id of each leaf that the graph of `roots` uses -> the order of the oldest node that uses it."""
    found: dict[int, float] = {}
    for root in roots:
        if root._edge is None:
            found[id(root)] = _AT_THE_END
    stack = [root._edge[0] for root in roots if root._edge is not None]
    seen = {node.order for node in stack}
    while stack:
        node = stack.pop()
        region = node.region
        groups: list[tuple[float, Any]] = [(node.order, node.edges)]
        while region is not None:
            groups.append((_AT_THE_END, region.edges))
            region = region.parent
        for order, edges in groups:
            for edge in edges:
                if type(edge) is tuple:
                    if edge[0].order not in seen:
                        seen.add(edge[0].order)
                        stack.append(edge[0])
                elif edge is not None:
                    oldest = _AT_THE_END if len(groups) > 1 else order
                    found[id(edge)] = max(found.get(id(edge), -_NEVER), oldest)
    return found
