"""Building batches of a dataset, with random numbers that do not depend on the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import islice
from typing import Any

import numpy as np

from ..ops.random.random import default_generator
from .collate import default_collate
from .dataset import IterableDataset

__all__ = ["END", "Fetcher", "next_seed"]


class END:
    """Returned by ``fetch`` when an IterableDataset has no more samples."""


class Fetcher:
    """Builds the batches of a loader.

    batch_size: None returns single samples.
    drop_last: for an IterableDataset, whose end is not known in advance.
    """

    def __init__(
        self, dataset: Any, collate_fn: Callable[[list[Any]], Any] | None, batch_size: int | None, drop_last: bool
    ) -> None:
        self.dataset, self.collate_fn = dataset, collate_fn
        self.batch_size, self.drop_last = batch_size, drop_last
        self._samples: Iterator[Any] = iter(())
        self._drew = False  # whether the dataset's __iter__ drew random numbers

    def start(self, seed: int, in_worker: bool = False) -> None:
        """Start an epoch whose random numbers come from ``seed``.

        in_worker: this process has its own seed, from which an IterableDataset's ``__iter__`` draws. Otherwise it draws
            from ``seed`` too, and the global generator's state is restored afterwards.
        """
        self._seed, self._drew = seed, False
        if not isinstance(self.dataset, IterableDataset):
            return
        generator = default_generator.bit_generator
        before = generator.state
        start = before if in_worker else np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(0,))).state
        generator.state = start
        try:
            self._samples = iter(self.dataset)
            self._drew = generator.state != start
        finally:
            if not in_worker:
                generator.state = before

    def fetch(self, number: int, indices: Any) -> tuple[Any, bool]:
        """Batch ``number`` of the epoch, and whether random numbers were drawn for it or at the start of the epoch.

        Meanwhile the state of the global generator depends only on the seed and the number, not on the number of
        workers or on other draws. It is restored afterwards.
        """
        generator = default_generator.bit_generator
        before = generator.state
        generator.state = start = _state(self._seed, number)
        try:
            batch = self._batch(indices)
            return batch, self._drew or generator.state != start
        finally:
            generator.state = before

    def _batch(self, indices: Any) -> Any:
        dataset, collate = self.dataset, self.collate_fn or default_collate
        if isinstance(dataset, IterableDataset):
            if self.batch_size is None:
                return next(self._samples, END)
            items = list(islice(self._samples, self.batch_size))
            return collate(items) if items and not (self.drop_last and len(items) < self.batch_size) else END
        if self.batch_size is None:
            return dataset[indices]
        if self.collate_fn is None and hasattr(dataset, "take"):
            batch = dataset.take(indices)
            return list(batch) if type(batch) is tuple else batch  # as default_collate
        if hasattr(dataset, "__getitems__"):
            return collate(dataset.__getitems__(indices))
        return collate([dataset[index] for index in indices])


def next_seed(generator: np.random.Generator) -> int:
    """The number the generator would draw next, without advancing it."""
    return int(deepcopy(generator).integers(2**63))


def _state(seed: int, number: int) -> dict[str, Any]:
    return dict(np.random.PCG64(np.random.SeedSequence((seed, number))).state)
