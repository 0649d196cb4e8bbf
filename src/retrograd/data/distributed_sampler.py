"""The share of a dataset that one of several processes visits."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import numpy as np

from ..ops.arguments.checks import as_truth
from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """Every ``num_replicas``-th index from ``rank`` on, of an order that all ranks draw from the same seed.

    The order is filled up with its own beginning until every rank has the same number of indices.

    num_replicas: number of shares. rank: the number of this share, from 0. None: those of the process group.
    shuffle: a new random order for each epoch, from ``seed + epoch``; False keeps the dataset's order.
    drop_last: shorten the order instead of filling it up.

    Raises:
        RuntimeError: num_replicas or rank is not given, and there is no process group.
        ValueError: num_replicas is not a positive int, rank is not an int from 0 to num_replicas - 1, or seed is not an
            int of at least 0.
        TypeError: shuffle or drop_last is not a bool.

    Source: PyTorch's class of this name; the random order is another one.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from ..distributed.processes.world import world as current

            world = current()
            if world is None:
                raise RuntimeError(
                    "DistributedSampler: there is no process group to ask; call distributed.init_process_group() "
                    "first, or pass num_replicas and rank"
                )
            num_replicas, rank = world[0] if num_replicas is None else num_replicas, world[1] if rank is None else rank
        if not _is_int(num_replicas) or num_replicas < 1:
            raise ValueError(f"DistributedSampler: num_replicas={num_replicas!r} must be a positive int")
        if not _is_int(rank) or not 0 <= rank < num_replicas:
            raise ValueError(f"DistributedSampler: rank={rank!r} must be an int from 0 to {num_replicas - 1}")
        if not _is_int(seed) or seed < 0:
            raise ValueError(f"DistributedSampler: seed={seed!r} must be an int of at least 0")
        self.dataset, self.num_replicas, self.rank, self.seed, self.epoch = dataset, num_replicas, rank, seed, 0
        self.shuffle = as_truth("DistributedSampler", "shuffle", shuffle)
        self.drop_last = as_truth("DistributedSampler", "drop_last", drop_last)

    @property
    def num_samples(self) -> int:
        """The number of indices of this share."""
        size = len(self.dataset)
        return size // self.num_replicas if self.drop_last else -(-size // self.num_replicas)

    @property
    def total_size(self) -> int:
        """The number of indices of all shares together."""
        return self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        generator = np.random.default_rng(self.seed + self.epoch)
        order = generator.permutation(size) if self.shuffle else np.arange(size)
        return iter(np.resize(order, self.total_size)[self.rank :: self.num_replicas].tolist())

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """The epoch whose order the next iteration takes: call it before each, with the same number in every rank.

        Raises:
            ValueError: epoch is not an int of at least 0.
        """
        if not _is_int(epoch) or epoch < 0:
            raise ValueError(f"DistributedSampler: epoch={epoch!r} must be an int of at least 0")
        self.epoch = epoch


def _is_int(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
