"""Collectives on tensors, with the names and meanings of torch.distributed.

All processes of a group call the same collective, with tensors of the same shape and dtype. They tell each other first
what they are about to do, so a difference is an error that names both sides. With ``async_op=True`` a collective
returns a ``Work``; its result is there after ``wait()``.

``all_reduce`` adds in the order that MPI chooses: the last bits may differ with the number of processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...engine.tensor import Tensor
from ..processes import mpi
from ..processes.process_group import ProcessGroup
from ..processes.waiting import as_seconds
from ..processes.world import member
from .buffers import kind
from .collective import Collective, check_list, check_whole, sizes_of
from .work import Work

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


class ReduceOp:
    """The operations that combine elements. AVG is the sum divided by the number of processes."""

    SUM, AVG, PRODUCT, MIN, MAX = "SUM", "AVG", "PRODUCT", "MIN", "MAX"
    BAND, BOR, BXOR = "BAND", "BOR", "BXOR"


reduce_op = ReduceOp


def all_reduce(
    tensor: Tensor, op: str = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Combine the tensors of all processes; each gets the result in its tensor.

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
    """Combine the tensors of all processes; process dst (a number in the world) gets the result in its tensor.

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
    """Copy the tensor of process src (a number in the world) to that of all others.

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
    """Put the tensors of all processes into one, one after the other along its first axis, or along a new one.

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
    """Put the tensor of each process into the list of process dst, by rank. The others pass no list.

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
    """Give each process one tensor of the list of process src, by rank. The others pass no list.

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
        As all_gather. The tensors have one shape and dtype; ``all_to_all_single`` takes pieces of several sizes.
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

    output_split_sizes, input_split_sizes: extents of the pieces; None: equal ones.

    Raises:
        As all_reduce; ValueError: the pieces do not make up a tensor.
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
    """Wait until all processes are here.

    Raises:
        As all_reduce.
    """
    return Collective("barrier", group, async_op).run("", lambda comm: comm.Ibarrier())


def monitored_barrier(group: ProcessGroup | None = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """``barrier`` with a timeout of its own, that of the group for None. All missing ranks are named in any case.

    Raises:
        As all_reduce; ValueError: timeout is no time above 0.
    """
    where = member(group, "monitored_barrier")
    before = where.timeout
    where.timeout = before if timeout is None else as_seconds("monitored_barrier", timeout)
    try:
        barrier(where)
    finally:
        where.timeout = before
