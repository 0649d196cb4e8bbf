"""Gradients of leaves as soon as they are complete, while the sweep goes on, for whoever sends them meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .deliver import is_alone
from .tensor import Tensor


class Early:
    """Calls ``each(position, gradient, alone)`` once for each of `leaves` that a sweep reaches; alone: nothing else
    holds the gradient. oldest: of the leaves that it reaches, as ``find_paths`` fills it.

    A sweep runs the youngest nodes first. So the gradient of a leaf is complete when the oldest node that uses it has
    run. Leaves that a rule's region uses come at the end.
    """

    __slots__ = ("_each", "_waiting", "order")

    def __init__(
        self, oldest: Mapping[int, float], leaves: Iterable[Tensor], each: Callable[[int, Tensor, bool], object]
    ) -> None:
        self._each = each
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
