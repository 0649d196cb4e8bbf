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
from .batch_shards import bounds, hidden, in_turn, random_state_kept, random_state_of, replaced, tensors_in
from .module_state import BufferAverage, parts_of
from .process_group import ProcessGroup, for_each_of

if TYPE_CHECKING:
    from .data_parallel import DistributedDataParallel


# ---- Per-shard state: random numbers and buffers --------------------------------------------------------------------

T = TypeVar("T")


def run_shards(
    group: ProcessGroup,
    shards: int,
    jobs: Mapping[int, Callable[[], T] | None],
    numbers: tuple[int, ...],
    average: BufferAverage | None,
    together: bool,
    first_group: ProcessGroup | None = None,
    between: Callable[[], object] = lambda: None,
) -> dict[int, T]:
    """Run the jobs of this process's shards and return their results. The job of a shard without samples is None.

    Each shard has its own random numbers, determined by `numbers` (a seed and numbers that distinguish steps), and
    begins with the buffers' values from before the batch. `average` takes its changes of the buffers and restores those
    values.

    together: the shards need numbers of each other. first_group: the group before processes died. between: called
    when all shards have reached a place where they need them.

    Raises:
        Any error that a job raises, and the errors of ``in_turn``; the buffers are then restored.
    """
    live = {shard: job for shard, job in jobs.items() if job is not None}
    found: dict[int, T] = {}
    try:
        if together:
            states = {shard: _State((*numbers, shard), average) for shard in live}
            found = in_turn(group, shards, live, lambda shard: states[shard].here(), first_group, between)
            if average is not None:
                for shard in jobs:
                    average.give(states[shard].buffers if shard in states else None)
                    average.take(shard)
        else:
            with random_state_kept():
                for shard in jobs:
                    if shard in live:
                        default_generator.bit_generator.state = random_state_of(*numbers, shard)
                        found[shard] = live[shard]()
                    if average is not None:
                        average.take(shard)
    except BaseException:
        if average is not None:
            average.undo()
        raise
    return found


class _State:
    """The state of a shard, kept while another one runs."""

    def __init__(self, numbers: tuple[int, ...], average: BufferAverage | None) -> None:
        self._average = average
        self.buffers: list[np.ndarray] | None = None
        self._random = random_state_of(*numbers)

    @contextmanager
    def here(self) -> Iterator[None]:
        """Within the block, restore the state that the shard left."""
        outside = default_generator.bit_generator.state
        default_generator.bit_generator.state = self._random
        if self._average is not None:
            self._average.give(self.buffers)
        try:
            yield
        finally:
            self._random, default_generator.bit_generator.state = default_generator.bit_generator.state, outside
            if self._average is not None:
                self.buffers = self._average.copies()


# ---- A module on each shard of the batch, as one node of the graph --------------------------------------------------

Take = Callable[[int, np.ndarray, bool], object]  # a parameter's position, its gradient, whether nobody else uses it

_NAME = "DistributedDataParallel"
_BACKWARD = 1  # gives a backward other random numbers than its forward


class Run:
    """One call of the module on each shard."""

    arguments: tuple[list[Any], Any]
    parallel: DistributedDataParallel
    orders: tuple[int, int]

    def __init__(self, parallel: DistributedDataParallel, inputs: Any, kwargs: Any) -> None:
        self.parallel, self.arguments = parallel, (list(inputs), kwargs)
        self._parts = parts_of(parallel.module)
        self.reducer = parallel.reducer(self._parts)
        self.trained: list[Tensor] = parallel.trained  # for this run, even if some are frozen before its backward
        self.own: range = self.reducer.own
        self.given: list[Tensor] = tensors_in(self.arguments)
        self.step: int = parallel.steps
        self.structure: Any = None
        self.leaves: list[list[Tensor]] = []  # the inputs of each shard
        self.outputs: list[list[Tensor] | None] = []  # the outputs of each shard; None once they are used up
        self.orders = (0, 0)  # the orders of the module's graph nodes are between these
        self._most = -(-parallel.shards // parallel.process_group.size())  # most shards of any process
        self._cuts = self._bounds()
        self._sizes = [1] if self._cuts is None else np.diff(self._cuts).tolist()
        # places of the shards that have samples; the last shard always has some
        self._live = [place for place, size in enumerate(self._sizes) if size]
        if self._most > 1 and (name := hidden(self.arguments)):
            raise TypeError(
                f"{_NAME}: an input is {name}, whose tensors would not be cut into shards; pass tensors, or lists, "
                "tuples, dicts or dataclasses of them, or pass reproducible=False"
            )

    def _bounds(self) -> list[int] | None:
        """Return the bounds of the shards in this process's samples; None for a single shard."""
        count = len(self.own)
        if count == 1:
            return None
        samples = {tensor.array.shape[0] if tensor.array.ndim else 0 for tensor in self.given}
        if len(samples) != 1 or not min(samples):
            raise ValueError(
                f"{_NAME}: the inputs have first axes of {sorted(samples)}; each must be the batch, of at least one "
                "sample, which is cut into shards; or pass reproducible=False"
            )
        return bounds(samples.pop(), count)

    # ---- Forward -------------------------------------------------------------------------------------------------

    def forward(self) -> tuple[Tensor, ...]:
        """Return the outputs of all shards together."""
        parallel = self.parallel
        average = parallel.average(self._parts)
        self.leaves = [[self._piece(tensor, place) for tensor in self.given] for place in range(len(self.own))]
        jobs = {shard: partial(self._call, k) if k in self._live else None for k, shard in enumerate(self.own)}
        youngest = next_order()
        results = self._over_shards(jobs, (), average)
        self.orders = (next_order(), youngest)
        parallel.keep_average(average)
        self.structure = results[self.own.stop - 1]
        outputs = [tensors_in(results.get(shard)) for shard in self.own]
        self.outputs = [*outputs]
        live = [outputs[place] for place in self._live]
        return tuple(self._joined([each[k] for each in live]) for k in range(len(live[0])))

    def _over_shards(
        self,
        jobs: Mapping[int, Callable[[], T] | None],
        key: tuple[int, ...],
        average: BufferAverage | None,
        between: Callable[[], object] = lambda: None,
    ) -> dict[int, T]:
        """Run the jobs, each with its own random numbers, of the step, `key` and the shard; return the results."""
        parallel = self.parallel
        numbers = (parallel.seed, self.step, *key)
        group, shards = parallel.process_group, parallel.shards
        return run_shards(group, shards, jobs, numbers, average, self._parts.meets, between=between)

    def _call(self, place: int) -> Any:
        args, kwargs = replaced(self.arguments, iter(self.leaves[place]))
        with for_each_of(self._most):
            result = self.parallel.module(*args, **kwargs)
        if name := hidden(result):
            raise TypeError(
                f"{_NAME}: the module returns {name}, in which the gradients of its tensors would be lost; return "
                "tensors, or lists, tuples, dicts or dataclasses of them"
            )
        return result

    def _piece(self, tensor: Tensor, place: int) -> Tensor:
        cuts = self._cuts
        piece = wrap(tensor.array if cuts is None else tensor.array[cuts[place] : cuts[place + 1]])
        if tensor._requires_grad and is_grad_enabled():
            piece.requires_grad = True
        return piece

    def _joined(self, parts: list[Tensor]) -> Tensor:
        if self._cuts is None:
            return wrap(parts[0].array)
        lengths = [part.array.shape[0] if part.array.ndim else -1 for part in parts]
        sizes = [self._sizes[place] for place in self._live]
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
        """Return the gradients of the inputs, then those of the parameters over all processes, zeros within no_sync.

        Raises:
            RuntimeError: the backward would have to be differentiated, or was run before without retain_graph; or a
            gradient reached the module's graph other than through its results.
        """
        parallel = self.parallel
        self._check()
        sync = parallel.require_backward_grad_sync
        inputs = self._exchanged(grads) if sync else self._kept(grads)
        if not is_graph_retained():
            self.outputs = [None] * len(self.own)
        parallel.finish_average()
        totals = self.reducer.finish() if sync else parallel.unsynced.end()
        whole = iter([self._whole([each[k] for each in inputs], k) for k in range(len(inputs[0]))])
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

    def _exchanged(self, grads: Sequence[Tensor | None]) -> list[list[Tensor | None]]:
        """Return the gradients of the inputs, shard by shard; those of the parameters go to the reducer."""
        parallel, reducer = self.parallel, self.reducer
        if parallel.uneven is not None:
            parallel.uneven.backward(self.step)
        waiting = parallel.unsynced.taken(self.trained)  # place -> position -> gradient waiting since no_sync
        reducer.start(1.0, self.step)

        def take(place: int, position: int, gradient: np.ndarray, alone: bool) -> None:
            before = waiting[place].pop(position, None) if place in waiting else None
            if before is not None:
                gradient, alone = before + gradient, True
            reducer.add(self.own[place], position, gradient, alone)
            if not self._parts.meets:
                reducer.advance()

        def end(place: int) -> None:
            for position, gradient in waiting.get(place, {}).items():  # parameters that are not used this time
                reducer.add(self.own[place], position, gradient)
            reducer.end(self.own[place])

        return self._swept(grads, take, end, reducer.advance)

    def _kept(self, grads: Sequence[Tensor | None]) -> list[list[Tensor | None]]:
        """Return the gradients of the inputs, shard by shard; those of the parameters wait for the next exchange."""
        unsynced = self.parallel.unsynced
        unsynced.begin(self.trained, self.parallel.weight)
        return self._swept(grads, unsynced.add, lambda place: None, lambda: None)

    def _swept(
        self,
        grads: Sequence[Tensor | None],
        take: Callable[[int, int, np.ndarray, bool], object],
        end: Callable[[int], object],
        between: Callable[[], object],
    ) -> list[list[Tensor | None]]:
        """Run the backward of each shard.

        `take` gets the shard's place, the position of a parameter, its gradient, and whether nobody else uses that;
        `end` gets the place. between: called when shards that need each other's numbers have met.
        """

        def job(place: int) -> list[Tensor | None]:
            found = self._sweep(place, grads, partial(take, place))
            end(place)
            return found

        for place in range(len(self.own)):
            if place not in self._live:
                end(place)
        jobs = {shard: partial(job, k) if k in self._live else None for k, shard in enumerate(self.own)}
        found = self._over_shards(jobs, (_BACKWARD,), None, between)
        nothing: list[Tensor | None] = [None for leaf in self.leaves[0] if leaf._requires_grad]
        return [found.get(shard, nothing) for shard in self.own]

    def _sweep(self, place: int, grads: Sequence[Tensor | None], take: Take) -> list[Tensor | None]:
        """Return the gradients of the inputs of one shard; `take` gets those of the parameters."""
        leaves = [leaf for leaf in self.leaves[place] if leaf._requires_grad]
        found: list[Tensor | None] = [None] * len(leaves)

        def each(position: int, g: Tensor, alone: bool) -> None:
            if position < len(found):
                found[position] = g
            else:
                take(position - len(found), g.array, alone)

        roots, upstream = self._roots(place, grads)
        if roots:
            with for_each_of(self._most):
                grad_when_ready(roots, [*leaves, *self.trained], upstream, each, is_graph_retained())
        return found

    def _roots(self, place: int, grads: Sequence[Tensor | None]) -> tuple[list[Tensor], list[Tensor]]:
        """Return the outputs of one shard that have a gradient, and the gradients."""
        roots, upstream = [], []
        outputs = self.outputs[place]
        assert outputs is not None
        for output, g in zip(outputs, grads, strict=True):
            if g is None or not output._requires_grad:
                continue
            array = g.array
            if self._cuts is not None:
                samples = slice(self._cuts[place], self._cuts[place + 1])
                share = array.dtype.type(self._cuts[-1] / self._sizes[place])
                array = array[samples] if array.ndim else array / share
            # weight as part of the whole batch's loss, so that a nonlinear backward is the same for any number of parts
            roots.append(output)
            upstream.append(wrap(np.asarray(array * output.array.dtype.type(self.parallel.weight))))
        return roots, upstream

    def _whole(self, parts: list[Tensor | None], position: int) -> Tensor:
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
