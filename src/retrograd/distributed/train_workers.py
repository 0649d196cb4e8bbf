"""Workers: the interface of the command line's trainer to the processes of ``retrograd train --workers``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..nn.module import Module
from .errors import DistError
from .object_collectives import exchange_objects, from_root
from .process_group import ProcessGroup
from .reduction_tree import shard_range
from .sharded_training import ShardedBatch, ShardedLoader, ShardedTrainer
from .world import init_process_group, is_initialized, member

__all__ = ["Workers"]

SHARDS = 8  # default number of shards of each batch


class Workers:
    """The processes that a launcher has started, or this one alone.

    shards: number of shards that each batch is split into; the result depends on it, not on the number of processes.

    Raises:
        As init_process_group.
    """

    def __init__(self, shards: int = SHARDS) -> None:
        if not is_initialized():
            init_process_group()
        self.shards = shards
        self._trainer: ShardedTrainer | None = None

    def loader(self, dataset: Any, batch_size: int, shuffle: bool) -> ShardedLoader:
        """Return a loader of the batches of a dataset.

        Raises:
            ValueError: the dataset has fewer samples than there are processes.
        """
        return ShardedLoader(dataset, batch_size, shuffle=shuffle, shards=self.shards)

    def start(
        self, model: Module, optimizer: Any, seed: int, carried: Mapping[str, int], number: Callable[[], int | None]
    ) -> None:
        """Create the trainer, which gives all processes the same model.

        seed, carried: as for ShardedTrainer.
        number: returns the number of the stop signal that this process has received, if any; the other processes get it
            in the next step.
        """
        self._trainer = ShardedTrainer(model, optimizer, shards=self.shards, seed=seed, carried=carried)
        self._trainer.tell = lambda: -1 if (found := number()) is None else found

    @property
    def trainer(self) -> ShardedTrainer:
        """The trainer that runs the steps, once ``start`` has been called."""
        assert self._trainer is not None
        return self._trainer

    @property
    def is_first(self) -> bool:
        """Whether this process should print and write files."""
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
        """Run ``ShardedTrainer.step``."""
        return self.trainer.step(batch, loss, before)

    @property
    def signal(self) -> int | None:
        """The stop signal that a process had received by the last step, if any; the same in all processes."""
        told = self.trainer.told
        return None if told < 0 else told

    def write(self, write: Callable[[], object]) -> None:
        """Call ``write`` in the first process. If that process dies meanwhile, the next one calls it.

        Raises:
            Any error that ``write`` raises, in that process; in the others DistError, with its message.
        """
        self.trainer.together(lambda group: self._write(group, write))

    @staticmethod
    def _write(group: ProcessGroup, write: Callable[[], object]) -> None:
        failure: Exception | None = None
        if group.rank() == 0:
            try:
                write()
            except Exception as error:
                failure = error
        why = from_root(group, str(failure or ""), 0, "a file of rank 0")
        if failure is not None:
            raise failure
        if why:
            raise DistError(f"rank 0 could not write: {why}")

    def shares(self) -> list[dict[str, Any]]:
        """Return for each process its number of shards, seconds busy and waited, and the number of lost processes."""
        return self.trainer.together(self._shares)

    def _shares(self, group: ProcessGroup) -> list[dict[str, Any]]:
        trainer = self.trainer
        shards = len(shard_range(self.shards, group.size(), group.rank()))
        own = {"shards": shards, "busy": trainer.busy, "waited": trainer.waited, "lost": trainer.lost}
        return exchange_objects(group, own, "Workers.shares()")
