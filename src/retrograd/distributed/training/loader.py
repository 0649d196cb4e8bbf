"""ShardedLoader: the batches of a dataset as shards, of which each process loads its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...data.fetch import Fetcher
from ...data.loader import DataLoader
from ..gradients.shards import bounds
from ..processes.world import world

__all__ = ["ShardedBatch", "ShardedLoader"]


class ShardedBatch:
    """One batch of all processes together. ``batch[k]`` loads shard k; it is the same in every process.

    sizes: the number of samples of each shard.
    """

    def __init__(self, sizes: Sequence[int], load: Callable[[int], Any]) -> None:
        self.sizes, self._load = np.array(sizes, np.int64), load

    def __len__(self) -> int:
        """The number of shards."""
        return len(self.sizes)

    def __getitem__(self, shard: int) -> Any:
        return self._load(shard)

    @property
    def samples(self) -> int:
        """The number of samples of the whole batch."""
        return int(self.sizes.sum())


class ShardedLoader(DataLoader):
    """A DataLoader whose batches are those of all processes together, each a ``ShardedBatch``.

    batch_size: samples in the whole batch, whatever the number of processes. shards: into how many pieces it is cut.
    The order, and the random numbers of each shard, come from ``seed``, so they are the same for any number of
    processes. dataset, shuffle, sampler, collate_fn, drop_last: as for DataLoader.

    Raises:
        As DataLoader; ValueError: shards is not a positive int, or there are more processes than samples.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Any = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        drop_last: bool = False,
        *,
        shards: int = 8,
        generator: np.random.Generator | None = None,
        seed: int | None = None,
    ) -> None:
        if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1:
            raise ValueError(f"ShardedLoader: shards={shards!r} must be a positive int")
        if generator is None and seed is None:
            seed = 0
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            collate_fn=collate_fn,
            drop_last=drop_last,
            generator=generator,
            seed=seed,
        )
        self.shards = shards
        found = world()
        if found is not None and hasattr(dataset, "__len__") and len(dataset) < found[0] > 1:
            raise ValueError(
                f"ShardedLoader: there are more processes than samples, {found[0]} and {len(dataset)}; "
                f"start at most {max(len(dataset), 1)}"
            )

    def __iter__(self) -> Iterator[ShardedBatch]:
        order, seed, _ = self._order()
        fetcher = Fetcher(self.dataset, self.collate_fn, self.batch_size, self.drop_last)
        fetcher.start(seed)
        for number, indices in enumerate(order, self._position):
            self._position += 1
            if not self._drew:
                self._drew = True
                self._generator.integers(2**63)  # the next epoch gets different numbers
            yield self._batch(fetcher, number, indices)
        self._position, self._drew, self._epoch_start = 0, False, None

    def _batch(self, fetcher: Fetcher, number: int, indices: Sequence[int]) -> ShardedBatch:
        cuts = bounds(len(indices), self.shards)

        def load(shard: int) -> Any:
            return fetcher.fetch(number * self.shards + shard, indices[cuts[shard] : cuts[shard + 1]])[0]

        return ShardedBatch(np.diff(cuts).tolist(), load)
