"""DistributedDataParallel: a model whose gradients are those of the batches of all processes together.

The part of the batch that a process has is cut into shards. The module runs on each shard alone, with random numbers
that depend on the step and the shard, and the gradients of all shards are added in a fixed tree (tree.py). So the
weights are the same bits with any number of processes that has whole shards.

Source: S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.grad_mode import enable_grad, is_grad_enabled
from ..engine.sweep import grad_early
from ..engine.tensor import Tensor, wrap
from ..nn.module import Module
from ..ops.arguments.checks import as_flag
from ..ops.random.random import default_generator
from .buffer_average import BufferAverage, is_float
from .errors import DistError
from .objects import exchange_objects, from_root
from .process_group import ProcessGroup, member
from .reducer import Reducer
from .shards import bounds, random_numbers, replaced, tensors_in

__all__ = ["DistributedDataParallel"]

_NAME = "DistributedDataParallel"
MOST_BYTES = 4_000_000  # of a bucket


class DistributedDataParallel(Module):
    """Calls ``module`` on this process's part of the batch; after ``backward`` the gradients are the mean over all.

    All processes begin with the parameters and buffers of process 0. Gradients leave in buckets while the backward goes
    on. The loss is a mean over this process's part, and all parts are of one size.

    bucket_cap_mb: size of a bucket in MB. process_group: the processes, all of them for None.
    find_unused_parameters, gradient_as_bucket_view, static_graph: parameters that no process has used keep their
        gradient anyway, so the three change nothing. broadcast_buffers: False leaves buffers to each process.
    reproducible: add the gradients of ``shards`` shards in a fixed tree: the same bits for 1, 2, 4 … processes, up to
        the number of shards. False: each process's part is one shard and MPI adds, which is faster.
    shards: number of shards of the whole batch.

    Buffers of floating-point numbers, such as running statistics, change by the mean of their changes over the shards.

    Raises:
        TypeError: module is not a Module, or a flag is not a bool. ValueError: module has nothing to train, there are
        fewer shards than processes, bucket_cap_mb is not positive, or dim is not 0. DistError: the processes have
        other parameters.
        RuntimeError: there is no process group; device_ids or output_device names a GPU.
    """

    module: Module

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        *,
        reproducible: bool = True,
        shards: int = 8,
    ) -> None:
        super().__init__()
        if not isinstance(module, Module):
            raise TypeError(f"{_NAME}: module must be a Module, got {type(module).__name__}")
        if device_ids or output_device is not None:
            raise RuntimeError(
                f"{_NAME}: device_ids={device_ids!r}, output_device={output_device!r}: there is one device, the CPU; "
                "leave both out"
            )
        for name, flag in (
            ("find_unused_parameters", find_unused_parameters), ("gradient_as_bucket_view", gradient_as_bucket_view),
            ("static_graph", static_graph), ("init_sync", init_sync), ("check_reduction", check_reduction),
        ):  # fmt: skip
            as_flag(_NAME, name, flag)
        if dim != 0:
            raise ValueError(f"{_NAME}: dim={dim!r}: samples are along the first axis; pass 0")
        self.process_group = member(process_group, _NAME)
        self.reproducible = as_flag(_NAME, "reproducible", reproducible)
        self.broadcast_buffers = as_flag(_NAME, "broadcast_buffers", broadcast_buffers)
        size = self.process_group.size()
        self.shards = checked_shards(_NAME, shards, size) if self.reproducible else size
        if bucket_cap_mb is not None and not bucket_cap_mb > 0:
            raise ValueError(f"{_NAME}: bucket_cap_mb={bucket_cap_mb!r} must be above 0")
        self._most = MOST_BYTES if bucket_cap_mb is None else int(1e6 * bucket_cap_mb)
        self.module = module
        self.require_backward_grad_sync = True
        self._steps = 0
        self._trained: list[Tensor] = []
        self._reducer: Reducer | None = None
        self._of_buffers: Reducer | None = None
        self._unsynced: set[int] = set()  # parameters whose grad a backward without exchange has changed
        self._average: BufferAverage | None = None  # of the last forward, under way
        if init_sync:
            begin_alike(_NAME, self.process_group, module)
        self._seed = from_root(self.process_group, int(default_generator.integers(2**62)), 0, f"{_NAME}: the seed")
        if not self._parameters_to_train():
            raise ValueError(f"{_NAME}: module has no parameter that requires a gradient; use the module itself")

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        self._average_buffers()
        if not self.module.training and not is_grad_enabled():
            return self.module(*inputs, **kwargs)
        run = _Run(self, inputs, kwargs)
        trained = self._parameters_to_train() if is_grad_enabled() else []
        outputs = _OverShards.apply(run, *run.given, *trained)
        self._steps += 1
        return replaced(run.structure, iter(outputs))

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within the block, backward leaves this process's own gradients; the next one outside adds those of all.

        With reproducible=True gradients are exchanged all the same: sums of several backwards would depend on the
        number of processes otherwise.
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """Nothing but the block: all processes have the same number of batches, as a DistributedSampler gives them."""
        yield

    @property
    def waited(self) -> float:
        """Seconds that backward has waited for other processes."""
        return 0.0 if self._reducer is None else self._reducer.waited

    def train(self, mode: bool = True) -> Any:
        self._average_buffers()
        return super().train(mode)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self._average_buffers()
        return super().state_dict(*args, **kwargs)

    # ---- parameters and buffers --------------------------------------------------------------------------------

    def reducer(self) -> Reducer:
        """What adds the gradients of the parameters that are trained now."""
        trained = self._parameters_to_train()
        if self._reducer is None or [*map(id, trained)] != [*map(id, self._trained)]:
            group = self.process_group
            numbers = sum(parameter.array.size for parameter in trained)
            group.agree(f"{_NAME}: gradients of {len(trained)} parameters, {numbers} numbers")
            self._trained = trained
            arrays = [parameter.array for parameter in trained]
            self._reducer = Reducer(group, arrays, self.shards, self.reproducible, self._most)
        return self._reducer

    def average(self) -> BufferAverage | None:
        """What averages the buffers over the shards of a batch; None if there is nothing to average."""
        buffers = list(self.module.buffers()) if self.broadcast_buffers and self.module.training else []
        floats = [tensor.array for tensor in buffers if is_float(tensor)]
        if not floats:
            return None
        if self._of_buffers is None:
            self._of_buffers = Reducer(self.process_group, floats, self.shards, self.reproducible, self._most)
        return BufferAverage(buffers, self._of_buffers, self.shards)

    def with_unsynced(self, position: int, gradient: np.ndarray) -> np.ndarray:
        """The gradient with what backwards without exchange have left in ``grad``, which is taken away."""
        if position not in self._unsynced:
            return gradient
        self._unsynced.discard(position)
        parameter = self._trained[position]
        before, parameter.grad = parameter.grad, None
        return gradient if before is None else gradient + before.array

    def _parameters_to_train(self) -> list[Tensor]:
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]

    def _average_buffers(self) -> None:
        """Finish what the last forward has begun."""
        average, self._average = self._average, None
        if average is not None:
            average.wait()
            average.store()


class _Run:
    """One call of the module on each shard of this process's part of the batch."""

    def __init__(self, parallel: DistributedDataParallel, inputs: Any, kwargs: Any) -> None:
        self.parallel, self.arguments = parallel, (list(inputs), kwargs)
        self.given = tensors_in(self.arguments)
        group = parallel.process_group
        self.reducer = parallel.reducer()
        self.own = self.reducer.own
        self.step = parallel._steps
        self.structure: Any = None
        self.leaves: list[list[Tensor]] = []  # of each shard, its inputs
        self.outputs: list[list[Tensor]] = []  # of each shard
        self._cuts = self._bounds(group)

    def _bounds(self, group: ProcessGroup) -> list[int] | None:
        """Where this process's samples are cut; None for a single shard."""
        count = len(self.own)
        if count == 1:
            return None
        samples = {tensor.array.shape[0] if tensor.array.ndim else 0 for tensor in self.given}
        if len(samples) != 1 or min(samples) < count:
            raise ValueError(
                f"{_NAME}: the inputs have first axes of {sorted(samples)}; each must be the batch, of at least "
                f"{count} samples: one for each of this process's shards ({self.parallel.shards} shards, "
                f"{group.size()} processes); or pass reproducible=False"
            )
        return bounds(samples.pop(), count)

    def forward(self) -> tuple[Tensor, ...]:
        """The outputs of all shards together."""
        parallel = self.parallel
        average = parallel.average()
        for place, shard in enumerate(self.own):
            pieces = [self._piece(tensor, place) for tensor in self.given]
            args, kwargs = replaced(self.arguments, iter(pieces))
            if average is not None:
                average.before()
            with random_numbers(parallel._seed, self.step, shard):
                result = parallel.module(*args, **kwargs)
            if average is not None:
                average.after(shard)
            self.structure = result
            self.leaves.append(pieces)
            self.outputs.append(tensors_in(result))
        parallel._average = average
        return tuple(self._joined([each[k] for each in self.outputs]) for k in range(len(self.outputs[0])))

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
        if lengths == [-1] * len(parts):
            return wrap(np.asarray(np.mean([part.array for part in parts], dtype=parts[0].array.dtype)))
        if lengths != np.diff(self._cuts).tolist():
            raise ValueError(
                f"{_NAME}: the module's results for shards of {np.diff(self._cuts).tolist()} samples have first "
                f"axes of {lengths}; return results with the batch first, or means; or pass reproducible=False"
            )
        return wrap(np.concatenate([part.array for part in parts]))

    def backward(self, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
        """The gradients of the inputs, then those of the parameters over all processes."""
        parallel, reducer = self.parallel, self.reducer
        trained = parallel._trained
        sync = parallel.require_backward_grad_sync or parallel.reproducible
        to_inputs: list[list[Tensor | None]] = []
        local: list[np.ndarray | None] = [None] * len(trained)
        reducer.start(1 / parallel.process_group.size())
        for place, shard in enumerate(self.own):
            leaves = [leaf for leaf in self.leaves[place] if leaf._requires_grad]
            found: list[Tensor | None] = [None] * len(leaves)

            def each(position: int, g: Tensor, found: list[Any] = found) -> None:
                if position < len(found):
                    found[position] = g
                elif sync:
                    reducer.add(position - len(found), parallel.with_unsynced(position - len(found), g.array))
                else:
                    local[position - len(found)] = g.array

            if sync:
                reducer.begin(shard)
            roots, upstream = self._roots(place, grads)
            if roots:
                grad_early(roots, [*leaves, *trained], upstream, each)
            if sync:
                for position in sorted(parallel._unsynced):
                    if trained[position].grad is not None:
                        zeros = np.zeros_like(trained[position].array)
                        reducer.add(position, parallel.with_unsynced(position, zeros))
                parallel._unsynced.clear()
                reducer.end()
            else:
                parallel._unsynced = set(range(len(trained)))
            self.outputs[place] = []
            to_inputs.append(found)
        parallel._average_buffers()
        totals = reducer.finish() if sync else local
        inputs = iter([self._whole([found[k] for found in to_inputs], k) for k in range(len(to_inputs[0]))])
        of_inputs = [next(inputs) if leaf._requires_grad else None for leaf in self.leaves[0]]
        return [*of_inputs, *(None if total is None else wrap(total) for total in totals)]

    def _roots(self, place: int, grads: Sequence[Tensor | None]) -> tuple[list[Tensor], list[Tensor]]:
        """The outputs of one shard that have a gradient, and these."""
        roots, upstream = [], []
        for output, g in zip(self.outputs[place], grads, strict=True):
            if g is None or not output._requires_grad:
                continue
            array = g.array
            if self._cuts is not None:
                array = array[self._cuts[place] : self._cuts[place + 1]] if array.ndim else array / len(self.own)
            roots.append(output)
            upstream.append(wrap(np.asarray(array, output.array.dtype)))
        return roots, upstream

    def _whole(self, parts: list[Tensor | None], position: int) -> Tensor:
        leaves = [[leaf for leaf in each if leaf._requires_grad][position] for each in self.leaves]
        arrays = [np.zeros_like(leaf.array) if part is None else part.array
                  for part, leaf in zip(parts, leaves, strict=True)]  # fmt: skip
        return wrap(arrays[0] if self._cuts is None else np.concatenate(arrays))


class _OverShards(Function):
    """The module on all shards, as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, run: _Run, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.run = run
        recording = any(ctx.needs_input_grad)
        if not recording:
            return run.forward()
        with enable_grad():
            return run.forward()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.run.backward(grads)


def begin_alike(caller: str, group: ProcessGroup, module: Module) -> None:
    """Give all processes the parameters and buffers of process 0, after a check that they have the same ones.

    Raises:
        DistError: they have not.
    """
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    own = [f"{name}: {t.array.dtype} {tuple(t.array.shape)}" for name, t in named.items()]
    for rank, others in enumerate(exchange_objects(group, own, f"{caller}()")):
        if others != own:
            pairs = zip([*own, *["nothing"] * len(others)], [*others, *["nothing"] * len(own)], strict=False)
            mine, theirs = next((a, b) for a, b in pairs if a != b)
            raise DistError(
                f"{caller}: the processes have different parameters: rank {group.rank()} has {mine}, rank {rank} "
                f"has {theirs}; build the same module in all"
            )
    if group.comm is None:
        return
    first = from_root(group, [t.detach() for t in named.values()], 0, f"{caller}: parameters")
    for tensor, other in zip(named.values(), first, strict=True):
        tensor.array[...] = other.array


def checked_shards(caller: str, shards: Any, workers: int) -> int:
    """shards, which must be a number of at least that of the processes."""
    if isinstance(shards, bool) or not isinstance(shards, int) or shards < workers:
        raise ValueError(
            f"{caller}: shards={shards!r} must be an int of at least {workers}, the number of processes; the result "
            "does not depend on the number of processes, but on that of shards"
        )
    return shards
