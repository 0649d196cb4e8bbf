"""Buffers of a module over the shards of a batch: they change by the mean of what each shard changes.

Each shard begins with the buffers as they were before the batch, so the order of the shards does not count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..engine.changes import mark
from ..engine.tensor import Tensor
from .reducer import Reducer


class BufferAverage:
    """The buffers of a module during one batch. buffers: all of them. reducer: of those that hold floats, in order."""

    def __init__(self, buffers: Sequence[Tensor], reducer: Reducer, shards: int) -> None:
        self._buffers, self._reducer = buffers, reducer
        self._old = [tensor.array.copy() for tensor in buffers]
        self._floats = [k for k, tensor in enumerate(buffers) if is_float(tensor)]
        self._changes: list[np.ndarray | None] = []
        reducer.start(1 / shards)

    def before(self) -> None:
        """Give the next shard the buffers of before the batch."""
        for tensor, old in zip(self._buffers, self._old, strict=True):
            tensor.array[...] = old

    def after(self, shard: int) -> None:
        """Take the changes that a shard has made; after the last one, send them."""
        self._reducer.begin(shard)
        for position, k in enumerate(self._floats):
            self._reducer.add(position, self._buffers[k].array - self._old[k])
        self._reducer.end()

    def wait(self) -> None:
        """Wait for the changes of the other processes.

        Raises:
            DistNetworkError: a process did not come in time. WorkerLostError: one has died.
        """
        self._changes = self._reducer.finish()

    def store(self) -> None:
        """Change the buffers by the mean of the changes."""
        for k, change in zip(self._floats, self._changes, strict=True):
            if change is not None:
                np.add(self._old[k], change, out=self._buffers[k].array)
        mark([tensor.array for tensor in self._buffers], "DistributedDataParallel")


def is_float(tensor: Tensor) -> bool:
    """Whether its changes can be averaged."""
    return tensor.array.dtype.kind == "f"
