"""Parameters and buffers of a module during a step, and averaging of buffers over shards.

Each shard begins with the buffers as they were before the batch, so the order of the shards does not matter. The
buffers have these values again until the batch is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from ..engine.aliasing import mark_changed
from ..engine.tensor import Tensor
from ..nn.module import Module
from . import mpi
from .process_group import ProcessGroup, enter, wait
from .reducer import Reducer
from .sync_batch_norm import SyncBatchNorm

# ---- Parameters and buffers that a step needs, collected anew for each step -----------------------------------------


class Slot(NamedTuple):
    """A buffer of a module: its owner and name, and its tensor, shape and dtype before the batch."""

    module: Module
    name: str
    tensor: Tensor
    shape: tuple[int, ...]
    dtype: np.dtype

    def array(self) -> np.ndarray:
        """Return the current array of the buffer; forward may have assigned another tensor.

        Raises:
            ValueError: the shape or dtype has changed.
        """
        new = getattr(self.module.__dict__.get(self.name), "array", None)
        if not isinstance(new, np.ndarray) or new.shape != self.shape or new.dtype != self.dtype:
            kind = f"{new.dtype} {new.shape}" if isinstance(new, np.ndarray) else type(new).__name__
            raise ValueError(
                f"forward has replaced the buffer {self.name} of {type(self.module).__name__}, {self.dtype} "
                f"{self.shape}, by {kind}; with several shards a buffer keeps its shape and dtype"
            )
        return new

    def restore(self, values: np.ndarray) -> None:
        """Store these flat values in the buffer's original tensor."""
        array = self.tensor.array
        if array.shape == self.shape:
            array[...] = values.reshape(self.shape)
        else:
            self.tensor.array = values.reshape(self.shape).copy()
        self.module.__dict__[self.name] = self.tensor


class Parts(NamedTuple):
    """The parameters and buffers that a step needs. trained: the parameters that require a gradient. averaged: the
    buffers that each shard changes differently. alike: the buffers of SyncBatchNorm, which all shards change in the
    same way. meets: shards need numbers of each other.
    """

    trained: list[Tensor]
    averaged: list[Slot]
    alike: list[Slot]
    meets: bool


def parts_of(module: Module) -> Parts:
    """Collect the parts of a module and of all modules below it, each once."""
    averaged: list[Slot] = []
    alike: list[Slot] = []
    meets = False
    seen: set[int] = set()
    for each in module.modules():
        synchronized = isinstance(each, SyncBatchNorm)
        meets = meets or synchronized
        if not each.__dict__["_buffer_names"] and type(each).named_buffers is Module.named_buffers:
            continue
        for name, tensor in each.named_buffers(recurse=False):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                array = tensor.array
                (alike if synchronized else averaged).append(Slot(each, name, tensor, array.shape, array.dtype))
    trained: list[Tensor] = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return Parts(trained, averaged, alike, meets)


# ---- Averaging of buffers over the shards of a batch ----------------------------------------------------------------


class BufferAverage:
    """The buffers of a module during one batch. averaged: the buffers that change shard by shard. alike: those that the
    first shard changes for all. reducer: the Reducer of ``floats_of(averaged)``; None if there are none. number: the
    number of the step.
    """

    def __init__(
        self, averaged: Sequence[Packed], alike: Sequence[Slot], reducer: Reducer | None, shards: int, number: int
    ) -> None:
        self._averaged = averaged
        self._floats = [each for each in averaged if each.is_float]
        self._counters = [each for each in averaged if not each.is_float]
        self._alike = pack(alike)
        self._reducer = reducer
        self._changes: list[np.ndarray | None] = []
        self.counts = True  # False: other values were loaded in the meantime
        if reducer is not None:
            reducer.start(1 / shards, number)

    def give(self, left: Sequence[np.ndarray] | None = None) -> None:
        """Restore the buffers' values from before the batch, or those that a shard has `left`."""
        values = [each.old for each in self._averaged] if left is None else left
        for each, own in zip(self._averaged, values, strict=True):
            each.restore(own)

    def undo(self) -> None:
        """Restore all buffers' values from before the batch."""
        self.give()
        for each in self._alike:
            each.restore(each.old)

    def copies(self) -> list[np.ndarray]:
        """Return copies of the buffers' current values."""
        return [each.values() for each in self._averaged]

    def take(self, shard: int) -> None:
        """Add the changes made by a shard and restore the buffers' values from before the batch.

        After the last shard, send the changes.
        """
        for counter in self._counters:
            counter.new = counter.values()
        if self._reducer is not None:
            for position, each in enumerate(self._floats):
                new, old = each.values(), each.old
                change = np.zeros_like(new)
                np.subtract(new, old, out=change, where=new != old)  # infinities that stay do not become NaN
                self._reducer.add(shard, position, change)
            self._reducer.advance()
        self.give()

    def wait(self) -> None:
        """Wait for the changes of the other processes.

        Raises:
            DistError: they are at another step. DistNetworkError: one did not come in time. WorkerLostError: one has
            died.
        """
        if self._reducer is not None:
            self._changes = self._reducer.finish()

    def share_counters(self, group: ProcessGroup) -> float:
        """Copy the buffers without floats, such as batch counters, from the process with the last shard.

        That process has samples, while others may have none. Returns the seconds spent waiting.
        """
        seconds = 0.0
        for each in self._counters if group.comm is not None else ():
            entered = enter(group.count, f"buffers of {each.old.dtype}")
            with mpi.errors(entered):
                request = group.comm.Ibcast(each.new, group.size() - 1)
            seconds += wait(group, [request], entered)
        return seconds

    def store(self) -> None:
        """Change the buffers by the mean of the changes."""
        for each, change in zip(self._floats, self._changes, strict=False):
            if change is not None:
                each.restore(each.old + change)
        for each in self._counters:
            each.restore(each.new)
        mark_changed([slot.tensor.array for each in self._averaged for slot in each.slots], "DistributedDataParallel")


class Packed:
    """Buffers of one dtype. old: their values before the batch, concatenated; new: their values after a shard."""

    new: np.ndarray
    old: np.ndarray

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = slots
        ends = accumulate((slot.tensor.array.size for slot in slots), initial=0)
        self._places = [slice(low, high) for low, high in pairwise(ends)]
        self.old = self.new = self.values()

    @property
    def is_float(self) -> bool:
        """Whether their changes can be averaged."""
        return self.old.dtype.kind == "f"

    def values(self) -> np.ndarray:
        """Return copies of the current values."""
        return np.concatenate([slot.array().reshape(-1) for slot in self.slots])

    def restore(self, values: np.ndarray) -> None:
        """Store these values in the buffers."""
        for slot, place in zip(self.slots, self._places, strict=True):
            slot.restore(values[place])


def pack(slots: Sequence[Slot]) -> list[Packed]:
    """Group the buffers by dtype."""
    groups: dict[np.dtype, list[Slot]] = {}
    for slot in slots:
        groups.setdefault(slot.tensor.array.dtype, []).append(slot)
    return [Packed(group) for group in groups.values()]


def floats_of(packed: Sequence[Packed]) -> list[np.ndarray]:
    """Return the values that can be averaged."""
    return [each.old for each in packed if each.is_float]
