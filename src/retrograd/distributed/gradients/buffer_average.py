"""Buffers of a module over the shards of a batch: they change by the mean of what each shard changes.

Each shard begins with the buffers as they were before the batch, so the order of the shards does not count. They hold
these values again until the batch is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...engine.changes import mark
from ...engine.tensor import Tensor
from ...nn.module import Module
from ..processes import mpi
from ..processes.entered import enter
from ..processes.process_group import ProcessGroup
from ..processes.waiting import wait
from .reducer import Reducer
from .sync_batch_norm import SyncBatchNorm


class Slot(NamedTuple):
    """Where a module has a buffer."""

    module: Module
    name: str
    tensor: Tensor

    def array(self) -> np.ndarray:
        """What the buffer holds now; forward may have assigned another tensor.

        Raises:
            ValueError: it has another shape or dtype.
        """
        now = self.module.__dict__.get(self.name)
        if now is self.tensor:
            return self.tensor.array
        old = self.tensor.array
        new = getattr(now, "array", None)
        if not isinstance(new, np.ndarray) or (new.shape, new.dtype) != (old.shape, old.dtype):
            kind = type(now).__name__ if not isinstance(new, np.ndarray) else f"{new.dtype} {new.shape}"
            raise ValueError(
                f"forward has replaced the buffer {self.name} of {type(self.module).__name__}, {old.dtype} {old.shape}"
                f", by {kind}; with several shards a buffer keeps its shape and dtype"
            )
        return new

    def restore(self, values: np.ndarray) -> None:
        """Give the buffer these values, in the tensor that it was."""
        self.tensor.array[...] = values
        self.module.__dict__[self.name] = self.tensor


class BufferAverage:
    """The buffers of a module during one batch. buffers: those that change shard by shard. others: those that the first
    shard changes for all. reducer: of those of `buffers` that hold floats, in order; None if none does. number: of the
    step.
    """

    def __init__(
        self, buffers: Sequence[Slot], others: Sequence[Slot], reducer: Reducer | None, shards: int, number: int
    ) -> None:
        self._buffers, self._others, self._reducer = buffers, others, reducer
        self._old = [slot.tensor.array.copy() for slot in buffers]
        self._old_others = [slot.tensor.array.copy() for slot in others]
        self._floats = [k for k, slot in enumerate(buffers) if is_float(slot.tensor)]
        self._counters = {k: self._old[k] for k, slot in enumerate(buffers) if not is_float(slot.tensor)}
        self._changes: list[np.ndarray | None] = []
        self.counts = True  # False: other values have been loaded since
        if reducer is not None:
            reducer.start(1 / shards, number)

    def before(self, left: Sequence[np.ndarray] | None = None) -> None:
        """Give the next shard the buffers of before the batch, or those that it has `left`."""
        for slot, old in zip(self._buffers, self._old if left is None else left, strict=True):
            slot.restore(old)

    def undo(self) -> None:
        """Give all buffers the values of before the batch."""
        self.before()
        for slot, old in zip(self._others, self._old_others, strict=True):
            slot.restore(old)

    def copies(self) -> list[np.ndarray]:
        """Copies of what the buffers hold now."""
        return [slot.array().copy() for slot in self._buffers]

    def after(self, shard: int) -> None:
        """Take the changes that a shard has made; after the last one, send them."""
        for k in self._counters:
            self._counters[k] = self._buffers[k].array().copy()
        if self._reducer is None:
            return
        with np.errstate(invalid="ignore"):
            for position, k in enumerate(self._floats):
                new, old = self._buffers[k].array(), self._old[k]
                change = new - old
                if not np.isfinite(change).all():
                    change[new == old] = 0  # infinities that stay
                self._reducer.add(shard, position, change)
        self._reducer.advance()

    def wait(self) -> None:
        """Wait for the changes of the other processes.

        Raises:
            DistError: they are at another step. DistNetworkError: one did not come in time. WorkerLostError: one has
            died.
        """
        if self._reducer is not None:
            self._changes = self._reducer.finish()

    def share_counters(self, group: ProcessGroup) -> float:
        """Take what holds no floats, such as numbers of batches, from the process with the last shard: it has samples,
        while others may have none. Returns the seconds of waiting."""
        seconds = 0.0
        for k, value in self._counters.items() if group.comm is not None else ():
            entered = enter(group.count, f"the buffer {self._buffers[k].name}")
            with mpi.errors(entered):
                request = group.comm.Ibcast(value := np.array(value), group.size() - 1)
            seconds += wait(group, [request], entered)
            self._counters[k] = value
        return seconds

    def store(self) -> None:
        """Change the buffers by the mean of the changes."""
        for k, change in zip(self._floats, self._changes, strict=False):
            if change is not None:
                self._buffers[k].restore(self._old[k] + change)
        for k, value in self._counters.items():
            self._buffers[k].restore(value)
        mark([slot.tensor.array for slot in self._buffers], "DistributedDataParallel")


def averaged_buffers(module: Module) -> tuple[list[Slot], list[Slot]]:
    """The buffers that each shard changes in its own way, and those of SyncBatchNorm, which all change alike."""
    own: list[Slot] = []
    alike: list[Slot] = []
    seen: set[int] = set()
    for each in module.modules():
        found = alike if isinstance(each, SyncBatchNorm) else own
        for name, tensor in each.named_buffers(recurse=False):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                found.append(Slot(each, name, tensor))
    return own, alike


def floats_of(slots: Sequence[Slot]) -> list[np.ndarray]:
    """The arrays of the buffers that can be averaged."""
    return [slot.tensor.array for slot in slots if is_float(slot.tensor)]


def is_float(tensor: Tensor) -> bool:
    """Whether its changes can be averaged."""
    return tensor.array.dtype.kind == "f"
