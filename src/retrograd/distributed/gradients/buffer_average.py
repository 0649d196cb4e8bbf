"""Buffers of a module over the shards of a batch: they change by the mean of what each shard changes.

Each shard begins with the buffers as they were before the batch, so the order of the shards does not count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...engine.changes import mark
from ...engine.tensor import Tensor
from ...nn.module import Module
from .reducer import Reducer
from .sync_batch_norm import SyncBatchNorm


class BufferAverage:
    """The buffers of a module during one batch. buffers: those that change shard by shard. others: those that the first
    shard changes for all. reducer: of those of `buffers` that hold floats, in order; None if none does.
    """

    def __init__(
        self, buffers: Sequence[Tensor], others: Sequence[Tensor], reducer: Reducer | None, shards: int
    ) -> None:
        self._buffers, self._others, self._reducer = buffers, others, reducer
        self._old = [tensor.array.copy() for tensor in buffers]
        self._old_others = [tensor.array.copy() for tensor in others]
        self._floats = [k for k, tensor in enumerate(buffers) if is_float(tensor)]
        self._changes: list[np.ndarray | None] = []
        if reducer is not None:
            reducer.start(1 / shards)

    def before(self, left: Sequence[np.ndarray] | None = None) -> None:
        """Give the next shard the buffers of before the batch, or those that it has `left`."""
        for tensor, old in zip(self._buffers, self._old if left is None else left, strict=True):
            tensor.array[...] = old

    def undo(self) -> None:
        """Give all buffers the values of before the batch."""
        self.before()
        for tensor, old in zip(self._others, self._old_others, strict=True):
            tensor.array[...] = old

    def copies(self) -> list[np.ndarray]:
        """Copies of what the buffers hold now."""
        return [tensor.array.copy() for tensor in self._buffers]

    def after(self, shard: int) -> None:
        """Take the changes that a shard has made; after the last one, send them."""
        if self._reducer is None:
            return
        for position, k in enumerate(self._floats):
            self._reducer.add(shard, position, self._buffers[k].array - self._old[k])
        self._reducer.advance()

    def wait(self) -> None:
        """Wait for the changes of the other processes.

        Raises:
            DistNetworkError: a process did not come in time. WorkerLostError: one has died.
        """
        if self._reducer is not None:
            self._changes = self._reducer.finish()

    def store(self) -> None:
        """Change the buffers by the mean of the changes."""
        for k, change in zip(self._floats, self._changes, strict=True):
            if change is not None:
                np.add(self._old[k], change, out=self._buffers[k].array)
        mark([tensor.array for tensor in self._buffers], "DistributedDataParallel")


def averaged_buffers(module: Module) -> tuple[list[Tensor], list[Tensor]]:
    """The buffers that each shard changes in its own way, and those of SyncBatchNorm, which all change alike."""
    layers = [each for each in module.modules() if isinstance(each, SyncBatchNorm)]
    alike = {id(tensor) for each in layers for tensor in each.buffers(recurse=False)}
    buffers = list(module.buffers())
    return [t for t in buffers if id(t) not in alike], [t for t in buffers if id(t) in alike]


def is_float(tensor: Tensor) -> bool:
    """Whether its changes can be averaged."""
    return tensor.array.dtype.kind == "f"
