"""A hook that sends the largest entries of a gradient, and adds what it has not sent to the next one."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from ....engine.tensor import Tensor, wrap
from ...collectives.future import Future
from ...gradients.grad_bucket import GradBucket
from ...processes.process_group import ProcessGroup
from ...processes.world import member
from .default_hooks import started

__all__ = ["TopK", "topk_hook"]


class TopK:
    """The state of ``topk_hook``: what this process has not sent yet, for each bucket.

    ratio: which part of the entries of a bucket is sent, at least one.

    Raises:
        ValueError: ratio is not above 0 and at most 1. RuntimeError: there is no process group.
    """

    def __init__(self, ratio: float = 0.01, process_group: ProcessGroup | None = None) -> None:
        if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 < ratio <= 1:
            raise ValueError(f"TopK: ratio={ratio!r} must be a number above 0 and at most 1")
        self.ratio, self.group = float(ratio), member(process_group, "TopK")
        self._memory: dict[int, np.ndarray] = {}

    def count(self, size: int) -> int:
        """Return the number of entries to send out of `size`."""
        return min(size, max(1, math.ceil(self.ratio * size)))

    def with_memory(self, bucket: GradBucket) -> np.ndarray:
        """The gradient of a bucket and what was not sent before: a new array, which becomes the memory."""
        x, before = bucket.buffer().array, self._memory.get(bucket.index())
        whole = x.copy() if before is None or before.shape != x.shape else x + before
        self._memory[bucket.index()] = whole
        return whole

    def state_dict(self) -> dict[str, Any]:
        """Return the ratio, and what this process has not sent yet, which differs from process to process."""
        return {"ratio": self.ratio, "memory": {str(index): wrap(each.copy()) for index, each in self._memory.items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what was not sent, from ``state_dict`` of the same process of as many.

        Raises:
            ValueError: it is for another ratio.
        """
        if state_dict["ratio"] != self.ratio:
            raise ValueError(f"TopK: state_dict is for ratio={state_dict['ratio']!r}, this one has {self.ratio}")
        self._memory = {int(index): np.array(each.array) for index, each in state_dict["memory"].items()}


def topk_hook(state: TopK, bucket: GradBucket) -> Future:
    """The mean of the largest entries of each process: ratio * (4 + element size) bytes for each entry and process.

    A process adds what it has not sent before, sends the k entries of largest magnitude with their places, and keeps
    the rest (error feedback), so that nothing is lost but time. Sources: S. Stich, J.-B. Cordonnier, M. Jaggi,
    "Sparsified SGD with memory", 2018; Y. Lin et al., "Deep gradient compression", 2018, whose momentum correction,
    clipping and warm-up it does without.

    Raises:
        TypeError: state is not a TopK.
    """
    if not isinstance(state, TopK):
        raise TypeError(f"topk_hook: state must be a TopK, got {type(state).__name__}; register_comm_hook(TopK(), ...)")
    return Future(_steps(state, bucket))


def _steps(state: TopK, bucket: GradBucket) -> Generator[Any, None, Tensor]:
    group, whole = state.group, state.with_memory(bucket)
    count, size = state.count(whole.size), group.size()
    kept = whole.size - count
    places = np.sort(np.argpartition(np.abs(whole), kept)[kept:]) if kept else np.arange(count)
    values = whole[places]
    whole[places] = 0
    own = np.concatenate([places.astype(np.int32).view(np.uint8), values.view(np.uint8)])
    rows = own[None]
    if group.comm is not None:
        rows = np.empty((size, own.size), np.uint8)
        yield started(group, "topk_hook", lambda: group.lane(0).Iallgather(own, rows))
    total = np.zeros_like(whole)
    for row in rows:
        total[row[: 4 * count].view(np.int32)] += row[4 * count :].view(whole.dtype)
    return wrap(total * total.dtype.type(1 / size))
