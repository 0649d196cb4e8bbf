"""Hooks that exchange whole gradients: as they are, or in numbers of 16 bits.

MPI adds no such numbers. So each process receives one part of the gradients of all in 16 bits, adds them as float32 in
the order of the ranks, and sends the mean to all in 16 bits again. That is as much traffic as a ring, and numbers are
rounded twice instead of at each addition.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from ....engine.tensor import Tensor, wrap
from ...collectives.future import Future
from ...collectives.work import Work
from ...gradients.grad_bucket import GradBucket
from ...processes import mpi
from ...processes.entered import enter
from ...processes.process_group import ProcessGroup
from ...processes.world import member

__all__ = ["allreduce_hook", "bf16_compress_hook", "fp16_compress_hook"]


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
