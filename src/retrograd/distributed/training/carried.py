"""States that a network hands on from batch to batch, in buffers that have an entry for each sample of a batch.

A shard reads and writes the entries of its own samples alone. After the step each process has those of all, so any
process can go on with any shard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...engine.aliasing import mark
from ...nn.module import Module
from ..gradients.reducer import Channel, Reducer
from ..processes.process_group import ProcessGroup
from .loader import ShardedBatch


class Carried:
    """Some buffers of a model.

    axes: the name of each buffer -> the axis along which its entries belong to the samples of a batch, in their order.

    Raises:
        ValueError: the model has no such buffer, or it no such axis.
    """

    def __init__(self, model: Module, axes: Mapping[str, int]) -> None:
        buffers = dict(model.named_buffers())
        for name, axis in axes.items():
            if name not in buffers or not 0 <= axis < buffers[name].array.ndim:
                shapes = {key: tensor.array.shape for key, tensor in buffers.items()}
                raise ValueError(f"carried: axis {axis} of {name!r} must be one of a buffer; the model has {shapes}")
        self._names, self._axes = [*axes], [*axes.values()]
        self._tensors = [buffers[name] for name in axes]
        self._made: tuple[ProcessGroup, Reducer] | None = None
        self._left: dict[int, list[np.ndarray]] = {}  # of each shard of this process, zeros and its own entries
        self._totals: list[np.ndarray | None] = []

    def around(self, batch: ShardedBatch, loss: Callable[..., Any]) -> tuple[ShardedBatch, Callable[..., Any]]:
        """The batch and the loss of a step in which the model sees the entries of the shard under way.

        Raises:
            ValueError: the batch has more samples than a buffer has entries.
        """
        for name, axis, tensor in zip(self._names, self._axes, self._tensors, strict=True):
            if batch.samples > tensor.array.shape[axis]:
                raise ValueError(
                    f"carried buffer {name} has {tensor.array.shape[axis]} entries along axis {axis}, and "
                    f"the batch {batch.samples} samples"
                )
        cuts = np.concatenate([[0], np.cumsum(batch.sizes)])
        self._left = {}
        under_way = 0

        def load(shard: int) -> Any:
            nonlocal under_way
            under_way = shard
            return batch[shard]

        def of_shard(*loaded: Any) -> Any:
            whole = [tensor.array for tensor in self._tensors]
            places = [self._place(axis, cuts[under_way], cuts[under_way + 1]) for axis in self._axes]
            try:
                for tensor, old, place in zip(self._tensors, whole, places, strict=True):
                    tensor.array = old[place].copy()
                result = loss(*loaded)
                found = [np.zeros_like(old) for old in whole]
                for tensor, new, place in zip(self._tensors, found, places, strict=True):
                    new[place] = tensor.array
                self._left[under_way] = found
            finally:
                for tensor, old in zip(self._tensors, whole, strict=True):
                    tensor.array = old
            return result

        return ShardedBatch(batch.sizes.tolist(), load), of_shard

    def exchange(self, group: ProcessGroup, shards: int, most: int, number: int) -> float:
        """Get the entries of all shards; returns the seconds that this process has waited for others.

        Raises:
            DistNetworkError: a process did not come in time. WorkerLostError: one has died.
        """
        if self._made is None or self._made[0] is not group:
            channel = Channel(group, "the exchange of carried buffers")
            self._made = group, Reducer(channel, [tensor.array for tensor in self._tensors], shards, most)
        reducer = self._made[1]
        before = reducer.waited
        reducer.start(1.0, number)
        for shard in reducer.own:
            for position, entries in enumerate(self._left.get(shard, ())):
                reducer.add(shard, position, entries)
            reducer.end(shard)
        self._totals = reducer.finish()
        return reducer.waited - before

    def store(self, samples: int) -> None:
        """Store the entries of a batch of so many samples in the buffers, when the step is done."""
        for tensor, axis, total in zip(self._tensors, self._axes, self._totals, strict=True):
            if total is not None:
                place = self._place(axis, 0, samples)
                tensor.array[place] = total[place]
        mark([tensor.array for tensor in self._tensors], "ShardedTrainer")

    @staticmethod
    def _place(axis: int, first: int, end: int) -> tuple[slice, ...]:
        return (*(slice(None) for _ in range(axis)), slice(first, end))
