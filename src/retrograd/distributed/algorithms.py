"""Communication hooks of DistributedDataParallel, and Join, at PyTorch's path `torch.distributed.algorithms`.

MPI cannot add 16-bit floats. A 16-bit hook therefore does a reduce-scatter and an all-gather by hand: each process
receives its part of every process's gradients in 16 bits, adds these parts as float32 in rank order, and sends the mean
of its part to all processes, again in 16 bits. This is the traffic of a ring all-reduce, but each number is rounded
only twice, not at each addition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from ..engine.arguments import kind_name
from ..engine.tensor import Tensor, wrap
from ..torch_api.missing import attach_to_module
from . import mpi
from .data_parallel import DistributedDataParallel
from .gradient_bucket import GradBucket
from .process_group import ProcessGroup, describe_call
from .work import Future, Work
from .world import member

__all__ = ["Join", "TopK", "allreduce_hook", "bf16_compress_hook", "fp16_compress_hook", "topk_hook"]


# ---- Hooks that exchange whole gradients, unchanged or in 16 bits ---------------------------------------------------


def allreduce_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Return the mean gradient of all processes by an MPI all-reduce, as reproducible=False does without a hook.

    Raises:
        RuntimeError: there is no process group.
    """
    group, x = member(process_group, "allreduce_hook"), bucket.buffer().array

    def steps() -> Generator[Any, None, Tensor]:
        total = x.copy()
        if group.comm is not None:
            yield start_collective(
                group, "allreduce_hook", lambda: group.lane(0).Iallreduce(mpi.load().IN_PLACE, total)
            )
        total *= total.dtype.type(1 / group.size())
        return wrap(total)

    return Future(steps())


def bf16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Return the mean gradient of all processes, sent as bfloat16.

    bfloat16 takes half the bytes of float32 and has the same range, with 8 bits of precision.

    Raises:
        RuntimeError: there is no process group.
    """
    group = member(process_group, "bf16_compress_hook")
    return Future(_mean("bf16_compress_hook", group, bucket.buffer().array, as_bf16, from_bf16))


def fp16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Return the mean gradient of all processes, sent as float16.

    float16 takes half the bytes of float32 and has 11 bits of precision; its largest number is 65504. Each gradient is
    divided by the number of processes before it is sent.

    Raises:
        RuntimeError: there is no process group.
    """
    group = member(process_group, "fp16_compress_hook")
    return Future(_mean("fp16_compress_hook", group, bucket.buffer().array, _as_fp16, _from_fp16))


def start_collective(group: ProcessGroup, name: str, start: Callable[[], Any]) -> Work:
    """Start one of a hook's collectives and return its Work."""
    entered = describe_call(group.count, name)
    with mpi.errors(entered):
        return Work(group, [start()], entered)


def _mean(
    name: str,
    group: ProcessGroup,
    x: np.ndarray,
    encode: Callable[[np.ndarray], np.ndarray],
    decode: Callable[[np.ndarray], np.ndarray],
) -> Generator[Any, None, Tensor]:
    """Average x over the processes; encode(x), a uint16 array of the same size, is what is sent."""
    size, rank = group.size(), group.rank()
    bounds = [k * x.size // size for k in range(size + 1)]
    lengths = np.diff(bounds)
    own = encode(x.astype(np.float32, copy=False) / np.float32(size))
    if group.comm is not None:
        own_length = int(lengths[rank])
        parts = np.empty((size, own_length), np.uint16)
        counts = [own_length] * size
        yield start_collective(group, name, lambda: group.lane(0).Ialltoallv([own, lengths], [parts, counts]))
        total = decode(parts[0])
        for part in parts[1:]:
            total += decode(part)
        own[bounds[rank] : bounds[rank + 1]] = encode(total)
        yield start_collective(group, name, lambda: group.lane(1).Iallgatherv(mpi.load().IN_PLACE, [own, lengths]))
    return wrap(decode(own).astype(x.dtype, copy=False))


def as_bf16(x: np.ndarray) -> np.ndarray:
    """Round float32 to bfloat16, ties to even, as uint16."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)  # rounding up could turn a NaN into infinity or 0
    if nan.any():
        rounded[nan] = 0x7FC0
    return rounded.astype(np.uint16)


def from_bf16(code: np.ndarray) -> np.ndarray:
    """Convert bfloat16, stored as uint16, to float32."""
    return (code.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _as_fp16(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # numbers that are too large become infinite
        return x.astype(np.float16).view(np.uint16)


def _from_fp16(code: np.ndarray) -> np.ndarray:
    return code.view(np.float16).astype(np.float32)


# ---- Sparse hook with error feedback --------------------------------------------------------------------------------


class TopK:
    """The state of ``topk_hook``: the part of each bucket's gradient that this process has not sent yet.

    ratio: the fraction of a bucket's entries that is sent, at least one entry.

    Raises:
        ValueError: ratio is not above 0 and at most 1. RuntimeError: there is no process group.
    """

    group: ProcessGroup
    ratio: float

    def __init__(self, ratio: float = 0.01, process_group: ProcessGroup | None = None) -> None:
        if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 < ratio <= 1:
            raise ValueError(f"TopK: ratio={ratio!r} must be a number above 0 and at most 1")
        self.ratio, self.group = float(ratio), member(process_group, "TopK")
        self._memory: dict[int, np.ndarray] = {}

    def count(self, size: int) -> int:
        """Return the number of entries to send out of `size`."""
        return min(size, max(1, math.ceil(self.ratio * size)))

    def with_memory(self, bucket: GradBucket) -> np.ndarray:
        """Add the unsent remainder to the gradient of a bucket; the sum, a new array, becomes the new remainder."""
        x, before = bucket.buffer().array, self._memory.get(bucket.index())
        whole = x.copy() if before is None or before.shape != x.shape else x + before
        self._memory[bucket.index()] = whole
        return whole

    def state_dict(self) -> dict[str, Any]:
        """Return the ratio and the unsent gradients of this process; each process has its own."""
        return {"ratio": self.ratio, "memory": {str(index): wrap(each.copy()) for index, each in self._memory.items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the unsent entries from the same rank's ``state_dict``, saved with the same number of processes.

        Raises:
            ValueError: state_dict is for another ratio.
        """
        if state_dict["ratio"] != self.ratio:
            raise ValueError(f"TopK: state_dict is for ratio={state_dict['ratio']!r}, this one has {self.ratio}")
        self._memory = {int(index): np.array(each.array) for index, each in state_dict["memory"].items()}


def topk_hook(state: TopK, bucket: GradBucket) -> Future:
    """Average only the largest entries of each process's gradient, at ratio * (4 + element size) bytes per entry.

    Each process adds its unsent entries of earlier steps to the gradient, sends the k entries of largest magnitude with
    their indices, and keeps the rest for the next step (error feedback). Entries are delayed, but never lost.

    Sources: S. Stich, J.-B. Cordonnier, M. Jaggi, "Sparsified SGD with memory", 2018; Y. Lin et al., "Deep gradient
    compression", 2018, without its momentum correction, clipping and warm-up.

    Raises:
        TypeError: state is not a TopK.
    """
    if not isinstance(state, TopK):
        raise TypeError(f"topk_hook: state must be a TopK, got {kind_name(state)}; register_comm_hook(TopK(), ...)")
    return Future(_steps(state, bucket))


def _steps(state: TopK, bucket: GradBucket) -> Generator[Any, None, Tensor]:
    group, whole = state.group, state.with_memory(bucket)
    count, size = state.count(whole.size), group.size()
    remaining = whole.size - count
    indices = np.sort(np.argpartition(np.abs(whole), remaining)[remaining:]) if remaining else np.arange(count)
    values = whole[indices]
    whole[indices] = 0
    own = np.concatenate([indices.astype(np.int32).view(np.uint8), values.view(np.uint8)])
    rows = own[None]
    if group.comm is not None:
        rows = np.empty((size, own.size), np.uint8)
        yield start_collective(group, "topk_hook", lambda: group.lane(0).Iallgather(own, rows))
    total = np.zeros_like(whole)
    for row in rows:
        total[row[: 4 * count].view(np.int32)] += row[4 * count :].view(whole.dtype)
    return wrap(total * total.dtype.type(1 / size))


# ---- Join: processes with different numbers of batches --------------------------------------------------------------


class Join:
    """PyTorch's name for ``DistributedDataParallel.join``: ``with Join([model]):`` is ``with model.join():``.

    joinables: one DistributedDataParallel. enable, throw_on_early_termination, divide_by_initial_world_size: see
    ``DistributedDataParallel.join``.

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
                    f"Join: joinables[{place}] is {kind_name(each)}, expected a DistributedDataParallel; give all "
                    "processes the same number of batches, as DistributedSampler does, or use a plain optimizer"
                )
        if len(joinables) != 1:
            raise ValueError(f"Join: joinables has {len(joinables)} models, expected one; put them into one module")
        self._block: Any = joinables[0].join(divide_by_initial_world_size, enable, throw_on_early_termination)

    def __enter__(self) -> None:
        self._block.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self._block.__exit__(*error)


attach_to_module(__name__)
