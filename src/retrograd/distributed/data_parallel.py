"""DistributedDataParallel, with no_sync and join.

A process cuts its part of the batch into shards. The module runs on each shard alone, with random numbers that depend
on the step and the shard, and the gradients of all shards are added in a fixed tree (reduction_tree.py). So the weights
are the same bits for any number of processes that have whole shards.

Within ``no_sync``, gradients are added up shard by shard, and the sums of the shards are exchanged in the fixed tree
later. So the order of additions does not depend on the number of processes, and no communication is needed before then.

Within ``join``, the processes tell each other what they are about to do, before each forward and each exchange of
gradients. Those without a batch take part by sending zeros.

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
from ..engine.grad_mode import is_grad_enabled
from ..engine.hooks import register_post_accumulate_grad_hook
from ..engine.tensor import Tensor, wrap
from ..nn.module import Module
from ..nn.utils.per_sample_rules import refuse_per_sample
from ..ops.argument_checks import as_truth
from ..ops.random.random import default_generator
from .batch_shards import replaced
from .errors import DistError
from .gradient_bucket import GradBucket, Hooked
from .module_state import BufferAverage, Parts, floats_of, pack, parts_of
from .object_collectives import exchange_objects, from_root
from .process_group import ProcessGroup, difference, ranks_text
from .process_group import calls as calls_of
from .reducer import Channel, Reducer
from .reduction_tree import share
from .shard_runner import OverShards, Run
from .work import Future
from .world import member

__all__ = ["DistributedDataParallel"]


# ---- Gradients accumulated within no_sync ---------------------------------------------------------------------------


class _Shown(NamedTuple):
    """The ``grad`` of a parameter without its waiting gradients, and the ``grad`` that includes them."""

    parameter: Tensor
    without: Tensor | None
    grad: Tensor


class Unsynced:
    """Gradients that wait for the next exchange. A place is the index of a shard among those of this process.

    In the meantime ``grad`` of a parameter shows the gradient of this process, in a read-only array, because changes
    made there would be lost. Gradients of other backwards are added to it. If ``grad`` is set to something else, such
    as None by ``zero_grad``, the parameter has no waiting gradient any more.
    """

    def __init__(self) -> None:
        self._sums: dict[int, dict[int, np.ndarray]] = {}  # id of the parameter -> place -> sum
        self._shown: dict[int, _Shown] = {}
        self._coming: list[tuple[int, int, np.ndarray]] = []  # in the current backward
        self._trained: Sequence[Tensor] = ()
        self._hooked: dict[int, Tensor] = {}
        self._weight = 1.0

    def begin(self, trained: Sequence[Tensor], weight: float) -> None:
        """Begin a backward of these parameters. weight: the gradients are those of this process times weight."""
        self._drop_what_was_reset()
        self._trained, self._coming, self._weight = trained, [], weight
        for parameter in trained:
            if id(parameter) not in self._hooked:
                self._hooked[id(parameter)] = parameter
                parameter.register_hook(partial(self._before, parameter))
                register_post_accumulate_grad_hook(parameter, self._show)

    def add(self, place: int, position: int, gradient: np.ndarray, alone: bool) -> None:
        """Add a parameter's gradient for one shard; it counts when the backward ends. alone: nobody else uses it."""
        self._coming.append((place, position, gradient if alone else gradient.copy()))

    def end(self) -> list[np.ndarray | None]:
        """Return the gradients to deliver: zeros where gradients wait, which ``grad`` then shows; None elsewhere."""
        for place, position, gradient in self._coming:
            sums = self._sums.setdefault(id(self._trained[position]), {})
            if place in sums:
                sums[place] += gradient
            else:
                sums[place] = gradient
        self._coming = []
        return [np.zeros_like(p.array) if id(p) in self._sums else None for p in self._trained]

    def taken(self, trained: Sequence[Tensor]) -> dict[int, dict[int, np.ndarray]]:
        """Remove these parameters' waiting gradients, also from ``grad``, and return them by place and position."""
        found: dict[int, dict[int, np.ndarray]] = {}
        if not self._sums and not self._shown:
            return found
        self._drop_what_was_reset()
        for position, parameter in enumerate(trained):
            self._hide(parameter)
            self._shown.pop(id(parameter), None)
            for place, total in self._sums.pop(id(parameter), {}).items():
                found.setdefault(place, {})[position] = total
        return found

    def _drop_what_was_reset(self) -> None:
        for key, (parameter, without, shown) in list(self._shown.items()):
            if parameter.grad is shown and parameter.grad_req != "write":
                continue
            if parameter.grad is shown:
                parameter.grad = without
            del self._shown[key], self._sums[key]

    def _before(self, parameter: Tensor, g: Tensor) -> None:
        """Hide the waiting gradients before a gradient is added to ``grad``."""
        self._hide(parameter)

    def _hide(self, parameter: Tensor) -> None:
        """Remove from ``grad`` what is only shown."""
        shown = self._shown.get(id(parameter))
        if shown is not None and parameter.grad is shown.grad:
            parameter.grad = shown.without

    def _show(self, parameter: Tensor) -> None:
        """Show the waiting gradients after a backward."""
        sums = self._sums.get(id(parameter))
        without = parameter.grad
        if sums is None or without is None:
            return
        total = without.array.copy()
        for place in sorted(sums):
            total += sums[place] / total.dtype.type(self._weight)
        total.flags.writeable = False
        # if `grad` has only the zeros from `end`, treat it as None
        parameter.grad = wrap(total)
        self._shown[id(parameter)] = _Shown(parameter, without if without.array.any() else None, parameter.grad)


# ---- join: processes with different numbers of batches --------------------------------------------------------------

_CALLER = "DistributedDataParallel.join"
_FORWARD, _AVERAGED = f"{_CALLER}: a forward", f"{_CALLER}: a forward that changes buffers"
_BACKWARD, _ENDED = f"{_CALLER}: the backward of forward", f"{_CALLER}: no batch is left"


class Uneven:
    """Coordination of processes with different numbers of batches within ``join``.

    by_all: divide the gradients by the number of all processes, not of those that have a batch. throws: the first
    process without a batch ends the block in all processes.
    """

    def __init__(self, parallel: DistributedDataParallel, by_all: bool, throws: bool) -> None:
        self._parallel, self._group, self._by_all, self._throws = parallel, parallel.process_group, by_all, throws
        self._active = list(range(self._group.size()))  # the ranks that had a batch at the last call
        self._ahead: list[int] = []  # the ranks that had a batch when others had none

    def forward(self, averaged: bool) -> None:
        """Announce that this process begins a forward, in which it averages buffers or not."""
        self._say(_AVERAGED if averaged else _FORWARD)

    def backward(self, step: int) -> None:
        """Announce that this process begins an exchange of the gradients of a forward."""
        self._say(f"{_BACKWARD} {step}")

    @property
    def divisor(self) -> int:
        """The number by which the sum of the processes' gradients is divided."""
        return self._group.size() if self._by_all else len(self._active)

    def shards(self) -> int:
        """Return the number of shards that have a part of the batch."""
        return sum(len(share(self._parallel.shards, self._group.size(), rank)) for rank in self._active)

    def end(self) -> None:
        """Take part without a batch until no process has one; then copy the last one's parameters and buffers."""
        while (call := self._say(_ENDED)) is not None:
            if call.startswith(_BACKWARD):
                self._send_zeros(int(call.removeprefix(_BACKWARD)))
            else:
                self._leave_buffers(call == _AVERAGED)
                self._parallel.steps += 1
        if self._ahead:
            self._take_from(self._ahead[0])

    def _say(self, own: str) -> str | None:
        """Announce `own` and return the call of the processes that have a batch; None if there are none.

        Raises:
            DistError: a process does something in which those without a batch cannot take part. RuntimeError: `throws`
            is set, and a process has no batch.
        """
        self._parallel.finish_average()
        entered, rows = self._group.say(own)
        calls = dict(enumerate(calls_of(rows)))
        active = [rank for rank, call in calls.items() if call != _ENDED]
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
        reducer = self._parallel.reducer(parts_of(self._parallel.module))
        reducer.start(1.0, step)
        for shard in reducer.own:
            reducer.end(shard)
        reducer.finish()

    def _leave_buffers(self, averaged: bool) -> None:
        parts = parts_of(self._parallel.module)
        own = self._parallel.reducer(parts).own
        if averaged and (average := self._parallel.average(parts)) is not None:
            for shard in own:
                average.take(shard)
            self._parallel.keep_average(average)

    def _take_from(self, rank: int) -> None:
        module = self._parallel.module
        tensors = [*module.parameters(), *module.buffers()]
        own = [tensor.detach() for tensor in tensors]
        for tensor, other in zip(tensors, from_root(self._group, own, rank, f"{_CALLER}: parameters"), strict=True):
            tensor.array[...] = other.array
        mark_changed([tensor.array for tensor in tensors], _CALLER)


# ---- DistributedDataParallel ----------------------------------------------------------------------------------------

_NAME = "DistributedDataParallel"
MOST_BYTES = 4_000_000  # size of a bucket


class DistributedDataParallel(Module):
    """Runs ``module`` on this process's part of the batch; after ``backward`` the gradients are the mean over all.

    All processes begin with the parameters and buffers of process 0. Gradients are sent in buckets while the backward
    runs. The loss must be a mean over this process's part, and all parts must have the same size.

    bucket_cap_mb: size of a bucket in MB. process_group: the processes; None means all.
    find_unused_parameters, gradient_as_bucket_view, static_graph, check_reduction: these four change nothing, because
        parameters that no process has used keep their gradient anyway.
    broadcast_buffers: False leaves the buffers of each process unchanged by the others.
    reproducible: add the gradients of ``shards`` shards in a fixed tree: the same bits for 1, 2, 4 … processes, up to
        the number of shards. False: each process's part is one shard, which is faster.
    shards: number of shards of the whole batch.

    A module that calls a collective itself needs reproducible=False; otherwise it would run once for each shard. With
    reproducible=True, sums over the batch that the module computes are sums over one shard.

    Tensors are cut along the first axis, also those in lists, tuples, dicts and dataclasses. Other inputs go to each
    shard unchanged. The module returns tensors, or such containers of tensors. Its gradients cannot be differentiated
    again.

    Floating-point buffers, such as running statistics, change by the mean of their changes over the shards, when the
    backward ends or at the next call. Other buffers get the values of the last shard.

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
            raise TypeError(f"{_NAME}: module must be a Module, got {type(module).__name__}")
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
        self._most = MOST_BYTES if bucket_cap_mb is None else int(1e6 * bucket_cap_mb)
        self.module = module
        self.require_backward_grad_sync = True
        self.steps = 0  # calls so far
        self.trained: list[Tensor] = []  # parameters of the last call
        self._reducer: Reducer | None = None
        self._of_buffers: Reducer | None = None
        self._channels: dict[str, Channel] = {}
        self._hook: tuple[Callable[..., Any], Any] | None = None
        self.unsynced: Unsynced = Unsynced()
        self._average: BufferAverage | None = None  # the exchange begun by the last forward
        self.uneven: Uneven | None = None  # set within join
        if init_sync:
            begin_alike(_NAME, self.process_group, module)
        self.seed: Any = from_root(self.process_group, int(default_generator.integers(2**62)), 0, f"{_NAME}: the seed")
        if not parts_of(module).trained:
            raise ValueError(f"{_NAME}: module has no parameter that requires a gradient; use the module itself")

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.module.training and not is_grad_enabled():
            return self.module(*inputs, **kwargs)
        self.finish_average()
        if self.uneven is not None:
            self.uneven.forward(self._averages())
        run = Run(self, inputs, kwargs)
        trained = run.trained if is_grad_enabled() else []
        outputs = OverShards.apply(run, *run.given, *trained)
        self.steps += 1
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        if not any(output._requires_grad for output in outputs):
            self.finish_average()  # no backward will follow to do it
        return replaced(run.structure, iter(outputs))

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within the block, backward exchanges nothing. The next backward outside exchanges the accumulated gradients.

        With reproducible=True the weights are the same bits for any number of processes here, too. Gradients are added
        up shard by shard, which takes the memory of the gradients once for each shard of this process. Within the
        block, ``grad`` shows the gradients of this process and cannot be changed. Parameter hooks outside see the sums.
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable[[Any, GradBucket], Future]) -> None:
        """Exchange gradients with ``hook(state, bucket)``.

        The hook is called for each bucket as soon as it is complete, in the same order in all processes. It returns a
        Future of a Tensor like ``bucket.buffer()``, which becomes the gradient. It must average over the processes
        itself.

        ``distributed.algorithms.ddp_comm_hooks`` provides hooks. A hook gets the sum over this process's part, so the
        result depends on the number of processes; it requires reproducible=False.

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

        A process that leaves the block waits for the others and sends zeros in their exchanges. At the end it gets the
        parameters and buffers of those that had the last batch.

        divide_by_initial_world_size: False divides the gradients by the number of processes that have a batch, not of
        all processes. enable: False makes the block do nothing. throw_on_early_termination: no process waits; the first
        one that leaves the block ends it in all processes, with a RuntimeError at their next forward.

        All processes must enter the block. Collectives that all processes must call, such as an ``all_reduce`` of the
        loss, come after it. Optimizer states are not synchronized.

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
        if parts_of(self.module).meets:
            raise ValueError(
                "join: the module has SyncBatchNorm, which needs a part of every batch from every process; give all "
                "processes the same number of batches, as DistributedSampler does, or keep BatchNorm"
            )
        self.uneven = uneven = Uneven(self, by_all, throws)
        try:
            yield
            uneven.end()
        finally:
            self.uneven = None

    @property
    def waited(self) -> float:
        """Seconds that this process has waited for others, in exchanges of gradients and buffers."""
        return sum((each.waited for each in (self._reducer, self._of_buffers) if each is not None), 0.0)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        if self._average is not None:
            self._average.counts = False
        return super().load_state_dict(*args, **kwargs)

    @property
    def weight(self) -> float:
        """The weight of this process's loss in that of the whole batch; a hook weights the gradients itself."""
        if self._hook is not None:
            return 1.0
        return 1 / (self.process_group.size() if self.uneven is None else self.uneven.divisor)

    # ---- Parameters and buffers --------------------------------------------------------------------------------

    def reducer(self, parts: Parts) -> Reducer:
        """Return the Reducer for the parameters that are trained now; it is new if they have changed."""
        trained = parts.trained
        kinds = [(parameter.array.shape, parameter.array.dtype) for parameter in trained]
        found = self._reducer
        if found is None or found.kinds != kinds or [*map(id, trained)] != [*map(id, self.trained)]:
            group = self.process_group
            numbers = sum(parameter.array.size for parameter in trained)
            group.agree(f"{_NAME}: gradients of {len(trained)} parameters, {numbers} numbers")
            self.trained = trained
            arrays = [parameter.array for parameter in trained]
            hooked = None if self._hook is None else partial(Hooked, *self._hook, trained)
            channel = self._channel(f"the exchange of gradients of {len(trained)} parameters")
            self._reducer = found = Reducer(channel, arrays, self.shards, self._most, hooked, found)
        return found

    def average(self, parts: Parts) -> BufferAverage | None:
        """Return the BufferAverage over the shards of a batch; None if there is nothing to average."""
        if not self._averages() or not (parts.averaged or parts.alike):
            return None
        averaged = pack(parts.averaged)
        floats = floats_of(averaged)
        found = self._of_buffers
        if found is None or found.kinds != [(each.shape, each.dtype) for each in floats]:
            channel = self._channel("the exchange of buffers")
            made = Reducer(channel, floats, self.shards, self._most, before=found) if floats else None
            self._of_buffers = found = made
        shards = self.shards if self.uneven is None else self.uneven.shards()
        return BufferAverage(averaged, parts.alike, found, shards, self.steps)

    def _averages(self) -> bool:
        return self.broadcast_buffers and self.module.training

    def keep_average(self, average: BufferAverage | None) -> None:
        """Keep the exchange that a forward has begun, until the backward or the next call in training."""
        self._average = average

    def finish_average(self) -> None:
        """Finish the exchange that the last forward has begun."""
        average, self._average = self._average, None
        if average is not None:
            average.wait()
            if average.counts:
                average.store()

    def _channel(self, what: str) -> Channel:
        """Return the channel for exchanges of one kind."""
        kind = what.split(" of ")[1]
        if kind not in self._channels:
            self._channels[kind] = Channel(self.process_group, what)
        self._channels[kind].what = what
        return self._channels[kind]


def begin_alike(caller: str, group: ProcessGroup, module: Module) -> None:
    """Give all processes the parameters and buffers of process 0, after a check that they have the same parameters.

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
