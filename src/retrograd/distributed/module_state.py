"""Parameters and buffers of a module during a step, and averaging of buffers over shards.

Each shard begins with the buffers' values from before the batch, so the order of the shards does not matter. Between
shards, and until the batch is done, the buffers have these values.
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
from .process_group import ProcessGroup, describe_call, wait
from .reducer import Reducer
from .sync_batch_norm import SyncBatchNorm

# ---- Parameters and buffers of a module, collected for each step ----------------------------------------------------


class BufferSlot(NamedTuple):
    """A buffer: the module that owns it, its name, and its tensor, shape and dtype before the batch."""

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


class ModuleState(NamedTuple):
    """The parameters and buffers of a module that a training step uses.

    trained: the parameters that require a gradient.
    averaged: the buffers that each shard changes differently.
    identical: the buffers of SyncBatchNorm, which all shards change in the same way.
    has_sync_batch_norm: whether shards exchange statistics within the forward pass.
    """

    trained: list[Tensor]
    averaged: list[BufferSlot]
    identical: list[BufferSlot]
    has_sync_batch_norm: bool


def collect_state(module: Module) -> ModuleState:
    """Collect the parameters and buffers of a module and its submodules, each once."""
    averaged: list[BufferSlot] = []
    identical: list[BufferSlot] = []
    has_sync_batch_norm = False
    seen: set[int] = set()
    for each in module.modules():
        synchronized = isinstance(each, SyncBatchNorm)
        has_sync_batch_norm = has_sync_batch_norm or synchronized
        if not each.__dict__["_buffer_names"] and type(each).named_buffers is Module.named_buffers:
            continue
        for name, tensor in each.named_buffers(recurse=False):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                array = tensor.array
                (identical if synchronized else averaged).append(
                    BufferSlot(each, name, tensor, array.shape, array.dtype)
                )
    trained: list[Tensor] = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return ModuleState(trained, averaged, identical, has_sync_batch_norm)


# ---- Averaging of buffers over the shards of a batch ----------------------------------------------------------------


class BufferAverage:
    """The buffers of a module during one batch, and the average of their changes over the shards.

    averaged: the buffers that change shard by shard.
    identical: the buffers that the first local shard changes for all.
    reducer: the Reducer for ``floats_of(averaged)``; None if there are no such buffers.
    shards: the number of shards to average over.
    number: the number of the step.
    """

    def __init__(
        self,
        averaged: Sequence[PackedBuffers],
        identical: Sequence[BufferSlot],
        reducer: Reducer | None,
        shards: int,
        number: int,
    ) -> None:
        self._averaged = averaged
        self._floats = [each for each in averaged if each.is_float]
        self._counters = [each for each in averaged if not each.is_float]
        self._identical = pack(identical)
        self._reducer = reducer
        self._changes: list[np.ndarray | None] = []
        self.valid = True  # False: load_state_dict was called meanwhile, and its values must stay
        if reducer is not None:
            reducer.start(1 / shards, number)

    def restore(self, values: Sequence[np.ndarray] | None = None) -> None:
        """Set the averaged buffers to `values`; None means their values from before the batch."""
        values = [each.old for each in self._averaged] if values is None else values
        for each, own in zip(self._averaged, values, strict=True):
            each.restore(own)

    def undo(self) -> None:
        """Restore the values from before the batch in all buffers."""
        self.restore()
        for each in self._identical:
            each.restore(each.old)

    def copies(self) -> list[np.ndarray]:
        """Return copies of the buffers' current values."""
        return [each.values() for each in self._averaged]

    def take(self, shard: int) -> None:
        """Record the changes that a shard has made, and restore the values from before the batch.

        The changes are sent once the last shard has been recorded.
        """
        for counter in self._counters:
            counter.new = counter.values()
        if self._reducer is not None:
            for position, each in enumerate(self._floats):
                new, old = each.values(), each.old
                change = np.zeros_like(new)
                np.subtract(new, old, out=change, where=new != old)  # an unchanged infinity gives 0, not NaN
                self._reducer.add(shard, position, change)
            self._reducer.advance()
        self.restore()

    def wait(self) -> None:
        """Wait for the changes of the other processes.

        Raises:
            DistError: the processes are at different steps. DistNetworkError: a process did not come in time.
            WorkerLostError: one has died.
        """
        if self._reducer is not None:
            self._changes = self._reducer.finish()

    def share_counters(self, group: ProcessGroup) -> float:
        """Copy integer buffers, such as batch counters, from the process with the last shard.

        The last shard always has samples, whereas another process may have none. Returns the seconds spent waiting.
        """
        seconds = 0.0
        for each in self._counters if group.comm is not None else ():
            entered = describe_call(group.count, f"buffers of {each.old.dtype}")
            with mpi.errors(entered):
                request = group.comm.Ibcast(each.new, group.size() - 1)
            seconds += wait(group, [request], entered)
        return seconds

    def store(self) -> None:
        """Apply the mean of the changes to the buffers."""
        for each, change in zip(self._floats, self._changes, strict=False):
            if change is not None:
                each.restore(each.old + change)
        for each in self._counters:
            each.restore(each.new)
        mark_changed([slot.tensor.array for each in self._averaged for slot in each.slots], "DistributedDataParallel")


class PackedBuffers:
    """Buffers of one dtype, concatenated. old: the values before the batch; new: the values after a shard."""

    new: np.ndarray
    old: np.ndarray

    def __init__(self, slots: Sequence[BufferSlot]) -> None:
        self.slots = slots
        ends = accumulate((slot.tensor.array.size for slot in slots), initial=0)
        self._slices = [slice(low, high) for low, high in pairwise(ends)]
        self.old = self.new = self.values()

    @property
    def is_float(self) -> bool:
        """Whether the dtype is floating-point, so that changes can be averaged."""
        return self.old.dtype.kind == "f"

    def values(self) -> np.ndarray:
        """Return a copy of the current values, concatenated."""
        return np.concatenate([slot.array().reshape(-1) for slot in self.slots])

    def restore(self, values: np.ndarray) -> None:
        """Store these values in the buffers."""
        for slot, place in zip(self.slots, self._slices, strict=True):
            slot.restore(values[place])


def pack(slots: Sequence[BufferSlot]) -> list[PackedBuffers]:
    """Group the buffers by dtype."""
    groups: dict[np.dtype, list[BufferSlot]] = {}
    for slot in slots:
        groups.setdefault(slot.tensor.array.dtype, []).append(slot)
    return [PackedBuffers(group) for group in groups.values()]


def floats_of(packed: Sequence[PackedBuffers]) -> list[np.ndarray]:
    """Return the old values of the floating-point buffers."""
    return [each.old for each in packed if each.is_float]
