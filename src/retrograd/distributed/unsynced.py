"""Gradients of backwards within ``no_sync``, which wait for the next exchange.

They are added up shard by shard, and the sums of the shards are exchanged in the fixed tree: so the order of additions
does not depend on the number of processes, and no traffic is needed before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..engine.tensor import Tensor, wrap


class Unsynced:
    """What waits. A place is the number of a shard among those of this process.

    Meanwhile ``grad`` of a parameter shows what this process has, in an array that cannot be written: what would be
    changed there would be lost. A parameter whose ``grad`` is set to something else, such as None by ``zero_grad``, has
    nothing waiting any more.
    """

    def __init__(self) -> None:
        self._sums: dict[int, dict[int, np.ndarray]] = {}  # id of the parameter -> place -> sum
        self._shown: dict[int, tuple[Tensor, Tensor | None, Tensor]] = {}  # the parameter, its grad before, and now
        self._trained: Sequence[Tensor] = ()

    def begin(self, trained: Sequence[Tensor]) -> None:
        """Begin a backward of these parameters."""
        self._drop_what_was_reset()
        self._trained = trained

    def add(self, place: int, position: int, gradient: np.ndarray) -> None:
        """The gradient of a parameter for one shard."""
        sums = self._sums.setdefault(id(self._trained[position]), {})
        if place in sums:
            sums[place] += gradient
        else:
            sums[place] = gradient.copy()

    def end(self) -> None:
        """Show what this process has in ``grad``."""
        for parameter in self._trained:
            sums = self._sums.get(id(parameter))
            if sums is None:
                continue
            before = self._shown[id(parameter)][1] if id(parameter) in self._shown else parameter.grad
            first, *others = (sums[place] for place in sorted(sums))
            total = first.copy() if before is None else before.array + first
            for other in others:
                total += other
            total.flags.writeable = False
            parameter.grad = wrap(total)
            self._shown[id(parameter)] = parameter, before, parameter.grad

    def taken(self, trained: Sequence[Tensor]) -> dict[int, dict[int, np.ndarray]]:
        """What waits for these parameters, by place and position, and waits no more; ``grad`` is as before."""
        self._drop_what_was_reset()
        found: dict[int, dict[int, np.ndarray]] = {}
        for position, parameter in enumerate(trained):
            for place, total in self._sums.pop(id(parameter), {}).items():
                found.setdefault(place, {})[position] = total
            if id(parameter) in self._shown:
                parameter.grad = self._shown.pop(id(parameter))[1]
        return found

    def _drop_what_was_reset(self) -> None:
        for key, (parameter, before, shown) in list(self._shown.items()):
            if parameter.grad is shown and parameter.grad_req != "write":
                continue
            if parameter.grad is shown:
                parameter.grad = before
            del self._shown[key], self._sums[key]
