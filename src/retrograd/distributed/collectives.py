"""Collectives on tensors: all_reduce, broadcast, gather, scatter, all_to_all, barrier.

All processes of a group call the same collective, with tensors of the same shape and dtype. They first tell each other
what they are about to do, so a mismatch becomes an error that names both sides. With ``async_op=True`` a collective
returns a ``Work``; its result is available after ``wait()``.

``all_reduce`` adds in an order chosen by MPI, so the last bits may differ with the number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.aliasing import mark_changed
from ..engine.tensor import Tensor
from . import mpi
from .process_group import ProcessGroup, as_seconds
from .work import Work
from .world import get_group_rank, member

__all__ = [
    "ReduceOp",
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
]


# ---- Tensors as memory that MPI reads and writes --------------------------------------------------------------------

_WIDER: dict[Any, Any] = {np.dtype(np.float16): np.dtype(np.float32), np.dtype(bool): np.dtype(np.uint8)}


class Buffer:
    """A tensor's elements as contiguous memory, `array`, of a type that MPI can add. `store` writes them back."""

    tensor: Tensor

    def __init__(self, tensor: Tensor, caller: str) -> None:
        self.tensor, self._caller = tensor, caller
        own = tensor.array
        self.array: np.ndarray = np.ascontiguousarray(own, _WIDER.get(own.dtype, own.dtype))

    def store(self) -> None:
        """Write `array` to the tensor and record the change."""
        own = self.tensor.array
        if self.array is not own:
            own[...] = self.array
        mark_changed((own,), self._caller)


def as_tensor(caller: str, name: str, value: Any) -> Tensor:
    """Return value if it is a Tensor.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, Tensor):
        raise TypeError(f"{caller}: {name} must be a Tensor, got {type(value).__name__}")
    return value


def as_list(caller: str, name: str, values: Any, count: int) -> list[Tensor]:
    """Return values if they are `count` Tensors, one for each process.

    Raises:
        TypeError, ValueError: they are something else.
    """
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"{caller}: {name} must be a list of Tensors, got {type(values).__name__}")
    found = [as_tensor(caller, f"{name}[{place}]", value) for place, value in enumerate(values)]
    if len(found) != count:
        raise ValueError(f"{caller}: {name} has {len(found)} tensors, expected {count}: one for each process")
    return found


def same_kind(caller: str, first: tuple[str, Tensor], others: Sequence[tuple[str, Tensor]]) -> None:
    """Check that all tensors have the shape and dtype of the first.

    Raises:
        ValueError: a tensor has another shape or dtype.
    """
    name, tensor = first
    for other, each in others:
        if each.array.shape != tensor.array.shape or each.array.dtype != tensor.array.dtype:
            raise ValueError(f"{caller}: {other} is {kind(each)}, {name} is {kind(tensor)}; make them the same")


def kind(tensor: Tensor) -> str:
    """Return dtype and shape, such as "float32 (3, 4)"."""
    return f"{tensor.array.dtype} {tuple(tensor.array.shape)}"


# ---- The steps of every collective: argument checks, agreement, start, and storing of results -----------------------

_OF_MPI = {"AVG": "SUM", "PRODUCT": "PROD"}
OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
_BITWISE = ("BAND", "BOR", "BXOR")


class Collective:
    """One call of the collective `name` by the processes of `group`.

    ``output`` and ``outputs`` determine where results go; ``run`` does the rest.
    """

    group: ProcessGroup
    name: str

    def __init__(self, name: str, group: Any, async_op: bool = False) -> None:
        self.name, self.group, self._async = name, member(group, name), async_op
        self._outputs: list[Buffer] = []
        self._op = "SUM"

    def input(self, name: str, tensor: Any) -> np.ndarray:
        """Return the elements of a tensor to send."""
        return Buffer(as_tensor(self.name, name, tensor), self.name).array

    def output(self, name: str, tensor: Any) -> np.ndarray:
        """Return memory that initially contains the tensor's elements and is copied to the tensor at the end."""
        self._outputs.append(Buffer(as_tensor(self.name, name, tensor), self.name))
        return self._outputs[-1].array

    def inputs(self, name: str, tensors: Any, alike: tuple[str, Tensor] | None = None) -> np.ndarray:
        """Return the elements of tensors to send, one for each process, as rows; they have the kind of `alike`."""
        found = self._listed(name, tensors, alike)
        return np.stack([Buffer(each, self.name).array for each in found])

    def outputs(self, name: str, tensors: Any, alike: tuple[str, Tensor]) -> np.ndarray:
        """Return memory whose rows are copied to the tensors at the end, one for each process."""
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
        """Set the operation that combines elements like array's; return a function that gives MPI's operation."""
        check_op(self.name, op, array)
        self._op = op
        return lambda: getattr(mpi.load(), _OF_MPI.get(op, op))

    def root(self, name: str, rank: int | None, in_group: int | None) -> int:
        """Return the rank in the group of the process that sends to all, or receives from all."""
        return root_of(self.name, name, self.group, rank, in_group)

    def run(
        self,
        arguments: str,
        start: Callable[[Any], Any],
        alone: tuple[np.ndarray, Any] | None = None,
    ) -> Work | None:
        """Agree on the call, start it on MPI's communicator, and wait for it unless it is asynchronous.

        alone: (a, b) if a gets b's elements when this is the only process; None if nothing changes then.

        Raises:
            DistError: the processes disagree about the call. DistNetworkError: a process did not come in time.
            WorkerLostError: a process has died. DistBackendError: MPI reports another error.
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
    """Check that op can combine elements like those of array.

    Raises:
        ValueError: op is unknown or does not fit the dtype.
    """
    if op not in OPS:
        raise ValueError(f"{caller}: op={op!r} must be one of ReduceOp: {', '.join(OPS)}")
    if array.dtype.kind == "f" and op in _BITWISE:
        raise ValueError(f"{caller}: op={op} combines the bits of integers, and the tensor holds {array.dtype}")
    if array.dtype.kind != "f" and op == "AVG":
        raise ValueError(f"{caller}: op=AVG divides, and the tensor holds integers; use SUM, or convert it to float")


def root_of(caller: str, name: str, group: ProcessGroup, rank: int | None, in_group: int | None) -> int:
    """Return the rank in the group of process `rank` of the world, or `in_group`; 0 if neither is given.

    Raises:
        ValueError: both are given, or the process is not in the group.
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
    """Check that the process with this role passes a list, and that no other process does.

    Raises:
        ValueError: a list is missing, or is passed by another process.
    """
    if mine and value is None:
        raise ValueError(f"{caller}: {name} is missing: the process that is {role} passes a list of Tensors")
    if not mine and value:
        raise ValueError(f"{caller}: {name} is for the process that is {role}; leave it out here")


def check_whole(caller: str, name: str, whole: np.ndarray, other: str, piece: np.ndarray, count: int) -> None:
    """Check that whole consists of `count` pieces, concatenated along its first axis or stacked along a new one.

    Raises:
        ValueError: it does not.
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
        ValueError: the pieces do not add up to the array.
    """
    total, row = array.shape[0], int(np.prod(array.shape[1:]))
    if sizes is None:
        if total % count:
            raise ValueError(f"{caller}: {total} rows cannot be cut into {count} equal pieces; pass {name}")
        return [total // count * row] * count
    if len(sizes) != count or sum(sizes) != total or min(sizes) < 0:
        raise ValueError(f"{caller}: {name}={list(sizes)} must be {count} sizes that add up to {total}")
    return [int(size) * row for size in sizes]


# ---- Collectives on tensors, with the names and meanings of torch.distributed ---------------------------------------


class ReduceOp:
    """Operations that combine elements. AVG is the sum divided by the number of processes."""

    SUM, AVG, PRODUCT, MIN, MAX = "SUM", "AVG", "PRODUCT", "MIN", "MAX"
    BAND, BOR, BXOR = "BAND", "BOR", "BXOR"


reduce_op = ReduceOp


def all_reduce(
    tensor: Tensor, op: str = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Combine the tensors of all processes; each process gets the result in its tensor.

    Raises:
        ValueError: op is unknown, or does not fit the dtype. DistError: the processes disagree about the call.
        DistNetworkError: a process did not come in time. WorkerLostError: one has died.
        RuntimeError: there is no group.
    """
    call = Collective("all_reduce", group, async_op)
    x = call.output("tensor", tensor)
    operation = call.combines(op, x)
    return call.run(f"{kind(tensor)}, {op}", lambda comm: comm.Iallreduce(mpi.load().IN_PLACE, x, operation()))


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: str = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Combine the tensors of all processes; process dst (its rank in the world) gets the result in its tensor.

    Raises:
        As all_reduce; ValueError: dst is not in the group.
    """
    call = Collective("reduce", group, async_op)
    x = call.input("tensor", tensor)
    operation, root = call.combines(op, x), call.root("dst", dst, group_dst)
    mine = call.group.rank() == root
    x = call.output("tensor", tensor) if mine else x.copy()

    def start(comm: Any) -> Any:
        return comm.Ireduce(mpi.load().IN_PLACE if mine else x, x if mine else None, operation(), root)

    return call.run(f"{kind(tensor)}, {op}, dst={root}", start)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy the tensor of process src (its rank in the world) to the tensors of all others.

    Raises:
        As all_reduce; ValueError: src is not in the group.
    """
    call = Collective("broadcast", group, async_op)
    x, root = call.output("tensor", tensor), call.root("src", src, group_src)
    return call.run(f"{kind(tensor)}, src={root}", lambda comm: comm.Ibcast(x, root))


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Put the tensor of each process into the list of every process, by rank.

    Raises:
        As all_reduce; ValueError: the list has another length, or tensors of another shape or dtype.
    """
    call = Collective("all_gather", group, async_op)
    own = call.input("tensor", tensor)
    rows = call.outputs("tensor_list", tensor_list, ("tensor", tensor))
    return call.run(kind(tensor), lambda comm: comm.Iallgather(own, rows), (rows, own))


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Put the tensors of all processes into one, concatenated along its first axis or stacked along a new one.

    Raises:
        As all_reduce; ValueError: output_tensor is not of size (processes * n, ...) or (processes, n, ...).
    """
    call = Collective("all_gather_into_tensor", group, async_op)
    whole, own = call.output("output_tensor", output_tensor), call.input("input_tensor", input_tensor)
    check_whole(call.name, "output_tensor", whole, "input_tensor", own, call.group.size())
    return call.run(kind(input_tensor), lambda comm: comm.Iallgather(own, whole), (whole, own))


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Put the tensor of each process into the list of process dst, by rank. The other processes pass no list.

    Raises:
        As all_gather; ValueError: dst has no list, or another process has one.
    """
    call = Collective("gather", group, async_op)
    own, root = call.input("tensor", tensor), call.root("dst", dst, group_dst)
    mine = call.group.rank() == root
    check_list("gather", "gather_list", gather_list, mine, "dst")
    rows = call.outputs("gather_list", gather_list, ("tensor", tensor)) if mine else None
    alone = None if rows is None else (rows, own)
    return call.run(f"{kind(tensor)}, dst={root}", lambda comm: comm.Igather(own, rows, root), alone)


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give each process one tensor of the list of process src, by rank. The other processes pass no list.

    Raises:
        As all_gather; ValueError: src has no list, or another process has one.
    """
    call = Collective("scatter", group, async_op)
    own, root = call.output("tensor", tensor), call.root("src", src, group_src)
    mine = call.group.rank() == root
    check_list("scatter", "scatter_list", scatter_list, mine, "src")
    rows = call.inputs("scatter_list", scatter_list, ("tensor", tensor)) if mine else None
    alone = None if rows is None else (own, rows)
    return call.run(f"{kind(tensor)}, src={root}", lambda comm: comm.Iscatter(rows, own, root), alone)


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: str = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Combine the lists of all processes entry by entry; process k gets entry k.

    Raises:
        As all_gather.
    """
    call = Collective("reduce_scatter", group, async_op)
    own = call.output("output", output)
    return _reduce_scatter(call, output, own, call.inputs("input_list", input_list, ("output", output)), op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: str = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Combine the tensors of all processes and cut the result along the first axis; process k gets piece k.

    Raises:
        As all_reduce; ValueError: input is not of size (processes * n, ...) or (processes, n, ...).
    """
    call = Collective("reduce_scatter_tensor", group, async_op)
    rows, own = call.input("input", input), call.output("output", output)
    check_whole(call.name, "input", rows, "output", own, call.group.size())
    return _reduce_scatter(call, output, own, rows, op)


def _reduce_scatter(call: Collective, output: Tensor, own: np.ndarray, rows: np.ndarray, op: str) -> Work | None:
    operation = call.combines(op, rows)
    return call.run(
        f"{kind(output)}, {op}", lambda comm: comm.Ireduce_scatter_block(rows, own, operation()), (own, rows)
    )


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send entry k of the input list to process k, and receive entry k of the output list from it.

    Raises:
        As all_gather. All tensors must have one shape and dtype; ``all_to_all_single`` takes pieces of different sizes.
    """
    call = Collective("all_to_all", group, async_op)
    sent = call.inputs("input_tensor_list", input_tensor_list)
    first = input_tensor_list[0]
    rows = call.outputs("output_tensor_list", output_tensor_list, ("input_tensor_list[0]", first))
    return call.run(kind(first), lambda comm: comm.Ialltoall(sent, rows), (rows, sent))


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Cut the input along its first axis, send piece k to process k, and put the pieces received one after the other.

    output_split_sizes, input_split_sizes: extents of the pieces; None: equal pieces.

    Raises:
        As all_reduce; ValueError: the pieces do not add up to a tensor.
    """
    call = Collective("all_to_all_single", group, async_op)
    whole, own = call.output("output", output), call.input("input", input)
    if own.shape[1:] != whole.shape[1:] or own.dtype != whole.dtype or not own.ndim:
        raise ValueError(f"{call.name}: input is {kind(input)}, output {kind(output)}; only the first axis may differ")
    sent = sizes_of(call.name, "input_split_sizes", input_split_sizes, own, call.group.size())
    taken = sizes_of(call.name, "output_split_sizes", output_split_sizes, whole, call.group.size())

    def start(comm: Any) -> Any:
        return comm.Ialltoallv([own, sent], [whole, taken])

    return call.run(f"{own.dtype} {own.shape[1:]}", start, (whole, own))


def barrier(group: ProcessGroup | None = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all processes have called it.

    Raises:
        As all_reduce.
    """
    return Collective("barrier", group, async_op).run("", lambda comm: comm.Ibarrier())


def monitored_barrier(group: ProcessGroup | None = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Do a ``barrier`` with its own timeout; None means the group's. All missing ranks are named in any case.

    Raises:
        As all_reduce; ValueError: timeout is not a positive time.
    """
    where = member(group, "monitored_barrier")
    before = where.timeout
    where.timeout = before if timeout is None else as_seconds("monitored_barrier", timeout)
    try:
        barrier(where)
    finally:
        where.timeout = before
