"""The steps of every collective: check arguments, agree with the other processes, start, and store the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...engine.tensor import Tensor
from ..processes import mpi
from ..processes.process_group import ProcessGroup
from ..processes.world import get_group_rank, member
from .buffers import Buffer, as_list, as_tensor, same_kind
from .work import Work

_OF_MPI = {"AVG": "SUM", "PRODUCT": "PROD"}
OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
_BITWISE = ("BAND", "BOR", "BXOR")


class Collective:
    """One call of the collective `name`, by the processes of `group`.

    ``output`` and ``rows`` say where results go, ``run`` does the rest.
    """

    def __init__(self, name: str, group: Any, async_op: bool = False) -> None:
        self.name, self.group, self._async = name, member(group, name), async_op
        self._outputs: list[Buffer] = []
        self._op = "SUM"

    def input(self, name: str, tensor: Any) -> np.ndarray:
        """The elements of a tensor to send."""
        return Buffer(as_tensor(self.name, name, tensor), self.name).array

    def output(self, name: str, tensor: Any) -> np.ndarray:
        """The memory whose elements the tensor gets at the end; it holds the tensor's."""
        self._outputs.append(Buffer(as_tensor(self.name, name, tensor), self.name))
        return self._outputs[-1].array

    def inputs(self, name: str, tensors: Any, alike: tuple[str, Tensor] | None = None) -> np.ndarray:
        """The elements of tensors to send, one for each process, as rows; they have the kind of `alike`."""
        found = self._listed(name, tensors, alike)
        return np.stack([Buffer(each, self.name).array for each in found])

    def outputs(self, name: str, tensors: Any, alike: tuple[str, Tensor]) -> np.ndarray:
        """The memory whose rows the tensors get at the end, one for each process."""
        buffers = [Buffer(each, self.name) for each in self._listed(name, tensors, alike)]
        rows = np.empty((len(buffers), *buffers[0].array.shape), buffers[0].array.dtype)
        for buffer, row in zip(buffers, rows, strict=True):
            buffer.array = row
        self._outputs += buffers
        return rows

    def _listed(self, name: str, tensors: Any, alike: tuple[str, Tensor] | None) -> list[Tensor]:
        found = as_list(self.name, name, tensors, self.group.size())
        named = [(f"{name}[{k}]", each) for k, each in enumerate(found)]
        same_kind(self.name, alike or named[0], named)
        return found

    def combines(self, op: Any, array: np.ndarray) -> Callable[[], Any]:
        """Set the operation that combines elements like those of array; return a function that gives MPI's."""
        check_op(self.name, op, array)
        self._op = op
        return lambda: getattr(mpi.load(), _OF_MPI.get(op, op))

    def root(self, name: str, rank: int | None, in_group: int | None) -> int:
        """The number in the group of the process that sends to all, or receives from all."""
        return root_of(self.name, name, self.group, rank, in_group)

    def run(
        self,
        arguments: str,
        start: Callable[[Any], Any],
        alone: tuple[np.ndarray, Any] | None = None,
    ) -> Work | None:
        """Agree on the call, start it on MPI's communicator, and wait for it unless it is asynchronous.

        alone: (a, b) when a gets b's elements where this is the only process; None: nothing changes there.

        Raises:
            DistError: the processes disagree about the call. DistNetworkError: a process did not come in time.
            WorkerLostError: one has died. DistBackendError: MPI reports something else.
        """
        group, outputs, average = self.group, self._outputs, self._op == "AVG"
        entered = group.agree(f"{self.name}({arguments})")

        def finish() -> None:
            if group.comm is None and alone is not None:
                alone[0][...] = np.reshape(alone[1], alone[0].shape)
            for buffer in outputs:
                if average:
                    np.divide(buffer.array, group.size(), out=buffer.array, casting="unsafe")
                buffer.store()

        tensors = [buffer.tensor for buffer in outputs]
        if group.comm is None:
            work = Work(finish=finish, outputs=tensors)
        else:
            with mpi.errors(entered):
                request = start(group.comm)
            work = Work(group, [request], entered, finish, tensors)
        if self._async:
            return work
        work.wait()
        return None


def check_op(caller: str, op: Any, array: np.ndarray) -> None:
    """Check that elements like those of array can be combined by op.

    Raises:
        ValueError: they cannot.
    """
    if op not in OPS:
        raise ValueError(f"{caller}: op={op!r} must be one of ReduceOp: {', '.join(OPS)}")
    if array.dtype.kind == "f" and op in _BITWISE:
        raise ValueError(f"{caller}: op={op} combines the bits of integers, and the tensor holds {array.dtype}")
    if array.dtype.kind != "f" and op == "AVG":
        raise ValueError(f"{caller}: op=AVG divides, and the tensor holds integers; use SUM, or convert it to float")


def root_of(caller: str, name: str, group: ProcessGroup, rank: int | None, in_group: int | None) -> int:
    """The number in the group of process `rank` of the world, or of `in_group`; 0 if neither is given.

    Raises:
        ValueError: both are given, or it is not in the group.
    """
    if in_group is not None:
        if rank is not None:
            raise ValueError(f"{caller}: pass {name} or group_{name}, not both")
        if not 0 <= in_group < group.size():
            raise ValueError(f"{caller}: group_{name}={in_group} must be from 0 to {group.size() - 1}")
        return in_group
    if rank not in group.ranks and rank is not None:
        raise ValueError(f"{caller}: {name}={rank} is not in the group, which has the ranks {group.ranks}")
    return 0 if rank is None else get_group_rank(group, rank)


def check_list(caller: str, name: str, value: Any, mine: bool, role: str) -> None:
    """Check that the process with the role passes a list, and no other.

    Raises:
        ValueError: it is not so.
    """
    if mine and value is None:
        raise ValueError(f"{caller}: {name} is missing: the process that is {role} passes a list of Tensors")
    if not mine and value:
        raise ValueError(f"{caller}: {name} is for the process that is {role}; leave it out here")


def check_whole(caller: str, name: str, whole: np.ndarray, other: str, piece: np.ndarray, count: int) -> None:
    """Check that whole is `count` pieces, one after the other along its first axis, or along a new one.

    Raises:
        ValueError: it is not.
    """
    stacked = (count, *piece.shape)
    joined = (count * piece.shape[0], *piece.shape[1:]) if piece.ndim else (count,)
    if whole.shape not in (stacked, joined) or whole.dtype != piece.dtype:
        raise ValueError(
            f"{caller}: {name} is {whole.dtype} {whole.shape}, expected {piece.dtype} {joined} or {stacked}: {other} "
            f"of {count} processes"
        )


def sizes_of(caller: str, name: str, sizes: Sequence[int] | None, array: np.ndarray, count: int) -> list[int]:
    """Return the number of elements in each of `count` pieces; sizes: their extents along the first axis, None: equal.

    Raises:
        ValueError: the pieces do not make up the array.
    """
    total, row = array.shape[0], int(np.prod(array.shape[1:]))
    if sizes is None:
        if total % count:
            raise ValueError(f"{caller}: {total} rows cannot be cut into {count} equal pieces; pass {name}")
        return [total // count * row] * count
    if len(sizes) != count or sum(sizes) != total or min(sizes) < 0:
        raise ValueError(f"{caller}: {name}={list(sizes)} must be {count} sizes that add up to {total}")
    return [int(size) * row for size in sizes]
