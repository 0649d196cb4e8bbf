"""Shards of a batch: bounds, random state, and sums over all shards during a forward pass.

Usually a process runs its shards one after the other. A layer that needs sums over the whole batch, such as
``SyncBatchNorm``, makes that impossible: the first shard cannot continue before the last one has reached the layer. So
each shard gets its own thread, of which one runs at a time. A thread that reaches such a layer waits there until all
have reached it. The layer of each shard passes in its own sums and gets back the totals over all shards. These are
added in the fixed tree (reduction_tree.py), so they are bitwise identical for any number of processes.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from ..engine import grad_mode
from ..engine.tensor import Tensor
from ..nn.module import Module
from ..ops.random.random import default_generator
from . import mpi
from .errors import DistError
from .process_group import ProcessGroup, wait
from .reduction_tree import Node, add, shard_range, subtrees, tree_sum

# ---- Bounds and random state of shards ------------------------------------------------------------------------------


def bounds(samples: int, shards: int) -> list[int]:
    """Return the bounds of shards of almost equal size. Half of the shards cover half of the samples."""
    return [shard * samples // shards for shard in range(shards + 1)]


@contextmanager
def preserve_random_state() -> Iterator[None]:
    """Restore the default generator's state after the block."""
    state = default_generator.bit_generator.state
    try:
        yield
    finally:
        default_generator.bit_generator.state = state


def random_state_of(*key: int) -> dict[str, Any]:
    """Return the generator state for a key, such as (seed, step, shard); it does not depend on the process.

    The state is a hash of the key. NumPy's SeedSequence would also do, but costs a tenth of a millisecond per shard.
    """
    words = blake2b(" ".join(map(str, key)).encode(), digest_size=32).digest()
    state, increment = int.from_bytes(words[:16], "little"), int.from_bytes(words[16:], "little") | 1
    return {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": increment},
        "has_uint32": 0,
        "uinteger": 0,
    }


def tensors_in(value: Any) -> list[Tensor]:
    """Return the tensors in nested lists, tuples, dicts and dataclasses."""
    if isinstance(value, Tensor):
        return [value]
    return [tensor for item in _items(value) for tensor in tensors_in(item)]


def replace_tensors(value: Any, tensors: Iterator[Any]) -> Any:
    """Return a copy of nested lists, tuples, dicts and dataclasses with its tensors replaced by others."""
    if isinstance(value, Tensor):
        return next(tensors)
    if isinstance(value, dict):
        made = {} if type(value) is dict else copy.copy(value)
        for key, item in value.items():
            made[key] = replace_tensors(item, tensors)
        return made
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(replace_tensors(item, tensors) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(replace_tensors(item, tensors) for item in value)
    if _is_dataclass(value):
        made = copy.copy(value)
        for field in fields(value):
            object.__setattr__(made, field.name, replace_tensors(getattr(value, field.name), tensors))
        return made
    return value


def type_hiding_tensors(value: Any) -> str:
    """Return the type name of a nested object that holds tensors which ``tensors_in`` cannot find, or ""."""
    if isinstance(value, (Tensor, Module)):
        return ""
    items = _items(value)
    if not items and any(isinstance(each, Tensor) for each in getattr(value, "__dict__", {}).values()):
        return type(value).__name__
    return next((found for item in items if (found := type_hiding_tensors(item))), "")


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.values()]
    if isinstance(value, (list, tuple)):
        return [*value]
    return [getattr(value, field.name) for field in fields(value)] if _is_dataclass(value) else []


def _is_dataclass(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


# ---- Sums over all shards, during the forward pass ------------------------------------------------------------------

Combine = Callable[[np.ndarray, np.ndarray], None]


class ShardGroup:
    """The shards of a batch in all processes, and reductions over them.

    With this class, the layer gets this process's whole part of the batch and cuts it into shards itself. With
    ``_Shard``, the layer runs once for each shard.
    """

    first_group: ProcessGroup

    def __init__(self, group: ProcessGroup, shards: int) -> None:
        self.group = self.first_group = group  # the group before any process died
        self.shards = shards
        self.updates_state = True  # whether this shard updates what all local shards share: running statistics
        self.own: range = shard_range(shards, group.size(), group.rank())

    def cuts(self, samples: int) -> list[slice]:
        """Return the slices that cut this process's samples into its shards."""
        ends = bounds(samples, len(self.own))
        return [slice(a, b) for a, b in zip(ends, ends[1:], strict=False)]

    def total(self, call: str, pieces: Sequence[np.ndarray], combine: Combine = add) -> np.ndarray:
        """Combine the arrays of all shards.

        `pieces` are the arrays of this process's shards, of any MPI number type; they are overwritten. `call` must be
        the same in all processes.

        Raises:
            DistError: `call` differs. DistNetworkError: a process did not come in time. WorkerLostError: one has died.
        """
        return total(self.group, self.shards, dict(zip(self.own, pieces, strict=True)), call, combine)


class _Current(threading.local):
    shard_group: ShardGroup | None = None


current: Final = _Current()  # of this thread; None outside of a shard


def current_shard_group(group: ProcessGroup, shards: int) -> ShardGroup:
    """Return the ShardGroup of the running shard, or a new one."""
    return current.shard_group or ShardGroup(group, shards)


def total(
    group: ProcessGroup, shards: int, pieces: Mapping[int, np.ndarray], call: str, combine: Combine
) -> np.ndarray:
    """Combine the arrays of all shards; `pieces` are those of this process, by shard. See ``ShardGroup.total``."""
    entered = group.agree(call)
    parts: dict[Node, np.ndarray] = {(shard, shard + 1): piece for shard, piece in pieces.items()}
    if group.comm is None:
        return tree_sum(parts, shards, combine=combine)
    own = np.stack(
        [
            tree_sum(parts, shards, node, combine)
            for node in subtrees(shard_range(shards, group.size(), group.rank()), shards)
        ]
    )
    nodes = [subtrees(shard_range(shards, group.size(), rank), shards) for rank in range(group.size())]
    found = np.empty((sum(map(len, nodes)), *own.shape[1:]), own.dtype)
    counts = [len(each) * own[0].size for each in nodes]
    with mpi.errors(entered):
        request = group.comm.Iallgatherv(own, [found, counts])
    wait(group, [request], entered)
    everyone = [node for each in nodes for node in each]
    return tree_sum(dict(zip(everyone, found, strict=True)), shards, combine=combine)


# ---- Shards in threads, each running until it waits for a total over all shards, or ends ----------------------------

T = TypeVar("T")


class _Waiting(NamedTuple):
    """A shard waits for a total."""

    call: str
    piece: np.ndarray
    combine: Combine


class _Finished(NamedTuple):
    """A shard has ended, with a result or an error."""

    result: Any
    error: BaseException | None


class _Stop(BaseException):
    """Raised in the thread of a shard that is no longer needed, to end it."""


def run_interleaved(
    group: ProcessGroup,
    shards: int,
    jobs: Mapping[int, Callable[[], T]],
    context: Callable[[int], AbstractContextManager[Any]] | None = None,
    first_group: ProcessGroup | None = None,
    at_sync_point: Callable[[], object] = lambda: None,
) -> dict[int, T]:
    """Run the jobs of this process's nonempty shards in alternation and return their results, by shard.

    context: returns a context manager that is entered whenever a shard runs; it swaps state that all shards change.
    first_group: the group before any process died.
    at_sync_point: called in this thread when all shards wait for a total.

    Raises:
        Any error that a job raises; the other jobs are abandoned. DistError: a shard ends while another waits for it,
        or the shards wait in different calls. The errors of ``ShardGroup.total``.
    """
    mode = grad_mode.thread.mode
    threads = {shard: _Shard(group, shards, job, mode) for shard, job in jobs.items()}
    for shard, thread in threads.items():
        thread.first_group, thread.updates_state = first_group or group, shard == min(jobs)
    answers: dict[int, np.ndarray | None] = dict.fromkeys(jobs)
    own = shard_range(shards, group.size(), group.rank())
    try:
        while True:
            states: dict[int, _Waiting | _Finished] = {}
            for shard, thread in threads.items():
                with context(shard) if context is not None else nullcontext():
                    states[shard] = thread.resume(answers[shard])
                state = states[shard]
                if isinstance(state, _Finished) and state.error is not None:
                    raise state.error
            if all(isinstance(state, _Finished) for state in states.values()):
                return {shard: state.result for shard, state in states.items() if isinstance(state, _Finished)}
            at_sync_point()
            first = _common_request(states)
            pieces = {shard: state.piece for shard, state in states.items() if isinstance(state, _Waiting)}
            for shard in own:  # shards without samples
                pieces.setdefault(shard, np.zeros_like(first.piece))
            found = total(group, shards, dict(sorted(pieces.items())), first.call, first.combine)
            answers = {shard: found.copy() for shard in jobs}
    finally:
        for thread in threads.values():
            thread.stop()


def _common_request(states: Mapping[int, _Waiting | _Finished]) -> _Waiting:
    """Check that all shards wait for the same total, and return one of their requests."""
    calls = {shard: state.call if isinstance(state, _Waiting) else "the end" for shard, state in states.items()}
    if len(set(calls.values())) > 1:
        raise DistError(
            "the shards of this process are in different layers: "
            + "; ".join(f"shard {shard} in {call}" for shard, call in calls.items())
            + "; the module must call the same layers for every shard"
        )
    first = next(iter(states.values()))
    assert isinstance(first, _Waiting)
    return first


class _Shard(ShardGroup):
    """One shard, running in its own thread."""

    def __init__(self, group: ProcessGroup, shards: int, job: Callable[[], Any], mode: Any) -> None:
        super().__init__(group, shards)
        self._job, self._mode = job, copy.copy(mode)
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._states: SimpleQueue[_Waiting | _Finished] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def cuts(self, samples: int) -> list[slice]:
        return [slice(None)]

    def total(self, call: str, pieces: Sequence[np.ndarray], combine: Combine = add) -> np.ndarray:
        (piece,) = pieces
        self._states.put(_Waiting(call, piece, combine))
        answer: np.ndarray | None = self._answers.get()
        if answer is None:
            raise _Stop
        return answer

    def resume(self, answer: np.ndarray | None) -> _Waiting | _Finished:
        """Let the shard run until it requests a total or ends."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="retrograd-shard", daemon=True)
            self._thread.start()
        else:
            self._answers.put(answer)
        return self._states.get()

    def stop(self) -> None:
        """End the shard if it is still waiting."""
        if self._thread is not None:
            self._answers.put(None)
            self._thread.join()

    def _run(self) -> None:
        grad_mode.thread.mode, current.shard_group = self._mode, self
        result, error = None, None
        try:
            result = self._job()
        except BaseException as raised:
            error = raised
        self._states.put(_Finished(result, error))
