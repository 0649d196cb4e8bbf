"""ShardedTrainer: training steps that all processes do, or none, and that survive the death of some of them.

A step computes the gradients of the shards that this process has, adds those of all in the fixed tree, and changes the
weights only when every process has said that it has the sum. When a process dies, the others hear of it in one of their
collectives, leave the group of those with the dead one, share its shards among themselves, and do the step again. Since
shards do not depend on the number of processes, the weights are the same bits as if nothing had happened.

Source: W. Bland et al., "Post-failure recovery of MPI communication capability", 2013 (User-Level Failure Mitigation).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from ...engine.backward_pass import grad_early
from ...engine.grad_mode import enable_grad
from ...engine.gradients import deliver
from ...engine.hooks import run_leaf_hooks, run_post_hooks
from ...engine.tensor import Tensor, wrap
from ...nn.module import Module
from ...ops.random.random import default_generator
from .. import checkpoint as checkpoints
from ..collectives.objects import from_root
from ..errors import WorkerLostError
from ..gradients.buffer_average import BufferAverage, floats_of, pack
from ..gradients.data_parallel import MOST_BYTES, begin_alike, checked_seed, checked_shards
from ..gradients.parts import parts_of
from ..gradients.reducer import Channel, Reducer
from ..gradients.shard_state import run_shards
from ..gradients.tree import share
from ..optim import ZeroRedundancyOptimizer
from ..processes import mpi
from ..processes.entered import enter
from ..processes.process_group import ProcessGroup
from ..processes.waiting import wait
from ..processes.world import member, replace_world
from .carried import Carried
from .loader import ShardedBatch

__all__ = ["ShardedTrainer"]

_NAME = "ShardedTrainer"
_T = TypeVar("_T")


class ShardedTrainer:
    """Steps of ``model`` and ``optimizer`` over all processes.

    All processes begin with the parameters and buffers of process 0.

    shards: into how many pieces each batch is cut; the result depends on it, and not on the number of processes.
    seed: of the random numbers of each shard, such as dropout's; None: drawn from the default generator of process 0.
    carried: buffers in which the model hands states on from batch to batch, and the axis of each that has an entry for
        each sample. A shard sees the entries of its own samples alone.

    ``group`` is the group of the processes that live; ``lost`` counts those that have died. ``waited`` is the seconds
    that this process has waited for others, ``busy`` those of its steps in all. With each step, the processes tell each
    other what their ``tell()`` returns, -1 unless you replace it; ``told`` is the largest number of the last step, in
    all of them the same.

    Raises:
        TypeError: model is not a Module, or seed not an int. ValueError: there are more processes than shards, or
        nothing to train, seed is negative, or carried names no buffer of the model.
        DistError: the processes have other parameters. RuntimeError: there is no process group.
    """

    def __init__(
        self,
        model: Module,
        optimizer: Any,
        *,
        shards: int = 8,
        process_group: ProcessGroup | None = None,
        seed: int | None = None,
        carried: Mapping[str, int] | None = None,
    ) -> None:
        if not isinstance(model, Module):
            raise TypeError(f"{_NAME}: model must be a Module, got {type(model).__name__}")
        self.model, self.optimizer = model, optimizer
        self.group = self._first_group = member(process_group, _NAME)
        self.shards = checked_shards(_NAME, shards, self.group.size())
        self.steps = self.lost = 0
        self.waited = self.busy = 0.0
        self.tell: Callable[[], int] = lambda: -1
        self.told = -1
        self._carried = Carried(model, carried) if carried else None
        begin_alike(_NAME, self.group, model)
        drawn = int(default_generator.integers(2**62)) if seed is None else checked_seed(_NAME, seed)
        self.seed = from_root(self.group, drawn, 0, f"{_NAME}: the seed")
        self._trained: list[Tensor] = []
        self._reducers: tuple[Reducer, Reducer | None] | None = None
        self._made_for: Any = None  # shapes, dtypes and parameters that they are of
        self._channels: tuple[Channel, Channel] | None = None

    @property
    def is_first(self) -> bool:
        """Whether this process prints, and writes files: the first of those that live."""
        return self.group.rank() == 0

    def step(
        self,
        batch: ShardedBatch,
        loss: Callable[..., Any],
        before: Callable[[np.ndarray], object] | None = None,
    ) -> np.ndarray:
        """One step; returns a row of numbers for each shard: the loss, then what ``loss`` has returned besides.

        loss: called with what ``batch[shard]`` holds; returns the mean loss of the shard's samples, a Tensor of one
            element, alone or in a tuple with further numbers, whose count is always the same.
        before: called with the rows before the optimizer's step, when ``grad`` holds the gradients of the whole batch.

        Raises:
            DistNetworkError: a process did not come in time. WorkerLostError: one has died, and this MPI cannot go on
            without it, or its part of the optimizer's state is gone (ZeroRedundancyOptimizer). What ``loss`` raises,
            which ends the job unless it is caught; of a MemoryError, the others go on as after a death.
        """
        start = perf_counter()
        totals, numbers = self.together(lambda group: self._attempt_all(batch, loss), self._undo_buffers)
        if self._average is not None:
            self._average.store()
        if self._carried is not None:
            self._carried.store(batch.samples)
        self._deliver(totals)
        if before is not None:
            before(numbers)
        self.optimizer.step()
        self.steps += 1
        self.busy += perf_counter() - start
        return numbers

    def together(self, work: Callable[[ProcessGroup], _T], undo: Callable[[], object] | None = None) -> _T:
        """``work(group)`` in all processes, until all that live have done it; returns this one's result.

        When some die in it, the others leave them behind and do it again, after ``undo()``.

        Raises:
            DistNetworkError: a process did not come in time. WorkerLostError: one has died, and this MPI cannot go on
            without it. What ``work`` raises.
        """
        while True:
            try:
                result, done = work(self.group), True
            except WorkerLostError:
                done = False
                if not self.group.recoverable:
                    raise
            if self._all(done):
                return result
            if undo is not None:
                undo()
            self._go_on_without_the_dead()

    def save(self, state_dict: Mapping[str, Any], checkpoint_id: str | os.PathLike[str]) -> None:
        """``checkpoint.save`` by all processes; when some die in it, the others write the checkpoint.

        Raises:
            As checkpoint.save, and ``together``.
        """
        self.together(lambda group: checkpoints.save(state_dict, checkpoint_id=checkpoint_id, process_group=group))

    # ---- one attempt ---------------------------------------------------------------------------------------------

    _average: BufferAverage | None = None

    def _attempt_all(self, batch: ShardedBatch, loss: Callable[..., Any]) -> tuple[list[np.ndarray | None], np.ndarray]:
        """An attempt, with the states that are carried from batch to batch."""
        if self._carried is None:
            return self._attempt(batch, loss)
        found = self._attempt(*self._carried.around(batch, loss))
        self.waited += self._carried.exchange(self.group, self.shards, MOST_BYTES, self.steps)
        return found

    def _attempt(self, batch: ShardedBatch, loss: Callable[..., Any]) -> tuple[list[np.ndarray | None], np.ndarray]:
        if len(batch) != self.shards:
            raise ValueError(f"{_NAME}: the batch has {len(batch)} shards, expected {self.shards}, as the trainer has")
        parts = parts_of(self.model)
        averaged = pack(parts.averaged)
        reducer, of_buffers = self._made_reducers(parts.trained, floats_of(averaged))
        before = reducer.waited + (of_buffers.waited if of_buffers else 0.0)
        self._average = BufferAverage(averaged, parts.alike, of_buffers, self.shards, self.steps)
        reducer.start(1.0, self.steps)
        rows = self._over_shards(reducer, batch, loss, parts.meets)
        totals = reducer.finish()
        self._average.wait()
        numbers = self._gathered(reducer.own, rows)
        if not batch.sizes.all():
            self.waited += self._average.share_counters(self.group)
        self.waited += reducer.waited + (of_buffers.waited if of_buffers else 0.0) - before
        return totals, numbers

    def _over_shards(
        self, reducer: Reducer, batch: ShardedBatch, loss: Callable[..., Any], together: bool
    ) -> list[list[float]]:
        """The gradients of this process's shards go to the reducer; returns the numbers of each. together: shards need
        numbers of each other."""
        if together:
            self._check_samples(batch)

        def one(shard: int) -> list[float]:
            def take(position: int, gradient: np.ndarray, alone: bool) -> None:
                reducer.add(shard, position, gradient, alone)
                if not together:
                    reducer.advance()

            row = self._shard(shard, batch, loss, take)
            reducer.end(shard)
            return row

        jobs = {shard: partial(one, shard) if batch.sizes[shard] else None for shard in reducer.own}
        for shard, job in jobs.items():
            if job is None:
                reducer.end(shard)
        numbers = self.seed, self.steps
        rows = run_shards(
            self.group, self.shards, jobs, numbers, self._average, together, self._first_group, reducer.advance
        )
        return [rows.get(shard, []) for shard in reducer.own]

    def _shard(
        self,
        shard: int,
        batch: ShardedBatch,
        loss: Callable[..., Any],
        take: Callable[[int, np.ndarray, bool], object],
    ) -> list[float]:
        """The numbers of one shard; `take` gets the gradients of its parameters, and whether nobody else holds them."""
        with enable_grad():
            loaded = batch[shard]
            result = loss(*loaded) if isinstance(loaded, (list, tuple)) else loss(loaded)
        value, *further = result if isinstance(result, tuple) else (result,)
        if not isinstance(value, Tensor) or value.array.size != 1 or not value._requires_grad:
            kind = f"a Tensor of shape {value.array.shape}" if isinstance(value, Tensor) else type(value).__name__
            raise TypeError(
                f"{_NAME}: loss returned {kind}; it must return the mean loss of the shard's samples, a Tensor of one "
                "element that depends on the parameters, alone or first in a tuple with numbers"
            )
        row = [value.item(), *map(float, further)]
        weight = np.asarray(batch.sizes[shard] / batch.samples, value.array.dtype)
        upstream = wrap(np.full(value.array.shape, weight))
        grad_early([value], self._trained, [upstream], lambda position, g, alone: take(position, g.array, alone))
        return row

    def _check_samples(self, batch: ShardedBatch) -> None:
        """Check that each process has a sample, for what shards do together."""
        for rank in range(self.group.size()):
            own = share(self.shards, self.group.size(), rank)
            if not batch.sizes[own.start : own.stop].any():
                raise ValueError(
                    f"{_NAME}: a batch of {batch.samples} samples in {self.shards} shards leaves none to process "
                    f"{rank}, and SyncBatchNorm needs one in each; pass drop_last=True to the loader, or larger batches"
                )

    def _gathered(self, own: range, rows: Sequence[list[float]]) -> np.ndarray:
        """The numbers of all shards, in every process; NaN for a shard without samples."""
        group = self.group
        width = max((len(row) for row in rows), default=0)
        found = np.array([width, self.tell()])
        if group.comm is not None:
            entered = enter(group.count, f"{_NAME}: the losses")
            with mpi.errors(entered):
                request = group.comm.Iallreduce(mpi.load().IN_PLACE, found, mpi.load().MAX)
            wait(group, [request], entered)
            group.all_entered(entered)
        width, self.told = map(int, found)
        table = np.zeros((self.shards, width))
        for shard, row in zip(own, rows, strict=True):
            if row and len(row) != width:
                raise ValueError(
                    f"{_NAME}: loss returned {len(row)} numbers for shard {shard} and {width} for another one; their "
                    "count must be the same"
                )
            table[shard] = row or np.nan
        if group.comm is not None:
            with mpi.errors(entered):
                request = group.comm.Iallreduce(mpi.load().IN_PLACE, table)
            wait(group, [request], entered)
        return table

    def _deliver(self, totals: list[np.ndarray | None]) -> None:
        """Store the gradients as a backward does, in place of those of the last step."""
        entries: list[Any] = []
        for position, parameter in enumerate(self._trained):
            parameter.grad = None
            total, totals[position] = totals[position], None  # so that only the entry holds it: it need not be copied
            if total is not None:
                entries.append([parameter, wrap(total), True])
            total = None
        run_leaf_hooks(entries)
        deliver(entries, False)
        run_post_hooks(entries)

    def _made_reducers(self, trained: list[Tensor], floats: list[np.ndarray]) -> tuple[Reducer, Reducer | None]:
        kinds = [[(each.shape, each.dtype) for each in arrays] for arrays in ([p.array for p in trained], floats)]
        now = kinds, [*map(id, trained)]
        if self._reducers is None or now != self._made_for:
            if not trained:
                raise ValueError(f"{_NAME}: model has no parameter that requires a gradient")
            self._trained, self._made_for = trained, now
            if self._channels is None:
                gradients, buffers = (f"{_NAME}: the {what}" for what in ("gradients", "buffers"))
                self._channels = Channel(self.group, gradients), Channel(self.group, buffers)
            arrays = [parameter.array for parameter in trained]
            self._reducers = (
                Reducer(self._channels[0], arrays, self.shards, MOST_BYTES),
                Reducer(self._channels[1], floats, self.shards, MOST_BYTES) if floats else None,
            )
        return self._reducers

    # ---- when a process has died ---------------------------------------------------------------------------------

    def _all(self, done: bool) -> bool:
        """Whether all processes have done the step; it is the same answer in all that live."""
        if not done:
            self.group.revoke()
        return self.group.all_agree(done)

    def _undo_buffers(self) -> None:
        if self._average is not None:
            self._average.undo()
            self._average = None

    def _go_on_without_the_dead(self) -> None:
        if isinstance(self.optimizer, ZeroRedundancyOptimizer):
            raise WorkerLostError(
                f"{_NAME}: a process has died, and with it its part of the optimizer's state, which "
                "ZeroRedundancyOptimizer shares out; start again from the last checkpoint (retrograd launch "
                "--max-restarts), or use the plain optimizer, with which the others go on"
            )
        before = self.group
        self.group = before.of_the_living()
        replace_world(before, self.group)
        self.lost += before.size() - self.group.size()
        self._reducers = self._channels = None
