"""Forward and backward of a module on each shard, with random numbers and buffers per shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..engine.aliasing import next_order
from ..engine.backward_pass import grad_when_ready
from ..engine.function import Function
from ..engine.grad_mode import enable_grad, is_grad_enabled, is_graph_retained, pending_orders
from ..engine.tensor import Tensor, wrap
from ..ops.random.random import default_generator
from .batch_shards import (
    bounds,
    preserve_random_state,
    random_state_of,
    replace_tensors,
    run_interleaved,
    tensors_in,
    type_hiding_tensors,
)
from .module_state import BufferAverage, collect_state
from .process_group import ProcessGroup, inside_shard

if TYPE_CHECKING:
    from .data_parallel import DistributedDataParallel
    from .reducer import Reducer


# ---- Per-shard state: random numbers and buffers --------------------------------------------------------------------

T = TypeVar("T")


def run_shards(
    group: ProcessGroup,
    shards: int,
    jobs: Mapping[int, Callable[[], T] | None],
    numbers: tuple[int, ...],
    average: BufferAverage | None,
    interleaved: bool,
    first_group: ProcessGroup | None = None,
    at_sync_point: Callable[[], object] = lambda: None,
) -> dict[int, T]:
    """Run the jobs of this process's shards and return their results, by shard.

    Each shard has its own random numbers, and begins with the buffers' values from before the batch.

    jobs: shard -> its job; None for a shard without samples.
    numbers: a seed and numbers that distinguish steps; they determine the random numbers.
    average: records the changes that a shard makes to buffers, and restores the old values.
    interleaved: the shards exchange totals while they run, so they must alternate (see ``run_interleaved``).
    first_group: the group before any process died.
    at_sync_point: called when all shards wait for a total.

    Raises:
        Any error that a job raises, and the errors of ``run_interleaved``; the buffers are then restored.
    """
    nonempty = {shard: job for shard, job in jobs.items() if job is not None}
    found: dict[int, T] = {}
    try:
        if interleaved:
            states = {shard: _ShardState((*numbers, shard), average) for shard in nonempty}
            found = run_interleaved(
                group, shards, nonempty, lambda shard: states[shard].active(), first_group, at_sync_point
            )
            if average is not None:
                for shard in jobs:
                    average.restore(states[shard].buffers if shard in states else None)
                    average.take(shard)
        else:
            with preserve_random_state():
                for shard in jobs:
                    if shard in nonempty:
                        default_generator.bit_generator.state = random_state_of(*numbers, shard)
                        found[shard] = nonempty[shard]()
                    if average is not None:
                        average.take(shard)
    except BaseException:
        if average is not None:
            average.undo()
        raise
    return found


class _ShardState:
    """The random state and the buffers of a shard, saved while another shard runs."""

    def __init__(self, numbers: tuple[int, ...], average: BufferAverage | None) -> None:
        self._average = average
        self.buffers: list[np.ndarray] | None = None
        self._random = random_state_of(*numbers)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within the block, install this shard's state; afterwards save it and restore the caller's random state."""
        caller_state = default_generator.bit_generator.state
        default_generator.bit_generator.state = self._random
        if self._average is not None:
            self._average.restore(self.buffers)
        try:
            yield
        finally:
            self._random, default_generator.bit_generator.state = default_generator.bit_generator.state, caller_state
            if self._average is not None:
                self.buffers = self._average.copies()


# ---- A module on each shard of the batch, as one node of the graph --------------------------------------------------

# receives a parameter's position, its gradient, and whether the gradient's memory is not shared
Take = Callable[[int, np.ndarray, bool], object]

_NAME = "DistributedDataParallel"
_BACKWARD = 1  # part of the random seed, so that backward draws other numbers than forward


class Run:
    """One call of the module on each shard."""

    arguments: tuple[list[Any], Any]
    parallel: DistributedDataParallel
    orders: tuple[int, int]

    def __init__(self, parallel: DistributedDataParallel, inputs: Any, kwargs: Any) -> None:
        self.parallel, self.arguments = parallel, (list(inputs), kwargs)
        self._module_state = collect_state(parallel.module)
        self.reducer: Reducer = parallel.reducer(self._module_state)
        self.trained: list[Tensor] = parallel.trained  # as of this forward, even if some are frozen before its backward
        self.own: range = self.reducer.own
        self.input_tensors: list[Tensor] = tensors_in(self.arguments)
        self.step: int = parallel.steps
        self.structure: Any = None
        self.leaves: list[list[Tensor]] = []  # the input tensors of each shard
        self.outputs: list[list[Tensor] | None] = []  # the outputs of each shard; None after a backward has freed them
        self.orders = (0, 0)  # the graph nodes of the module have orders between these two
        self._max_shards = -(-parallel.shards // parallel.process_group.size())  # of a process
        self._cuts = self._bounds()
        self._sizes = [1] if self._cuts is None else np.diff(self._cuts).tolist()
        # the local shards that have samples; the last one always has some
        self._nonempty = [local_shard for local_shard, size in enumerate(self._sizes) if size]
        if self._max_shards > 1 and (name := type_hiding_tensors(self.arguments)):
            raise TypeError(
                f"{_NAME}: an input is {name}, whose tensors would not be cut into shards; pass tensors, or lists, "
                "tuples, dicts or dataclasses of them, or pass reproducible=False"
            )

    def _bounds(self) -> list[int] | None:
        """Return the bounds of the shards in this process's samples; None for a single shard."""
        count = len(self.own)
        if count == 1:
            return None
        samples = {tensor.array.shape[0] if tensor.array.ndim else 0 for tensor in self.input_tensors}
        if len(samples) != 1 or not min(samples):
            raise ValueError(
                f"{_NAME}: the inputs have first axes of {sorted(samples)}; each must be the batch, of at least one "
                "sample, which is cut into shards; or pass reproducible=False"
            )
        return bounds(samples.pop(), count)

    # ---- Forward -------------------------------------------------------------------------------------------------

    def forward(self) -> tuple[Tensor, ...]:
        """Return the concatenated outputs of all shards."""
        parallel = self.parallel
        average = parallel.average(self._module_state)
        self.leaves = [
            [self._piece(tensor, local_shard) for tensor in self.input_tensors] for local_shard in range(len(self.own))
        ]
        jobs = {shard: partial(self._call, k) if k in self._nonempty else None for k, shard in enumerate(self.own)}
        youngest = next_order()
        results = self._over_shards(jobs, (), average)
        self.orders = (next_order(), youngest)
        parallel.keep_average(average)
        self.structure = results[self.own.stop - 1]
        outputs = [tensors_in(results.get(shard)) for shard in self.own]
        self.outputs = [*outputs]
        nonempty = [outputs[local_shard] for local_shard in self._nonempty]
        return tuple(self._concatenated([each[k] for each in nonempty]) for k in range(len(nonempty[0])))

    def _over_shards(
        self,
        jobs: Mapping[int, Callable[[], T] | None],
        key: tuple[int, ...],
        average: BufferAverage | None,
        at_sync_point: Callable[[], object] = lambda: None,
    ) -> dict[int, T]:
        """Run the jobs and return their results. Random numbers depend on the seed, the step, `key` and the shard."""
        parallel = self.parallel
        numbers = (parallel.seed, self.step, *key)
        group, shards = parallel.process_group, parallel.shards
        return run_shards(
            group, shards, jobs, numbers, average, self._module_state.has_sync_batch_norm, at_sync_point=at_sync_point
        )

    def _call(self, local_shard: int) -> Any:
        args, kwargs = replace_tensors(self.arguments, iter(self.leaves[local_shard]))
        with inside_shard(self._max_shards):
            result = self.parallel.module(*args, **kwargs)
        if name := type_hiding_tensors(result):
            raise TypeError(
                f"{_NAME}: the module returns {name}, in which the gradients of its tensors would be lost; return "
                "tensors, or lists, tuples, dicts or dataclasses of them"
            )
        return result

    def _piece(self, tensor: Tensor, local_shard: int) -> Tensor:
        cuts = self._cuts
        piece = wrap(tensor.array if cuts is None else tensor.array[cuts[local_shard] : cuts[local_shard + 1]])
        if tensor._requires_grad and is_grad_enabled():
            piece.requires_grad = True
        return piece

    def _concatenated(self, parts: list[Tensor]) -> Tensor:
        if self._cuts is None:
            return wrap(parts[0].array)
        lengths = [part.array.shape[0] if part.array.ndim else -1 for part in parts]
        sizes = [self._sizes[local_shard] for local_shard in self._nonempty]
        if lengths == [-1] * len(parts):
            arrays, dtype = [part.array for part in parts], parts[0].array.dtype
            mean = np.mean(arrays, dtype=dtype) if len(set(sizes)) == 1 else np.average(arrays, weights=sizes)
            return wrap(np.asarray(mean, dtype))
        if lengths != sizes:
            raise ValueError(
                f"{_NAME}: the module's results for shards of {sizes} samples have first axes of {lengths}; return "
                "results with the batch first, or means; or pass reproducible=False"
            )
        return wrap(np.concatenate([part.array for part in parts]))

    # ---- Backward ------------------------------------------------------------------------------------------------

    def backward(self, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Return the gradients of the inputs, then those of the parameters, summed over processes unless in no_sync.

        Raises:
            RuntimeError: create_graph is set, the graph was freed by an earlier backward, or the loss uses a tensor of
            the module's forward that is not among its results.
        """
        parallel = self.parallel
        self._check()
        sync = parallel.require_backward_grad_sync
        inputs = self._backward_with_exchange(grads) if sync else self._backward_without_exchange(grads)
        if not is_graph_retained():
            self.outputs = [None] * len(self.own)
        parallel.finish_average()
        totals = self.reducer.finish() if sync else parallel.unsynced.end()
        whole = iter([self._concatenated_gradient([each[k] for each in inputs], k) for k in range(len(inputs[0]))])
        of_inputs = [next(whole) if leaf._requires_grad else None for leaf in self.leaves[0]]
        return [*of_inputs, *(None if total is None else wrap(total) for total in totals)]

    def _check(self) -> None:
        if is_grad_enabled():
            raise RuntimeError(
                f"{_NAME}: create_graph=True: a gradient that processes have exchanged cannot be differentiated again; "
                "compute the penalty in the module's forward, by autograd.grad, or in the loss of ShardedTrainer"
            )
        if None in self.outputs:
            raise RuntimeError(
                f"{_NAME}: its graph was freed by an earlier backward; pass retain_graph=True to the first backward, "
                "or call the model again"
            )
        first, last = self.orders
        if any(first < order < last for order in pending_orders()):
            raise RuntimeError(
                f"{_NAME}: the loss uses a tensor that was made in the module's forward and is not among its results, "
                "such as an attribute; it would have the gradient of one shard alone: return it from forward"
            )

    def _backward_with_exchange(self, grads: Sequence[Tensor | None]) -> list[list[Tensor | None]]:
        """Return the gradients of the inputs for each shard, and pass those of the parameters to the reducer."""
        parallel, reducer = self.parallel, self.reducer
        if parallel.uneven is not None:
            parallel.uneven.backward(self.step)
        waiting = parallel.unsynced.take(self.trained)  # local shard -> position -> gradient accumulated in no_sync
        reducer.start(1.0, self.step)

        def take(local_shard: int, position: int, gradient: np.ndarray, owned: bool) -> None:
            before = waiting[local_shard].pop(position, None) if local_shard in waiting else None
            if before is not None:
                gradient, owned = before + gradient, True
            reducer.add(self.own[local_shard], position, gradient, owned)
            if not self._module_state.has_sync_batch_norm:
                reducer.advance()

        def end(local_shard: int) -> None:
            for position, gradient in waiting.get(local_shard, {}).items():  # parameters that are unused this time
                reducer.add(self.own[local_shard], position, gradient)
            reducer.end(self.own[local_shard])

        return self._backward_shards(grads, take, end, reducer.advance)

    def _backward_without_exchange(self, grads: Sequence[Tensor | None]) -> list[list[Tensor | None]]:
        """Return the gradients of the inputs for each shard, and accumulate those of the parameters."""
        unsynced = self.parallel.unsynced
        unsynced.begin(self.trained, self.parallel.weight)
        return self._backward_shards(grads, unsynced.add, lambda local_shard: None, lambda: None)

    def _backward_shards(
        self,
        grads: Sequence[Tensor | None],
        take: Callable[[int, int, np.ndarray, bool], object],
        end: Callable[[int], object],
        at_sync_point: Callable[[], object],
    ) -> list[list[Tensor | None]]:
        """Run the backward of each shard.

        take: gets the local shard, the position of a parameter, its gradient, and whether the gradient's memory is not
            shared.
        end: gets the local shard once its backward is done.
        at_sync_point: called when all shards wait for a total.
        """

        def job(local_shard: int) -> list[Tensor | None]:
            found = self._backward_shard(local_shard, grads, partial(take, local_shard))
            end(local_shard)
            return found

        for local_shard in range(len(self.own)):
            if local_shard not in self._nonempty:
                end(local_shard)
        jobs = {shard: partial(job, k) if k in self._nonempty else None for k, shard in enumerate(self.own)}
        found = self._over_shards(jobs, (_BACKWARD,), None, at_sync_point)
        nothing: list[Tensor | None] = [None for leaf in self.leaves[0] if leaf._requires_grad]
        return [found.get(shard, nothing) for shard in self.own]

    def _backward_shard(self, local_shard: int, grads: Sequence[Tensor | None], take: Take) -> list[Tensor | None]:
        """Run the backward of one shard. Returns the gradients of its inputs; `take` gets those of the parameters."""
        leaves = [leaf for leaf in self.leaves[local_shard] if leaf._requires_grad]
        found: list[Tensor | None] = [None] * len(leaves)

        def each(position: int, g: Tensor, owned: bool) -> None:
            if position < len(found):
                found[position] = g
            else:
                take(position - len(found), g.array, owned)

        roots, upstream = self._roots(local_shard, grads)
        if roots:
            with inside_shard(self._max_shards):
                grad_when_ready(roots, [*leaves, *self.trained], upstream, each, is_graph_retained())
        return found

    def _roots(self, local_shard: int, grads: Sequence[Tensor | None]) -> tuple[list[Tensor], list[Tensor]]:
        """Return the outputs of one shard that get a gradient, and these gradients."""
        roots, upstream = [], []
        outputs = self.outputs[local_shard]
        assert outputs is not None
        for output, g in zip(outputs, grads, strict=True):
            if g is None or not output._requires_grad:
                continue
            array = g.array
            if self._cuts is not None:
                samples = slice(self._cuts[local_shard], self._cuts[local_shard + 1])
                share = array.dtype.type(self._cuts[-1] / self._sizes[local_shard])
                array = array[samples] if array.ndim else array / share
            # scale to the gradient of the global loss, so that nonlinear backwards do not depend on the parts
            roots.append(output)
            upstream.append(wrap(np.asarray(array * output.array.dtype.type(self.parallel.weight))))
        return roots, upstream

    def _concatenated_gradient(self, parts: list[Tensor | None], position: int) -> Tensor:
        leaves = [[leaf for leaf in each if leaf._requires_grad][position] for each in self.leaves]
        arrays = [
            np.zeros_like(leaf.array) if part is None else part.array for part, leaf in zip(parts, leaves, strict=True)
        ]
        whole = arrays[0] if self._cuts is None else np.concatenate(arrays)
        return wrap(whole if self.parallel.weight == 1 else whole * whole.dtype.type(1 / self.parallel.weight))


class OverShards(Function):
    """The module on all shards, as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, run: Run, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.run = run
        ctx.set_materialize_grads(False)
        if not any(ctx.needs_input_grad):
            return run.forward()
        with enable_grad():
            results = run.forward()
        shards = [outputs for outputs in run.outputs if outputs]
        needs = [any(outputs[k]._requires_grad for outputs in shards) for k in range(len(results))]
        ctx.mark_non_differentiable(*[result for result, need in zip(results, needs, strict=True) if not need])
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, *ctx.run.backward(grads)
