"""Collectives on tensors, with the names and meanings of torch.distributed.

All processes of a group call the same collective, with tensors of the same shape and dtype. They tell each other first
what they are about to do, so a difference is an error that names both sides. With ``async_op=True`` a collective
returns a ``Work``; its result is there after ``wait()``.

``all_reduce`` adds in the order that MPI chooses: the last bits may differ with the number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from . import mpi
from .buffers import Buffer, as_list, as_tensor, kind, same_kind
from .process_group import ProcessGroup, as_seconds, get_group_rank, member
from .work import Work

__all__ = [
    "ReduceOp", "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "all_to_all_single", "barrier",
    "broadcast", "gather", "monitored_barrier", "reduce", "reduce_op", "reduce_scatter", "reduce_scatter_tensor",
    "scatter",
]  # fmt: skip


class ReduceOp:
    """How elements are combined. AVG is the sum divided by the number of processes."""

    SUM, AVG, PRODUCT, MIN, MAX = "SUM", "AVG", "PRODUCT", "MIN", "MAX"
    BAND, BOR, BXOR = "BAND", "BOR", "BXOR"


reduce_op = ReduceOp
_OF_MPI = {"AVG": "SUM", "PRODUCT": "PROD"}
_OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
_BITWISE = ("BAND", "BOR", "BXOR")


def all_reduce(
    tensor: Tensor, op: str = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Combine the tensors of all processes; each gets the result in its tensor.

    Raises:
        ValueError: op is unknown, or does not fit the dtype. DistError: the processes disagree about the call.
        DistNetworkError: a process did not come in time. WorkerLostError: one has died.
        RuntimeError: there is no group.
    """
    where, buffer = member(group, "all_reduce"), Buffer(as_tensor("all_reduce", "tensor", tensor), "all_reduce")
    _check_op("all_reduce", op, buffer.array)

    def start(comm: Any) -> Any:
        return comm.Iallreduce(mpi.load().IN_PLACE, buffer.array, _operation(op))

    def finish() -> None:
        _average(op, buffer, where)
        buffer.store()

    return run(where, f"all_reduce({kind(tensor)}, {op})", start, finish, async_op)


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
    where, buffer = member(group, "reduce"), Buffer(as_tensor("reduce", "tensor", tensor), "reduce")
    _check_op("reduce", op, buffer.array)
    root = _root("reduce", "dst", where, dst, group_dst)
    mine = where.rank() == root
    own = buffer.array if mine else buffer.array.copy()

    def start(comm: Any) -> Any:
        return comm.Ireduce(mpi.load().IN_PLACE if mine else own, own if mine else None, _operation(op), root)

    def finish() -> None:
        if mine:
            _average(op, buffer, where)
            buffer.store()

    return run(where, f"reduce({kind(tensor)}, {op}, dst={root})", start, finish, async_op)


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
    where, buffer = member(group, "broadcast"), Buffer(as_tensor("broadcast", "tensor", tensor), "broadcast")
    root = _root("broadcast", "src", where, src, group_src)
    return run(where, f"broadcast({kind(tensor)}, src={root})", lambda comm: comm.Ibcast(buffer.array, root),
               buffer.store, async_op)  # fmt: skip


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Put the tensor of each process into the list of every process, by rank.

    Raises:
        As all_reduce; ValueError: the list has another length, or tensors of another shape or dtype.
    """
    where = member(group, "all_gather")
    outputs = as_list("all_gather", "tensor_list", tensor_list, where.size())
    own = Buffer(as_tensor("all_gather", "tensor", tensor), "all_gather").array
    same_kind("all_gather", ("tensor", tensor), [(f"tensor_list[{k}]", each) for k, each in enumerate(outputs)])
    rows = np.empty((where.size(), *own.shape), own.dtype)

    def start(comm: Any) -> Any:
        return comm.Iallgather(own, rows)

    return run(where, f"all_gather({kind(tensor)})", start, _stored(where, rows, own, outputs, "all_gather"), async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Put the tensors of all processes into one, one after the other along its first axis, or along a new one.

    Raises:
        As all_reduce; ValueError: output_tensor is not of size (processes * n, ...) or (processes, n, ...).
    """
    caller = "all_gather_into_tensor"
    where = member(group, caller)
    out = Buffer(as_tensor(caller, "output_tensor", output_tensor), caller)
    own = Buffer(as_tensor(caller, "input_tensor", input_tensor), caller).array
    _check_whole(caller, "output_tensor", out.array, "input_tensor", own, where.size())

    def start(comm: Any) -> Any:
        return comm.Iallgather(own, out.array)

    def finish() -> None:
        if where.comm is None:
            out.array[...] = own.reshape(out.array.shape)
        out.store()

    return run(where, f"{caller}({kind(input_tensor)})", start, finish, async_op)


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
    where = member(group, "gather")
    own = Buffer(as_tensor("gather", "tensor", tensor), "gather").array
    root = _root("gather", "dst", where, dst, group_dst)
    mine = where.rank() == root
    _check_list("gather", "gather_list", gather_list, mine, "dst")
    outputs = as_list("gather", "gather_list", gather_list, where.size()) if mine else []
    same_kind("gather", ("tensor", tensor), [(f"gather_list[{k}]", each) for k, each in enumerate(outputs)])
    rows = np.empty((where.size() if mine else 0, *own.shape), own.dtype)

    def start(comm: Any) -> Any:
        return comm.Igather(own, rows if mine else None, root)

    finish = _stored(where, rows, own, outputs, "gather")
    return run(where, f"gather({kind(tensor)}, dst={root})", start, finish, async_op)


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
    where, buffer = member(group, "scatter"), Buffer(as_tensor("scatter", "tensor", tensor), "scatter")
    root = _root("scatter", "src", where, src, group_src)
    mine = where.rank() == root
    _check_list("scatter", "scatter_list", scatter_list, mine, "src")
    inputs = as_list("scatter", "scatter_list", scatter_list, where.size()) if mine else []
    same_kind("scatter", ("tensor", tensor), [(f"scatter_list[{k}]", each) for k, each in enumerate(inputs)])
    rows = np.stack([each.array for each in inputs]).astype(buffer.array.dtype) if mine else None

    def start(comm: Any) -> Any:
        return comm.Iscatter(rows, buffer.array, root)

    def finish() -> None:
        if where.comm is None and rows is not None:
            buffer.array[...] = rows[0]
        buffer.store()

    return run(where, f"scatter({kind(tensor)}, src={root})", start, finish, async_op)


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
    where = member(group, "reduce_scatter")
    inputs = as_list("reduce_scatter", "input_list", input_list, where.size())
    as_tensor("reduce_scatter", "output", output)
    same_kind("reduce_scatter", ("output", output), [(f"input_list[{k}]", each) for k, each in enumerate(inputs)])
    rows = np.stack([Buffer(each, "reduce_scatter").array for each in inputs])
    return _reduce_scatter("reduce_scatter", output, rows, op, where, async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: str = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Combine the tensors of all processes and cut the result along the first axis; process k gets piece k.

    Raises:
        As all_reduce; ValueError: input is not of size (processes * n, ...) or (processes, n, ...).
    """
    caller = "reduce_scatter_tensor"
    where = member(group, caller)
    rows = Buffer(as_tensor(caller, "input", input), caller).array
    _check_whole(caller, "input", rows, "output", as_tensor(caller, "output", output).array, where.size())
    return _reduce_scatter(caller, output, rows, op, where, async_op)


def _reduce_scatter(
    caller: str, output: Tensor, rows: np.ndarray, op: str, where: ProcessGroup, async_op: bool
) -> Work | None:
    buffer = Buffer(output, caller)
    _check_op(caller, op, rows)

    def start(comm: Any) -> Any:
        return comm.Ireduce_scatter_block(rows, buffer.array, _operation(op))

    def finish() -> None:
        if where.comm is None:
            buffer.array[...] = rows.reshape(buffer.array.shape)
        _average(op, buffer, where)
        buffer.store()

    return run(where, f"{caller}({kind(output)}, {op})", start, finish, async_op)


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
    caller = "all_to_all"
    where = member(group, caller)
    outputs = as_list(caller, "output_tensor_list", output_tensor_list, where.size())
    inputs = as_list(caller, "input_tensor_list", input_tensor_list, where.size())
    all_of_them = [(f"input_tensor_list[{k}]", each) for k, each in enumerate(inputs)]
    all_of_them += [(f"output_tensor_list[{k}]", each) for k, each in enumerate(outputs)]
    same_kind(caller, all_of_them[0], all_of_them)
    sent = np.stack([Buffer(each, caller).array for each in inputs])
    rows = np.empty_like(sent)

    def start(comm: Any) -> Any:
        return comm.Ialltoall(sent, rows)

    finish = _stored(where, rows, sent[0], outputs, caller)
    return run(where, f"{caller}({kind(inputs[0])})", start, finish, async_op)


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
    caller = "all_to_all_single"
    where = member(group, caller)
    out = Buffer(as_tensor(caller, "output", output), caller)
    own = Buffer(as_tensor(caller, "input", input), caller).array
    if own.shape[1:] != out.array.shape[1:] or own.dtype != out.array.dtype or not own.ndim:
        raise ValueError(f"{caller}: input is {kind(input)}, output {kind(output)}; only the first axis may differ")
    row = int(np.prod(own.shape[1:]))
    given = [_pieces(caller, "input_split_sizes", input_split_sizes, own, where.size(), row),
             _pieces(caller, "output_split_sizes", output_split_sizes, out.array, where.size(), row)]  # fmt: skip

    def start(comm: Any) -> Any:
        return comm.Ialltoallv([own, given[0]], [out.array, given[1]])

    def finish() -> None:
        if where.comm is None:
            out.array[...] = own
        out.store()

    return run(where, f"{caller}({own.dtype} {own.shape[1:]})", start, finish, async_op)


def barrier(group: ProcessGroup | None = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all processes are here.

    Raises:
        As all_reduce.
    """
    return run(member(group, "barrier"), "barrier()", lambda comm: comm.Ibarrier(), None, async_op)


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


def run(
    group: ProcessGroup,
    call: str,
    start: Callable[[Any], Any],
    finish: Callable[[], object] | None,
    async_op: bool,
) -> Work | None:
    """Agree on the call, start it on MPI's communicator, and wait for it unless `async_op`; `finish` stores the result.

    Raises:
        DistError, DistNetworkError, WorkerLostError, DistBackendError: see all_reduce.
    """
    entered = group.agree(call)
    if group.comm is None:
        work = Work(finish=finish)
    else:
        with mpi.errors(entered):
            request = start(group.comm)
        work = Work(group, [request], entered, finish)
    if async_op:
        return work
    work.wait()
    return None


def _operation(op: str) -> Any:
    return getattr(mpi.load(), _OF_MPI.get(op, op))


def _average(op: str, buffer: Buffer, group: ProcessGroup) -> None:
    if op == "AVG":
        np.divide(buffer.array, group.size(), out=buffer.array, casting="unsafe")


def _check_op(caller: str, op: Any, array: np.ndarray) -> None:
    if op not in _OPS:
        raise ValueError(f"{caller}: op={op!r} must be one of ReduceOp: {', '.join(_OPS)}")
    if array.dtype.kind == "f" and op in _BITWISE:
        raise ValueError(f"{caller}: op={op} combines the bits of integers, and the tensor holds {array.dtype}")
    if array.dtype.kind != "f" and op == "AVG":
        raise ValueError(f"{caller}: op=AVG divides, and the tensor holds integers; use SUM, or convert it to float")


def _root(caller: str, name: str, group: ProcessGroup, rank: int | None, in_group: int | None) -> int:
    if in_group is not None:
        if rank is not None:
            raise ValueError(f"{caller}: pass {name} or group_{name}, not both")
        if not 0 <= in_group < group.size():
            raise ValueError(f"{caller}: group_{name}={in_group} must be from 0 to {group.size() - 1}")
        return in_group
    if rank not in group.ranks and rank is not None:
        raise ValueError(f"{caller}: {name}={rank} is not in the group, which has the ranks {group.ranks}")
    return 0 if rank is None else get_group_rank(group, rank)


def _check_list(caller: str, name: str, value: Any, mine: bool, role: str) -> None:
    if mine and value is None:
        raise ValueError(f"{caller}: {name} is missing: the process that is {role} passes a list of Tensors")
    if not mine and value:
        raise ValueError(f"{caller}: {name} is for the process that is {role}; leave it out here")


def _check_whole(caller: str, name: str, whole: np.ndarray, other: str, piece: np.ndarray, count: int) -> None:
    stacked = (count, *piece.shape)
    joined = (count * piece.shape[0], *piece.shape[1:]) if piece.ndim else (count,)
    if whole.shape not in (stacked, joined) or whole.dtype != piece.dtype:
        raise ValueError(
            f"{caller}: {name} is {whole.dtype} {whole.shape}, expected {piece.dtype} {joined} or {stacked}: {other} "
            f"of {count} processes"
        )


def _pieces(caller: str, name: str, sizes: Any, array: np.ndarray, count: int, row: int) -> list[int]:
    total = array.shape[0]
    if sizes is None:
        if total % count:
            raise ValueError(f"{caller}: {total} rows cannot be cut into {count} equal pieces; pass {name}")
        return [total // count * row] * count
    if len(sizes) != count or sum(sizes) != total or min(sizes) < 0:
        raise ValueError(f"{caller}: {name}={list(sizes)} must be {count} sizes that add up to {total}")
    return [int(size) * row for size in sizes]


def _stored(
    group: ProcessGroup, rows: np.ndarray, own: np.ndarray, outputs: list[Tensor], caller: str
) -> Callable[[], None]:
    """What writes the received rows to the tensors."""

    def finish() -> None:
        if group.comm is None and len(outputs):
            rows[0] = own
        for row, output in zip(rows, outputs, strict=len(outputs) > 0):
            buffer = Buffer(output, caller)
            buffer.array = row
            buffer.store()

    return finish
