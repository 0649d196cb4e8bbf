"""Gradients of backwards within ``no_sync``, which wait for the next exchange.

They are added up shard by shard, and the sums of the shards are exchanged in the fixed tree: so the order of additions
does not depend on the number of processes, and no traffic is needed before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ...engine.hooks import register_post_accumulate_grad_hook
from ...engine.tensor import Tensor, wrap


class _Shown(NamedTuple):
    """The ``grad`` of a parameter without its waiting gradients, and the one that includes them."""

    parameter: Tensor
    without: Tensor | None
    grad: Tensor


class Unsynced:
    """Gradients waiting for the next exchange. A place is the number of a shard among those of this process.

    Meanwhile ``grad`` of a parameter shows what this process has, in a read-only array: changes made there would be
    lost. Gradients of other backwards are added beside what waits. A parameter whose ``grad`` is set to something else,
    such as None by ``zero_grad``, has nothing waiting any more.
    """

    def __init__(self) -> None:
        self._sums: dict[int, dict[int, np.ndarray]] = {}  # id of the parameter -> place -> sum
        self._shown: dict[int, _Shown] = {}
        self._coming: list[tuple[int, int, np.ndarray]] = []  # in the backward under way
        self._trained: Sequence[Tensor] = ()
        self._hooked: dict[int, Tensor] = {}
        self._weight = 1.0

    def begin(self, trained: Sequence[Tensor], weight: float) -> None:
        """Begin a backward of these parameters. weight: the gradients are this process's times that."""
        self._drop_what_was_reset()
        self._trained, self._coming, self._weight = trained, [], weight
        for parameter in trained:
            if id(parameter) not in self._hooked:
                self._hooked[id(parameter)] = parameter
                parameter.register_hook(partial(self._before, parameter))
                register_post_accumulate_grad_hook(parameter, self._show)

    def add(self, place: int, position: int, gradient: np.ndarray, alone: bool) -> None:
        """The gradient of a parameter for one shard; alone: nobody else holds it. It counts when the backward ends."""
        self._coming.append((place, position, gradient if alone else gradient.copy()))

    def end(self) -> list[np.ndarray | None]:
        """Return the gradients to deliver: zeros where some wait, so that ``grad`` then shows them; None elsewhere."""
        for place, position, gradient in self._coming:
            sums = self._sums.setdefault(id(self._trained[position]), {})
            if place in sums:
                sums[place] += gradient
            else:
                sums[place] = gradient
        self._coming = []
        return [np.zeros_like(p.array) if id(p) in self._sums else None for p in self._trained]

    def taken(self, trained: Sequence[Tensor]) -> dict[int, dict[int, np.ndarray]]:
        """Remove and return these parameters' waiting gradients, by place and position; ``grad`` then excludes them."""
        found: dict[int, dict[int, np.ndarray]] = {}
        if not self._sums and not self._shown:
            return found
        self._drop_what_was_reset()
        for position, parameter in enumerate(trained):
            self._hide(parameter)
            self._shown.pop(id(parameter), None)
            for place, total in self._sums.pop(id(parameter), {}).items():
                found.setdefault(place, {})[position] = total
        return found

    def _drop_what_was_reset(self) -> None:
        for key, (parameter, without, shown) in list(self._shown.items()):
            if parameter.grad is shown and parameter.grad_req != "write":
                continue
            if parameter.grad is shown:
                parameter.grad = without
            del self._shown[key], self._sums[key]

    def _before(self, parameter: Tensor, g: Tensor) -> None:
        """Before a gradient is added to ``grad``."""
        self._hide(parameter)

    def _hide(self, parameter: Tensor) -> None:
        """Take away what only shows."""
        shown = self._shown.get(id(parameter))
        if shown is not None and parameter.grad is shown.grad:
            parameter.grad = shown.without

    def _show(self, parameter: Tensor) -> None:
        """After a backward: show what waits."""
        sums = self._sums.get(id(parameter))
        without = parameter.grad
        if sums is None or without is None:
            return
        total = without.array.copy()
        for place in sorted(sums):
            total += sums[place] / total.dtype.type(self._weight)
        total.flags.writeable = False
        # nothing but the zeros of `end`: as if there were no grad
        parameter.grad = wrap(total)
        self._shown[id(parameter)] = _Shown(parameter, without if without.array.any() else None, parameter.grad)
