"""Workers: the processes of ``retrograd train --workers``, as the trainer of the command line sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..nn.module import Module
from . import mpi
from .entered import enter
from .errors import WorkerLostError
from .loader import ShardedBatch, ShardedLoader
from .objects import exchange_objects
from .process_group import init_process_group, is_initialized, member
from .trainer import ShardedTrainer
from .tree import share
from .waiting import wait

__all__ = ["Workers"]


class Workers:
    """The processes that a launcher has started, or this one alone.

    shards: into how many pieces each batch is cut; the result depends on it, and not on the number of processes.

    Raises:
        As init_process_group.
    """

    def __init__(self, shards: int = 8) -> None:
        if not is_initialized():
            init_process_group()
        self.shards = shards
        self._trainer: ShardedTrainer | None = None

    def loader(self, dataset: Any, batch_size: int, shuffle: bool) -> ShardedLoader:
        """The batches of a dataset."""
        return ShardedLoader(dataset, batch_size, shuffle=shuffle, shards=self.shards)

    def start(self, model: Module, optimizer: Any, seed: int) -> None:
        """Make the model the same in all processes."""
        self._trainer = ShardedTrainer(model, optimizer, shards=self.shards, seed=seed)

    @property
    def trainer(self) -> ShardedTrainer:
        """What does the steps, once ``start`` has been called."""
        assert self._trainer is not None
        return self._trainer

    @property
    def is_first(self) -> bool:
        """Whether this process prints, and writes files."""
        return member(None, "Workers").rank() == 0

    @property
    def steps(self) -> int:
        """The number of steps done."""
        return self.trainer.steps

    @steps.setter
    def steps(self, value: int) -> None:
        self.trainer.steps = value

    def step(
        self, batch: ShardedBatch, loss: Callable[..., Any], before: Callable[[np.ndarray], object] | None
    ) -> np.ndarray:
        """``ShardedTrainer.step``."""
        return self.trainer.step(batch, loss, before)

    def largest(self, number: int | None) -> int | None:
        """The largest number that a process passes; None if all pass None. When one has died, this process's own."""
        group = self.trainer.group
        if group.comm is None:
            return number
        found = np.array([-1 if number is None else number])
        try:
            with mpi.errors("Workers"):
                request = group.comm.Iallreduce(mpi.load().IN_PLACE, found, mpi.load().MAX)
            wait(group, [request], enter(group.count, "the signals to stop"))
        except WorkerLostError:
            return number
        return None if found[0] < 0 else int(found[0])

    def shares(self) -> list[dict[str, Any]]:
        """Of each process: its shards, the seconds of its steps, and how many of these it waited for others."""
        trainer = self.trainer
        group = trainer.group
        shards = len(share(self.shards, group.size(), group.rank()))
        own = {"shards": shards, "busy": trainer.busy, "waited": trainer.waited, "lost": trainer.lost}
        return exchange_objects(group, own, "Workers.shares()")
