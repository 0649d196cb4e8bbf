"""DistributedDataParallel, with no_sync and join.

Each process splits its part of the batch into shards. The module runs on each shard separately, with random numbers
that depend on the step and the shard, and the gradients of all shards are added in a fixed tree (reduction_tree.py). So
the weights are bitwise identical for any number of processes, as long as each has whole shards.

Within ``no_sync``, the gradients of each shard are accumulated separately, without communication. Later these sums are
added in the fixed tree, so here, too, the order of additions does not depend on the number of processes.

Within ``join``, the processes announce to each other each forward and each exchange of gradients before it begins.
Processes that have run out of batches take part in the exchanges by sending zeros.

Sources: S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020;
torch.distributed.algorithms.join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..engine.aliasing import mark_changed
from ..engine.arguments import kind_name
from ..engine.grad_mode import is_grad_enabled
from ..engine.hooks import register_post_accumulate_grad_hook
from ..engine.tensor import Tensor, wrap
from ..nn.module import Module
from ..nn.utils.per_sample_rules import refuse_per_sample
from ..ops.argument_checks import as_truth
from ..ops.random.random import default_generator
from .batch_shards import replace_tensors
from .errors import DistError
from .gradient_bucket import GradBucket, HookExchange
from .module_state import BufferAverage, ModuleState, collect_state, floats_of, pack
from .object_collectives import exchange_objects, from_root
from .process_group import ProcessGroup, difference, ranks_text
from .process_group import calls as calls_of
from .reducer import Channel, Reducer
from .reduction_tree import shard_range
from .shard_runner import OverShards, Run
from .work import Future
from .world import member

__all__ = ["DistributedDataParallel"]


# ---- Gradients accumulated within no_sync ---------------------------------------------------------------------------


class _DisplayedGrad(NamedTuple):
    """The ``grad`` of a parameter without its unsynchronized gradients, and the ``grad`` that includes them."""

    parameter: Tensor
    without: Tensor | None
    grad: Tensor


class UnsyncedGradients:
    """Gradients accumulated within ``no_sync``, until the next exchange.

    They are kept for each shard; ``local_shard`` is the index of a shard among those of this process. Meanwhile
    ``parameter.grad`` shows the sum for this process, in a read-only array, because changes made there would be lost.
    Later backwards add to it. If ``grad`` is set to something else, such as None by ``zero_grad``, the parameter's
    accumulated gradients are dropped.
    """

    def __init__(self) -> None:
        self._sums: dict[int, dict[int, np.ndarray]] = {}  # id of the parameter -> local shard -> sum
        self._displayed: dict[int, _DisplayedGrad] = {}
        self._pending: list[tuple[int, int, np.ndarray]] = []  # in the current backward
        self._trained: Sequence[Tensor] = ()
        self._hooked: dict[int, Tensor] = {}
        self._weight = 1.0

    def begin(self, trained: Sequence[Tensor], weight: float) -> None:
        """Begin a backward for these parameters, whose gradients are this process's gradients times `weight`."""
        self._drop_what_was_reset()
        self._trained, self._pending, self._weight = trained, [], weight
        for parameter in trained:
            if id(parameter) not in self._hooked:
                self._hooked[id(parameter)] = parameter
                parameter.register_hook(partial(self._before, parameter))
                register_post_accumulate_grad_hook(parameter, self._show)

    def add(self, local_shard: int, position: int, gradient: np.ndarray, owned: bool) -> None:
        """Add a parameter's gradient for one shard; it takes effect in ``end``. owned: its memory is not shared."""
        self._pending.append((local_shard, position, gradient if owned else gradient.copy()))

    def end(self) -> list[np.ndarray | None]:
        """Return what to deliver to ``grad``: zeros for parameters with accumulated gradients, otherwise None."""
        for local_shard, position, gradient in self._pending:
            sums = self._sums.setdefault(id(self._trained[position]), {})
            if local_shard in sums:
                sums[local_shard] += gradient
            else:
                sums[local_shard] = gradient
        self._pending = []
        return [np.zeros_like(p.array) if id(p) in self._sums else None for p in self._trained]

    def take(self, trained: Sequence[Tensor]) -> dict[int, dict[int, np.ndarray]]:
        """Remove these parameters' accumulated gradients, also from ``grad``: local shard -> position -> gradient."""
        found: dict[int, dict[int, np.ndarray]] = {}
        if not self._sums and not self._displayed:
            return found
        self._drop_what_was_reset()
        for position, parameter in enumerate(trained):
            self._hide(parameter)
            self._displayed.pop(id(parameter), None)
            for local_shard, total in self._sums.pop(id(parameter), {}).items():
                found.setdefault(local_shard, {})[position] = total
        return found

    def _drop_what_was_reset(self) -> None:
        for key, (parameter, without, shown) in list(self._displayed.items()):
            if parameter.grad is shown and parameter.grad_req != "write":
                continue
            if parameter.grad is shown:
                parameter.grad = without
            del self._displayed[key], self._sums[key]

    def _before(self, parameter: Tensor, g: Tensor) -> None:
        """Hide the accumulated gradients before a gradient is added to ``grad``."""
        self._hide(parameter)

    def _hide(self, parameter: Tensor) -> None:
        """Set ``grad`` back to the value without the accumulated gradients."""
        shown = self._displayed.get(id(parameter))
        if shown is not None and parameter.grad is shown.grad:
            parameter.grad = shown.without

    def _show(self, parameter: Tensor) -> None:
        """Include the accumulated gradients in ``grad`` after a backward."""
        sums = self._sums.get(id(parameter))
        without = parameter.grad
        if sums is None or without is None:
            return
        total = without.array.copy()
        for local_shard in sorted(sums):
            total += sums[local_shard] / total.dtype.type(self._weight)
        total.flags.writeable = False
        # if `grad` has only the zeros from `end`, treat it as None
        parameter.grad = wrap(total)
        self._displayed[id(parameter)] = _DisplayedGrad(
            parameter, without if without.array.any() else None, parameter.grad
        )


# ---- join: processes with different numbers of batches --------------------------------------------------------------

_CALLER = "DistributedDataParallel.join"
_FORWARD, _FORWARD_WITH_BUFFERS = f"{_CALLER}: a forward", f"{_CALLER}: a forward that changes buffers"
_BACKWARD, _NO_BATCH = f"{_CALLER}: the backward of forward", f"{_CALLER}: no batch is left"


class UnevenInputs:
    """Coordination of processes with different numbers of batches within ``join``.

    by_all: divide the gradients by the number of all processes, not by the number of those that have a batch.
    throws: the first process without a batch ends the block in all processes.
    """

    def __init__(self, parallel: DistributedDataParallel, by_all: bool, throws: bool) -> None:
        self._parallel, self._group, self._by_all, self._throws = parallel, parallel.process_group, by_all, throws
        self._active = list(range(self._group.size()))  # the ranks that had a batch at the last call
        self._ahead: list[int] = []  # the ranks that had a batch when others had none

    def forward(self, averaged: bool) -> None:
        """Announce a forward. averaged: it averages buffers."""
        self._announce(_FORWARD_WITH_BUFFERS if averaged else _FORWARD)

    def backward(self, step: int) -> None:
        """Announce the exchange of the gradients of the forward with number `step`."""
        self._announce(f"{_BACKWARD} {step}")

    @property
    def divisor(self) -> int:
        """The number that the sum of the processes' gradients is divided by."""
        return self._group.size() if self._by_all else len(self._active)

    def shards(self) -> int:
        """Return the number of shards of the processes that have a batch."""
        return sum(len(shard_range(self._parallel.shards, self._group.size(), rank)) for rank in self._active)

    def end(self) -> None:
        """Take part until no process has a batch; then copy parameters and buffers from the last one that had."""
        while (call := self._announce(_NO_BATCH)) is not None:
            if call.startswith(_BACKWARD):
                self._send_zeros(int(call.removeprefix(_BACKWARD)))
            else:
                self._join_buffer_average(call == _FORWARD_WITH_BUFFERS)
                self._parallel.steps += 1
        if self._ahead:
            self._copy_from(self._ahead[0])

    def _announce(self, own: str) -> str | None:
        """Announce the call `own`, and return the call of the processes that have a batch; None if no process has one.

        Raises:
            DistError: a process makes a call in which processes without a batch cannot take part.
            RuntimeError: `throws` is set, and a process has no batch.
        """
        self._parallel.finish_average()
        entered, rows = self._group.announce(own)
        calls = dict(enumerate(calls_of(rows)))
        active = [rank for rank, call in calls.items() if call != _NO_BATCH]
        found = {calls[rank] for rank in active}
        if len(found) > 1 or not all(call.startswith((_FORWARD, _BACKWARD)) for call in found):
            raise DistError(
                f"{_CALLER}: the processes do different things: {difference(rows)}; a process without a batch can take "
                "part only in forward and backward of this model: call other collectives after the block"
            )
        if not active:
            return None
        ended = [rank for rank in calls if rank not in active]
        if ended and self._throws:
            raise RuntimeError(f"{_CALLER}: {ranks_text(ended)} has no batch left, and throw_on_early_termination=True")
        self._active, self._ahead = active, active if ended else []
        self._group.all_entered(entered)
        return found.pop()

    def _send_zeros(self, step: int) -> None:
        reducer = self._parallel.reducer(collect_state(self._parallel.module))
        reducer.start(1.0, step)
        for shard in reducer.own:
            reducer.end(shard)
        reducer.finish()

    def _join_buffer_average(self, averaged: bool) -> None:
        state = collect_state(self._parallel.module)
        own = self._parallel.reducer(state).own
        if averaged and (average := self._parallel.average(state)) is not None:
            for shard in own:
                average.take(shard)
            self._parallel.keep_average(average)

    def _copy_from(self, rank: int) -> None:
        module = self._parallel.module
        tensors = [*module.parameters(), *module.buffers()]
        own = [tensor.detach() for tensor in tensors]
        for tensor, other in zip(tensors, from_root(self._group, own, rank, f"{_CALLER}: parameters"), strict=True):
            tensor.array[...] = other.array
        mark_changed([tensor.array for tensor in tensors], _CALLER)


# ---- DistributedDataParallel ----------------------------------------------------------------------------------------

_NAME = "DistributedDataParallel"
BUCKET_BYTES = 4_000_000  # default size of a bucket


class DistributedDataParallel(Module):
    """Runs ``module`` on this process's part of the batch; ``backward`` averages the gradients over all processes.

    All processes begin with the parameters and buffers of process 0. Gradients are sent in buckets while the backward
    runs. The loss must be a mean over this process's part of the batch, and all parts must have the same size.

    module: the module, the same in all processes.
    device_ids, output_device: only None; there is one device, the CPU.
    dim: only 0; samples are along the first axis.
    broadcast_buffers: average the changes of buffers over the processes. False: each process keeps its own buffers.
    init_sync: begin with the parameters and buffers of process 0. False: they are equal already.
    process_group: the processes that take part; None means all.
    bucket_cap_mb: size of a bucket in MB; None means 4.
    find_unused_parameters, check_reduction, gradient_as_bucket_view, static_graph: accepted without effect. Parameters
        that no process has used always keep their ``grad``.
    reproducible: split the batch into ``shards`` shards and add their gradients in a fixed tree. The weights are then
        bitwise identical for 1, 2, 4 … processes, up to the number of shards. False: each process's part is one shard,
        which is faster.
    shards: number of shards of the whole batch, if reproducible.

    With reproducible=True the module runs once for each shard. So sums over the batch within the module are sums over
    one shard, and a module that calls collectives itself needs reproducible=False.

    Inputs: tensors are split along the first axis, including those in lists, tuples, dicts and dataclasses; all other
    inputs are passed to each shard unchanged. The module must return tensors, or such containers of tensors. The
    gradients cannot be differentiated again.

    Floating-point buffers, such as running statistics, change by the mean of their changes over the shards, at the end
    of the backward or at the next call. Other buffers get the values of the last shard.

    Raises:
        TypeError: module is not a Module, or a flag is not a bool. ValueError: module has nothing to train, there are
        fewer shards than processes, bucket_cap_mb is not positive, or dim is not 0. DistError: the processes have
        different parameters.
        RuntimeError: there is no process group; device_ids or output_device names a GPU.
    """

    steps: int
    require_backward_grad_sync: bool

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
            raise TypeError(f"{_NAME}: module must be a Module, got {kind_name(module)}")
        if device_ids or output_device is not None:
            raise RuntimeError(
                f"{_NAME}: device_ids={device_ids!r}, output_device={output_device!r}: there is one device, the CPU; "
                "leave both out"
            )
        for name, flag in (
            ("find_unused_parameters", find_unused_parameters),
            ("gradient_as_bucket_view", gradient_as_bucket_view),
            ("static_graph", static_graph),
            ("init_sync", init_sync),
            ("check_reduction", check_reduction),
        ):
            as_truth(_NAME, name, flag)
        if dim != 0:
            raise ValueError(f"{_NAME}: dim={dim!r}: samples are along the first axis; pass 0")
        self.process_group: ProcessGroup = member(process_group, _NAME)
        self.reproducible: bool = as_truth(_NAME, "reproducible", reproducible)
        self.broadcast_buffers: bool = as_truth(_NAME, "broadcast_buffers", broadcast_buffers)
        size = self.process_group.size()
        self.shards: int = checked_shards(_NAME, shards, size) if self.reproducible else size
        if bucket_cap_mb is not None:
            if isinstance(bucket_cap_mb, bool) or not isinstance(bucket_cap_mb, (int, float)):
                raise TypeError(f"{_NAME}: bucket_cap_mb={bucket_cap_mb!r} must be a number of megabytes, or None")
            if not 0 < bucket_cap_mb < float("inf"):
                raise ValueError(f"{_NAME}: bucket_cap_mb={bucket_cap_mb!r} must be above 0, and finite")
        self._bucket_bytes = BUCKET_BYTES if bucket_cap_mb is None else int(1e6 * bucket_cap_mb)
        self.module = module
        self.require_backward_grad_sync = True
        self.steps = 0  # number of calls
        self.trained: list[Tensor] = []  # parameters of the last call
        self._reducer: Reducer | None = None
        self._buffer_reducer: Reducer | None = None
        self._channels: dict[str, Channel] = {}
        self._hook: tuple[Callable[..., Any], Any] | None = None
        self.unsynced: UnsyncedGradients = UnsyncedGradients()
        self._average: BufferAverage | None = None  # the exchange begun by the last forward
        self.uneven: UnevenInputs | None = None  # set within join
        if init_sync:
            broadcast_initial_state(_NAME, self.process_group, module)
        self.seed: Any = from_root(self.process_group, int(default_generator.integers(2**62)), 0, f"{_NAME}: the seed")
        if not collect_state(module).trained:
            raise ValueError(f"{_NAME}: module has no parameter that requires a gradient; use the module itself")

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.module.training and not is_grad_enabled():
            return self.module(*inputs, **kwargs)
        self.finish_average()
        if self.uneven is not None:
            self.uneven.forward(self._averages_buffers())
        run = Run(self, inputs, kwargs)
        trained = run.trained if is_grad_enabled() else []
        outputs = OverShards.apply(run, *run.input_tensors, *trained)
        self.steps += 1
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        if not any(output._requires_grad for output in outputs):
            self.finish_average()  # no backward will follow to do it
        return replace_tensors(run.structure, iter(outputs))

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate gradients without communication; the next backward outside of the block exchanges the sums.

        With reproducible=True the weights are bitwise identical for any number of processes here, too. For this, one
        set of gradients is kept for each shard of this process. Within the block, ``grad`` shows the gradients of this
        process in a read-only array. Parameter hooks called outside of the block get the sums.
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable[[Any, GradBucket], Future]) -> None:
        """Exchange gradients with ``hook(state, bucket)``.

        The hook is called for each bucket as soon as the bucket is complete, in the same order in all processes. It
        must average over the processes itself and return a Future of a Tensor with the size of ``bucket.buffer()``,
        which becomes the gradient. ``distributed.algorithms.ddp_comm_hooks`` has ready-made hooks.

        A hook gets the gradient of this process's whole part of the batch, so its result depends on the number of
        processes. It therefore requires reproducible=False.

        Raises:
            ValueError: the model was created with reproducible=True. RuntimeError: there is a hook already, or
            gradients have been exchanged. TypeError: hook cannot be called, or, in backward, it returns something else.

        Source: torch.nn.parallel.DistributedDataParallel.register_comm_hook.
        """
        if not callable(hook):
            raise TypeError(f"register_comm_hook: hook must be a function of (state, bucket), got {hook!r}")
        if self.reproducible:
            raise ValueError(
                "register_comm_hook: with reproducible=True gradients are added shard by shard in a fixed tree, which "
                "no hook sees; build the model with DistributedDataParallel(..., reproducible=False)"
            )
        if self._hook is not None or self._reducer is not None:
            raise RuntimeError("register_comm_hook: call it once, before the first forward")
        self._hook = hook, state

    @contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """Within the block, processes may have different numbers of batches.

        A process that has run out of batches waits at the end of the block and sends zeros in the exchanges of the
        others. In the end it gets the parameters and buffers of the processes that had the last batch.

        divide_by_initial_world_size: divide the gradients by the number of all processes. False: by the number of
            processes that still have a batch.
        enable: False makes the block do nothing.
        throw_on_early_termination: do not wait; the first process that reaches the end of the block ends it in all
            processes, with a RuntimeError in their next forward.

        All processes must enter the block. Call other collectives, such as an ``all_reduce`` of the loss, after it.
        Optimizer states are not synchronized.

        Raises:
            TypeError: an argument is not a bool. ValueError: the module has SyncBatchNorm. DistError: a process calls
            another collective while one has no batch left.

        Source: torch.nn.parallel.DistributedDataParallel.join.
        """
        by_all = as_truth("join", "divide_by_initial_world_size", divide_by_initial_world_size)
        throws = as_truth("join", "throw_on_early_termination", throw_on_early_termination)
        if not as_truth("join", "enable", enable) or self.process_group.comm is None:
            yield
            return
        if collect_state(self.module).has_sync_batch_norm:
            raise ValueError(
                "join: the module has SyncBatchNorm, which needs a part of every batch from every process; give all "
                "processes the same number of batches, as DistributedSampler does, or keep BatchNorm"
            )
        self.uneven = uneven = UnevenInputs(self, by_all, throws)
        try:
            yield
            uneven.end()
        finally:
            self.uneven = None

    @property
    def waited(self) -> float:
        """Seconds that this process has spent waiting for others in exchanges of gradients and buffers."""
        return sum((each.waited for each in (self._reducer, self._buffer_reducer) if each is not None), 0.0)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        if self._average is not None:
            self._average.valid = False
        return super().load_state_dict(*args, **kwargs)

    @property
    def weight(self) -> float:
        """The weight of this process's loss in the loss of the whole batch; 1 with a hook, which averages itself."""
        if self._hook is not None:
            return 1.0
        return 1 / (self.process_group.size() if self.uneven is None else self.uneven.divisor)

    # ---- Parameters and buffers --------------------------------------------------------------------------------

    def reducer(self, state: ModuleState) -> Reducer:
        """Return the Reducer for the parameters that require gradients; create a new one if they have changed."""
        trained = state.trained
        specs = [(parameter.array.shape, parameter.array.dtype) for parameter in trained]
        found = self._reducer
        if found is None or found.specs != specs or [*map(id, trained)] != [*map(id, self.trained)]:
            group = self.process_group
            numbers = sum(parameter.array.size for parameter in trained)
            group.agree(f"{_NAME}: gradients of {len(trained)} parameters, {numbers} numbers")
            self.trained = trained
            arrays = [parameter.array for parameter in trained]
            make_exchange = None if self._hook is None else partial(HookExchange, *self._hook, trained)
            channel = self._channel(f"the exchange of gradients of {len(trained)} parameters")
            self._reducer = found = Reducer(channel, arrays, self.shards, self._bucket_bytes, make_exchange, found)
        return found

    def average(self, state: ModuleState) -> BufferAverage | None:
        """Return the BufferAverage over the shards of a batch; None if there is nothing to average."""
        if not self._averages_buffers() or not (state.averaged or state.identical):
            return None
        averaged = pack(state.averaged)
        floats = floats_of(averaged)
        found = self._buffer_reducer
        if found is None or found.specs != [(each.shape, each.dtype) for each in floats]:
            channel = self._channel("the exchange of buffers")
            made = Reducer(channel, floats, self.shards, self._bucket_bytes, previous=found) if floats else None
            self._buffer_reducer = found = made
        shards = self.shards if self.uneven is None else self.uneven.shards()
        return BufferAverage(averaged, state.identical, found, shards, self.steps)

    def _averages_buffers(self) -> bool:
        return self.broadcast_buffers and self.module.training

    def keep_average(self, average: BufferAverage | None) -> None:
        """Store the buffer exchange that a forward has begun, until the backward or the next training call."""
        self._average = average

    def finish_average(self) -> None:
        """Finish the buffer exchange that the last forward has begun, if there is one."""
        average, self._average = self._average, None
        if average is not None:
            average.wait()
            if average.valid:
                average.store()

    def _channel(self, what: str) -> Channel:
        """Return the channel for one kind of exchange, gradients or buffers, whose text for messages is `what`."""
        kind = what.split(" of ")[1]
        if kind not in self._channels:
            self._channels[kind] = Channel(self.process_group, what)
        self._channels[kind].what = what
        return self._channels[kind]


def broadcast_initial_state(caller: str, group: ProcessGroup, module: Module) -> None:
    """Copy the parameters and buffers of process 0 to all processes, after checking that names and shapes are equal.

    Raises:
        DistError: they have different parameters.
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
    """Return shards if it is an int of at least the number of processes."""
    if isinstance(shards, bool) or not isinstance(shards, int) or shards < workers:
        raise ValueError(
            f"{caller}: shards={shards!r} must be an int of at least {workers}, the number of processes; the result "
            "depends on the number of shards, not of processes"
        )
    return shards


def checked_seed(caller: str, seed: Any) -> int:
    """Return seed if it is an int of at least 0."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"{caller}: seed={seed!r} must be an int, or None to draw one")
    if seed < 0:
        raise ValueError(f"{caller}: seed={seed} is negative; use 0 or more")
    return int(seed)


refuse_per_sample(
    DistributedDataParallel,
    "runs its module in shards and averages their gradients; pass and call the module inside it, ddp.module, and "
    "average over the processes what you compute from grad_sample",
)
