"""ShardedLoader and ShardedTrainer: fault-tolerant training with results independent of the number of processes.

In a step, each process computes the gradients of its own shards. The gradients of all shards are added in the fixed
tree, and the weights change only after every process has confirmed that it has the sum. When a process dies, the others
learn of it in their next collective, form a new group without the dead process, divide its shards among themselves, and
repeat the step. Shards do not depend on the number of processes, so the weights are bitwise identical to those of a run
without the failure.

States that a model carries from batch to batch are split in the same way: a shard reads and writes only the entries of
its own samples. After the step each process has the entries of all shards, so any process can continue with any shard.

Source: W. Bland et al., "Post-failure recovery of MPI communication capability", 2013 (User-Level Failure Mitigation).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from ..data.fetch import Fetcher
from ..data.loader import DataLoader
from ..engine.aliasing import mark_changed
from ..engine.arguments import kind_name
from ..engine.backward_pass import grad_when_ready
from ..engine.grad_mode import enable_grad
from ..engine.gradients import deliver
from ..engine.hooks import run_leaf_hooks, run_post_hooks
from ..engine.tensor import Tensor, wrap
from ..nn.module import Module
from ..ops.random.random import default_generator
from . import checkpoint as checkpoints
from . import mpi
from .batch_shards import bounds
from .data_parallel import BUCKET_BYTES, broadcast_initial_state, checked_seed, checked_shards
from .errors import WorkerLostError
from .module_state import BufferAverage, collect_state, floats_of, pack
from .object_collectives import from_root
from .optim import ZeroRedundancyOptimizer
from .process_group import ProcessGroup, describe_call, wait
from .reducer import Channel, Reducer
from .reduction_tree import shard_range
from .shard_runner import run_shards
from .world import member, replace_world, world

__all__ = ["ShardedBatch", "ShardedLoader", "ShardedTrainer"]


# ---- ShardedLoader: batches split into shards; each process loads only its own shards -------------------------------


class ShardedBatch:
    """The global batch of a step, for all processes. ``batch[k]`` loads shard k, with the same content in any process.

    sizes: the number of samples of each shard. load: loads a shard.
    """

    sizes: np.ndarray

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
    """A DataLoader of global batches, each a ``ShardedBatch`` for all processes.

    dataset, shuffle, sampler, collate_fn, drop_last, generator: as for DataLoader.
    batch_size: number of samples in the global batch, whatever the number of processes.
    shards: number of shards of a batch.
    seed: determines the order of the samples and the random numbers of each shard, which are therefore the same for any
        number of processes. None means 0, unless ``generator`` is given.

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
                self._generator.integers(2**63)  # so that the next epoch gets different numbers
            yield self._batch(fetcher, number, indices)
        self._position, self._drew, self._epoch_start = 0, False, None

    def _batch(self, fetcher: Fetcher, number: int, indices: Sequence[int]) -> ShardedBatch:
        cuts = bounds(len(indices), self.shards)

        def load(shard: int) -> Any:
            return fetcher.fetch(number * self.shards + shard, indices[cuts[shard] : cuts[shard + 1]])[0]

        return ShardedBatch(np.diff(cuts).tolist(), load)


# ---- State that a model carries from batch to batch, in buffers with an entry for each sample -----------------------


class CarriedBuffers:
    """Buffers in which a model carries state from batch to batch, such as the hidden states of an RNN.

    axes: name of a buffer -> its batch axis: entry k along this axis belongs to sample k of the batch.

    Raises:
        ValueError: the model has no such buffer, or the buffer has no such axis.
    """

    def __init__(self, model: Module, axes: Mapping[str, int]) -> None:
        buffers = dict(model.named_buffers())
        for name, axis in axes.items():
            if name not in buffers or not 0 <= axis < buffers[name].array.ndim:
                shapes = {key: tensor.array.shape for key, tensor in buffers.items()}
                raise ValueError(f"carried: axis {axis} of {name!r} must be one of a buffer; the model has {shapes}")
        self._names, self._axes = [*axes], [*axes.values()]
        self._tensors = [buffers[name] for name in axes]
        self._reducer: tuple[ProcessGroup, Reducer] | None = None
        self._left: dict[int, list[np.ndarray]] = {}  # by shard: its own entries, zeros elsewhere
        self._totals: list[np.ndarray | None] = []

    def around(self, batch: ShardedBatch, loss: Callable[..., Any]) -> tuple[ShardedBatch, Callable[..., Any]]:
        """Wrap the batch and the loss of a step, so that the buffers have only the entries of the current shard.

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
        current_shard = 0

        def load(shard: int) -> Any:
            nonlocal current_shard
            current_shard = shard
            return batch[shard]

        def loss_of_shard(*loaded: Any) -> Any:
            whole = [tensor.array for tensor in self._tensors]
            places = [self._place(axis, cuts[current_shard], cuts[current_shard + 1]) for axis in self._axes]
            try:
                for tensor, old, place in zip(self._tensors, whole, places, strict=True):
                    tensor.array = old[place].copy()
                result = loss(*loaded)
                found = [np.zeros_like(old) for old in whole]
                for tensor, new, place in zip(self._tensors, found, places, strict=True):
                    new[place] = tensor.array
                self._left[current_shard] = found
            finally:
                for tensor, old in zip(self._tensors, whole, strict=True):
                    tensor.array = old
            return result

        return ShardedBatch(batch.sizes.tolist(), load), loss_of_shard

    def exchange(self, group: ProcessGroup, shards: int, max_bytes: int, number: int) -> float:
        """Exchange the entries of all shards; return the seconds that this process has waited for others.

        Raises:
            DistNetworkError: a process did not come in time. WorkerLostError: one has died.
        """
        if self._reducer is None or self._reducer[0] is not group:
            channel = Channel(group, "the exchange of carried buffers")
            self._reducer = group, Reducer(channel, [tensor.array for tensor in self._tensors], shards, max_bytes)
        reducer = self._reducer[1]
        before = reducer.waited
        reducer.start(1.0, number)
        for shard in reducer.own:
            for position, entries in enumerate(self._left.get(shard, ())):
                reducer.add(shard, position, entries)
            reducer.end(shard)
        self._totals = reducer.finish()
        return reducer.waited - before

    def store(self, samples: int) -> None:
        """Store the new entries of a batch of `samples` samples in the buffers, at the end of the step."""
        for tensor, axis, total in zip(self._tensors, self._axes, self._totals, strict=True):
            if total is not None:
                place = self._place(axis, 0, samples)
                tensor.array[place] = total[place]
        mark_changed([tensor.array for tensor in self._tensors], "ShardedTrainer")

    @staticmethod
    def _place(axis: int, first: int, end: int) -> tuple[slice, ...]:
        return (*(slice(None) for _ in range(axis)), slice(first, end))


# ---- ShardedTrainer: all-or-nothing training steps that survive the death of some processes -------------------------

_NAME = "ShardedTrainer"
_T = TypeVar("_T")


class ShardedTrainer:
    """Runs training steps of ``model`` and ``optimizer`` over all processes.

    All processes begin with the parameters and buffers of process 0.

    model: the module to train, the same in all processes.
    optimizer: an optimizer of its parameters.
    shards: number of shards that each batch is split into. The result depends on it, not on the number of processes.
    process_group: the processes that take part; None means all.
    seed: the seed of each shard's random numbers, such as dropout's. None: drawn from process 0's default generator.
    carried: name -> batch axis of buffers in which the model carries state from batch to batch. A shard sees only the
        entries of its own samples.

    ``group`` is the group of the surviving processes, and ``lost`` the number of processes that have died. ``waited``
    is the time in seconds that this process has waited for others, and ``busy`` the total time of its steps.

    ``tell`` is a function, which you may replace, that returns an int; by default -1. All processes call it in each
    step, and ``told`` is the largest result of the last step, the same in all processes.

    Raises:
        TypeError: model is not a Module, or seed is not an int. ValueError: there are more processes than shards, or
        nothing to train, seed is negative, or carried names something other than a buffer of the model.
        DistError: the processes have different parameters. RuntimeError: there is no process group.
    """

    model: Module
    optimizer: Any
    steps: int
    busy: float
    waited: float
    told: int
    group: ProcessGroup
    lost: int

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
            raise TypeError(f"{_NAME}: model must be a Module, got {kind_name(model)}")
        self.model, self.optimizer = model, optimizer
        self.group = self._first_group = member(process_group, _NAME)
        self.shards: int = checked_shards(_NAME, shards, self.group.size())
        self.steps = self.lost = 0
        self.waited = self.busy = 0.0
        self.tell: Callable[[], int] = lambda: -1
        self.told = -1
        self._carried = CarriedBuffers(model, carried) if carried else None
        broadcast_initial_state(_NAME, self.group, model)
        drawn = int(default_generator.integers(2**62)) if seed is None else checked_seed(_NAME, seed)
        self.seed: Any = from_root(self.group, drawn, 0, f"{_NAME}: the seed")
        self._trained: list[Tensor] = []
        self._reducers: tuple[Reducer, Reducer | None] | None = None
        self._reducers_key: Any = None  # shapes, dtypes and parameters of the reducers
        self._channels: tuple[Channel, Channel] | None = None

    @property
    def is_first(self) -> bool:
        """Whether this process is the first surviving one, which should print and write files."""
        return self.group.rank() == 0

    def step(
        self,
        batch: ShardedBatch,
        loss: Callable[..., Any],
        before: Callable[[np.ndarray], object] | None = None,
    ) -> np.ndarray:
        """Run one training step. Returns a row for each shard: its loss, then further numbers that ``loss`` returned.

        loss: called with ``batch[shard]``; returns the mean loss of the shard's samples, a Tensor of one element, alone
            or in a tuple with further numbers, whose count is always the same.
        batch: the global batch.
        before: called with these rows just before the optimizer's step, when ``grad`` has the gradients of the whole
            batch.

        Raises:
            DistNetworkError: a process did not come in time. WorkerLostError: a process has died, and this MPI cannot
            continue without it, or its part of the optimizer's state is lost (ZeroRedundancyOptimizer). Any error that
            ``loss`` raises, which ends the job unless it is caught; after a MemoryError the other processes continue as
            after a death.
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
        """Call ``work(group)`` in all processes, and return this process's result.

        If processes die meanwhile, the others call ``undo()`` and repeat ``work`` in a group without them.

        Raises:
            DistNetworkError: a process did not come in time. WorkerLostError: a process has died, and this MPI cannot
            continue without it. Any error that ``work`` raises.
        """
        while True:
            try:
                result, done = work(self.group), True
            except WorkerLostError:
                done = False
                if not self.group.recoverable:
                    raise
            if self._all_done(done):
                return result
            if undo is not None:
                undo()
            self._exclude_dead()

    def save(self, state_dict: Mapping[str, Any], checkpoint_id: str | os.PathLike[str]) -> None:
        """Call ``checkpoint.save`` in all processes. If some die meanwhile, the others write the checkpoint.

        Raises:
            As checkpoint.save, and ``together``.
        """
        self.together(lambda group: checkpoints.save(state_dict, checkpoint_id=checkpoint_id, process_group=group))

    # ---- One attempt of a step -----------------------------------------------------------------------------------

    _average: BufferAverage | None = None

    def _attempt_all(self, batch: ShardedBatch, loss: Callable[..., Any]) -> tuple[list[np.ndarray | None], np.ndarray]:
        """Attempt a step, including the exchange of carried buffers."""
        if self._carried is None:
            return self._attempt(batch, loss)
        found = self._attempt(*self._carried.around(batch, loss))
        self.waited += self._carried.exchange(self.group, self.shards, BUCKET_BYTES, self.steps)
        return found

    def _attempt(self, batch: ShardedBatch, loss: Callable[..., Any]) -> tuple[list[np.ndarray | None], np.ndarray]:
        if len(batch) != self.shards:
            raise ValueError(f"{_NAME}: the batch has {len(batch)} shards, expected {self.shards}, as the trainer has")
        state = collect_state(self.model)
        averaged = pack(state.averaged)
        reducer, buffer_reducer = self._get_reducers(state.trained, floats_of(averaged))
        before = reducer.waited + (buffer_reducer.waited if buffer_reducer else 0.0)
        self._average = BufferAverage(averaged, state.identical, buffer_reducer, self.shards, self.steps)
        reducer.start(1.0, self.steps)
        rows = self._over_shards(reducer, batch, loss, state.has_sync_batch_norm)
        totals = reducer.finish()
        self._average.wait()
        numbers = self._gather_losses(reducer.own, rows)
        if not batch.sizes.all():
            self.waited += self._average.share_counters(self.group)
        self.waited += reducer.waited + (buffer_reducer.waited if buffer_reducer else 0.0) - before
        return totals, numbers

    def _over_shards(
        self, reducer: Reducer, batch: ShardedBatch, loss: Callable[..., Any], interleaved: bool
    ) -> list[list[float]]:
        """Add the gradients of this process's shards to the reducer, and return each shard's loss and further numbers.

        interleaved: the shards exchange totals while they run.
        """
        if interleaved:
            self._check_samples(batch)

        def one(shard: int) -> list[float]:
            def take(position: int, gradient: np.ndarray, owned: bool) -> None:
                reducer.add(shard, position, gradient, owned)
                if not interleaved:
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
            self.group, self.shards, jobs, numbers, self._average, interleaved, self._first_group, reducer.advance
        )
        return [rows.get(shard, []) for shard in reducer.own]

    def _shard(
        self,
        shard: int,
        batch: ShardedBatch,
        loss: Callable[..., Any],
        take: Callable[[int, np.ndarray, bool], object],
    ) -> list[float]:
        """Return the loss and further numbers of one shard; `take` gets the gradients of its parameters."""
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
        grad_when_ready([value], self._trained, [upstream], lambda position, g, owned: take(position, g.array, owned))
        return row

    def _check_samples(self, batch: ShardedBatch) -> None:
        """Check that each process has a sample, as SyncBatchNorm requires."""
        for rank in range(self.group.size()):
            own = shard_range(self.shards, self.group.size(), rank)
            if not batch.sizes[own.start : own.stop].any():
                raise ValueError(
                    f"{_NAME}: a batch of {batch.samples} samples in {self.shards} shards leaves none to process "
                    f"{rank}, and SyncBatchNorm needs one in each; pass drop_last=True to the loader, or larger batches"
                )

    def _gather_losses(self, own: range, rows: Sequence[list[float]]) -> np.ndarray:
        """Gather the loss and further numbers of all shards in every process; NaN for a shard without samples."""
        group = self.group
        width = max((len(row) for row in rows), default=0)
        found = np.array([width, self.tell()])
        if group.comm is not None:
            entered = describe_call(group.count, f"{_NAME}: the losses")
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
        """Deliver the gradients as a backward does, in place of those of the last step."""
        entries: list[Any] = []
        for position, parameter in enumerate(self._trained):
            parameter.grad = None
            total, totals[position] = totals[position], None  # drop the list's reference, so that it need not be copied
            if total is not None:
                entries.append([parameter, wrap(total), True])
            total = None
        run_leaf_hooks(entries)
        deliver(entries, False)
        run_post_hooks(entries)

    def _get_reducers(self, trained: list[Tensor], floats: list[np.ndarray]) -> tuple[Reducer, Reducer | None]:
        specs = [[(each.shape, each.dtype) for each in arrays] for arrays in ([p.array for p in trained], floats)]
        now = specs, [*map(id, trained)]
        if self._reducers is None or now != self._reducers_key:
            if not trained:
                raise ValueError(f"{_NAME}: model has no parameter that requires a gradient")
            self._trained, self._reducers_key = trained, now
            if self._channels is None:
                gradients, buffers = (f"{_NAME}: the {what}" for what in ("gradients", "buffers"))
                self._channels = Channel(self.group, gradients), Channel(self.group, buffers)
            arrays = [parameter.array for parameter in trained]
            self._reducers = (
                Reducer(self._channels[0], arrays, self.shards, BUCKET_BYTES),
                Reducer(self._channels[1], floats, self.shards, BUCKET_BYTES) if floats else None,
            )
        return self._reducers

    # ---- Recovery after a process has died -----------------------------------------------------------------------

    def _all_done(self, done: bool) -> bool:
        """Return whether all processes have done the step; all surviving processes get the same answer."""
        if not done:
            self.group.revoke()
        return self.group.all_agree(done)

    def _undo_buffers(self) -> None:
        if self._average is not None:
            self._average.undo()
            self._average = None

    def _exclude_dead(self) -> None:
        if isinstance(self.optimizer, ZeroRedundancyOptimizer):
            raise WorkerLostError(
                f"{_NAME}: a process has died, and its part of the optimizer's state is lost, because "
                "ZeroRedundancyOptimizer partitions the state; start again from the last checkpoint (retrograd launch "
                "--max-restarts), or use the plain optimizer, with which the others continue"
            )
        before = self.group
        self.group = before.surviving_group()
        replace_world(before, self.group)
        self.lost += before.size() - self.group.size()
        self._reducers = self._channels = None
