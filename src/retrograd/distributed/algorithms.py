"""Communication hooks of DistributedDataParallel, and Join, at PyTorch's path `torch.distributed.algorithms`.

MPI adds no such numbers. So each process receives one part of the gradients of all in 16 bits, adds them as float32 in
the order of the ranks, and sends the mean to all in 16 bits again. That is as much traffic as a ring, and numbers are
rounded twice instead of at each addition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from ..engine.tensor import Tensor, wrap
from ..torch_api.missing import attach_to_module
from . import mpi
from .data_parallel import DistributedDataParallel
from .gradient_bucket import GradBucket
from .process_group import ProcessGroup, enter
from .work import Future, Work
from .world import member

__all__ = ["Join", "TopK", "allreduce_hook", "bf16_compress_hook", "fp16_compress_hook", "topk_hook"]

__path__: list[str] = []  # PyTorch has modules below it, see torch_api/imports.py


# ---- Hooks that exchange whole gradients: as they are, or in numbers of 16 bits -------------------------------------


def allreduce_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """The mean of the gradients of all processes, added by MPI: what reproducible=False does without a hook.

    Raises:
        RuntimeError: there is no process group.
    """
    group, x = member(process_group, "allreduce_hook"), bucket.buffer().array

    def steps() -> Generator[Any, None, Tensor]:
        total = x.copy()
        if group.comm is not None:
            yield started(group, "allreduce_hook", lambda: group.lane(0).Iallreduce(mpi.load().IN_PLACE, total))
        total *= total.dtype.type(1 / group.size())
        return wrap(total)

    return Future(steps())


def bf16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """The mean of the gradients of all processes, sent as bfloat16: half the bytes of float32, its range, and 8 bits of
    precision.

    Raises:
        RuntimeError: there is no process group.
    """
    group = member(process_group, "bf16_compress_hook")
    return Future(_mean("bf16_compress_hook", group, bucket.buffer().array, as_bf16, from_bf16))


def fp16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """The mean of the gradients of all processes, sent as float16: half the bytes of float32, 11 bits of precision, and
    a largest number of 65504. Each is divided by the number of processes before.

    Raises:
        RuntimeError: there is no process group.
    """
    group = member(process_group, "fp16_compress_hook")
    return Future(_mean("fp16_compress_hook", group, bucket.buffer().array, _as_fp16, _from_fp16))


def started(group: ProcessGroup, name: str, start: Callable[[], Any]) -> Work:
    """The handle of a collective of a hook."""
    entered = enter(group.count, name)
    with mpi.errors(entered):
        return Work(group, [start()], entered)


def _mean(
    name: str,
    group: ProcessGroup,
    x: np.ndarray,
    coded: Callable[[np.ndarray], np.ndarray],
    decoded: Callable[[np.ndarray], np.ndarray],
) -> Generator[Any, None, Tensor]:
    """The mean of x over the processes, which travels as coded(x), an array of uint16 with as many elements."""
    size, rank = group.size(), group.rank()
    ends = [k * x.size // size for k in range(size + 1)]
    lengths = np.diff(ends)
    own = coded(x.astype(np.float32, copy=False) / np.float32(size))
    if group.comm is not None:
        mine = int(lengths[rank])
        parts = np.empty((size, mine), np.uint16)
        counts = [mine] * size
        yield started(group, name, lambda: group.lane(0).Ialltoallv([own, lengths], [parts, counts]))
        total = decoded(parts[0])
        for part in parts[1:]:
            total += decoded(part)
        own[ends[rank] : ends[rank + 1]] = coded(total)
        yield started(group, name, lambda: group.lane(1).Iallgatherv(mpi.load().IN_PLACE, [own, lengths]))
    return wrap(decoded(own).astype(x.dtype, copy=False))


def as_bf16(x: np.ndarray) -> np.ndarray:
    """float32 rounded to bfloat16, ties to even, as uint16."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)  # rounding could make it infinite, or 0
    if nan.any():
        rounded[nan] = 0x7FC0
    return rounded.astype(np.uint16)


def from_bf16(code: np.ndarray) -> np.ndarray:
    """bfloat16, as uint16, in float32."""
    return (code.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _as_fp16(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # what is too large becomes infinite
        return x.astype(np.float16).view(np.uint16)


def _from_fp16(code: np.ndarray) -> np.ndarray:
    return code.view(np.float16).astype(np.float32)


# ---- A hook that sends the largest entries of a gradient, and adds what it has not sent to the next one -------------


class TopK:
    """The state of ``topk_hook``: what this process has not sent yet, for each bucket.

    ratio: which part of the entries of a bucket is sent, at least one.

    Raises:
        ValueError: ratio is not above 0 and at most 1. RuntimeError: there is no process group.
    """

    def __init__(self, ratio: float = 0.01, process_group: ProcessGroup | None = None) -> None:
        if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 < ratio <= 1:
            raise ValueError(f"TopK: ratio={ratio!r} must be a number above 0 and at most 1")
        self.ratio, self.group = float(ratio), member(process_group, "TopK")
        self._memory: dict[int, np.ndarray] = {}

    def count(self, size: int) -> int:
        """Return the number of entries to send out of `size`."""
        return min(size, max(1, math.ceil(self.ratio * size)))

    def with_memory(self, bucket: GradBucket) -> np.ndarray:
        """The gradient of a bucket and what was not sent before: a new array, which becomes the memory."""
        x, before = bucket.buffer().array, self._memory.get(bucket.index())
        whole = x.copy() if before is None or before.shape != x.shape else x + before
        self._memory[bucket.index()] = whole
        return whole

    def state_dict(self) -> dict[str, Any]:
        """Return the ratio, and what this process has not sent yet, which differs from process to process."""
        return {"ratio": self.ratio, "memory": {str(index): wrap(each.copy()) for index, each in self._memory.items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what was not sent, from ``state_dict`` of the same process of as many.

        Raises:
            ValueError: it is for another ratio.
        """
        if state_dict["ratio"] != self.ratio:
            raise ValueError(f"TopK: state_dict is for ratio={state_dict['ratio']!r}, this one has {self.ratio}")
        self._memory = {int(index): np.array(each.array) for index, each in state_dict["memory"].items()}


def topk_hook(state: TopK, bucket: GradBucket) -> Future:
    """The mean of the largest entries of each process: ratio * (4 + element size) bytes for each entry and process.

    A process adds what it has not sent before, sends the k entries of largest magnitude with their places, and keeps
    the rest (error feedback), so that nothing is lost but time. Sources: S. Stich, J.-B. Cordonnier, M. Jaggi,
    "Sparsified SGD with memory", 2018; Y. Lin et al., "Deep gradient compression", 2018, whose momentum correction,
    clipping and warm-up it does without.

    Raises:
        TypeError: state is not a TopK.
    """
    if not isinstance(state, TopK):
        raise TypeError(f"topk_hook: state must be a TopK, got {type(state).__name__}; register_comm_hook(TopK(), ...)")
    return Future(_steps(state, bucket))


def _steps(state: TopK, bucket: GradBucket) -> Generator[Any, None, Tensor]:
    group, whole = state.group, state.with_memory(bucket)
    count, size = state.count(whole.size), group.size()
    kept = whole.size - count
    places = np.sort(np.argpartition(np.abs(whole), kept)[kept:]) if kept else np.arange(count)
    values = whole[places]
    whole[places] = 0
    own = np.concatenate([places.astype(np.int32).view(np.uint8), values.view(np.uint8)])
    rows = own[None]
    if group.comm is not None:
        rows = np.empty((size, own.size), np.uint8)
        yield started(group, "topk_hook", lambda: group.lane(0).Iallgather(own, rows))
    total = np.zeros_like(whole)
    for row in rows:
        total[row[: 4 * count].view(np.int32)] += row[4 * count :].view(whole.dtype)
    return wrap(total * total.dtype.type(1 / size))


# ---- PyTorch's path to `Join`: processes with different numbers of batches ------------------------------------------


class Join:
    """``with Join([model]):`` is ``with model.join():``.

    joinables: one DistributedDataParallel. enable, throw_on_early_termination, divide_by_initial_world_size: see there.

    Raises:
        TypeError: joinables is something else. ValueError: there are several.
    """

    def __init__(
        self,
        joinables: Sequence[DistributedDataParallel],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        divide_by_initial_world_size: bool = True,
    ) -> None:
        for place, each in enumerate(joinables):
            if not isinstance(each, DistributedDataParallel):
                raise TypeError(
                    f"Join: joinables[{place}] is {type(each).__name__}, expected a DistributedDataParallel; give all "
                    "processes as many batches, as DistributedSampler does, or use a plain optimizer"
                )
        if len(joinables) != 1:
            raise ValueError(f"Join: joinables has {len(joinables)} models, expected one; put them into one module")
        self._block: Any = joinables[0].join(divide_by_initial_world_size, enable, throw_on_early_termination)

    def __enter__(self) -> None:
        self._block.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self._block.__exit__(*error)


attach_to_module(__name__)
