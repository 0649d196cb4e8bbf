"""Collectives on tensors: all_reduce, broadcast, gather, scatter, all_to_all, barrier.

All processes of a group must call the same collective, with tensors of the same shape and dtype. They first exchange
descriptions of the call, so a mismatch raises an error that names both sides. With ``async_op=True`` a collective
returns a ``Work``, and the result is available after ``work.wait()``.

``all_reduce`` adds in an order chosen by MPI, so the last bits may differ with the number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.aliasing import mark_changed
from ..engine.arguments import kind_name
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


# ---- Buffers that MPI reads and writes ------------------------------------------------------------------------------

_MPI_DTYPES: dict[Any, Any] = {np.dtype(np.float16): np.dtype(np.float32), np.dtype(bool): np.dtype(np.uint8)}


class Buffer:
    """A contiguous `array` with a tensor's elements, of a type that MPI can add; `store` copies it back."""

    tensor: Tensor

    def __init__(self, tensor: Tensor, caller: str) -> None:
        self.tensor, self._caller = tensor, caller
        own = tensor.array
        self.array: np.ndarray = np.ascontiguousarray(own, _MPI_DTYPES.get(own.dtype, own.dtype))

    def store(self) -> None:
        """Copy `array` to the tensor, and mark the tensor as changed in place."""
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
        raise TypeError(f"{caller}: {name} must be a Tensor, got {kind_name(value)}")
    return value


def as_list(caller: str, name: str, values: Any, count: int) -> list[Tensor]:
    """Return values if they are `count` Tensors, one for each process.

    Raises:
        TypeError, ValueError: they are something else.
    """
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"{caller}: {name} must be a list of Tensors, got {kind_name(values)}")
    found = [as_tensor(caller, f"{name}[{place}]", value) for place, value in enumerate(values)]
    if len(found) != count:
        raise ValueError(f"{caller}: {name} has {len(found)} tensors, expected {count}: one for each process")
    return found


def check_same_spec(caller: str, first: tuple[str, Tensor], others: Sequence[tuple[str, Tensor]]) -> None:
    """Check that all tensors have the shape and dtype of the first.

    Raises:
        ValueError: a tensor has another shape or dtype.
    """
    name, tensor = first
    for other, each in others:
        if each.array.shape != tensor.array.shape or each.array.dtype != tensor.array.dtype:
            raise ValueError(
                f"{caller}: {other} is {spec_text(each)}, {name} is {spec_text(tensor)}; make them the same"
            )


def spec_text(tensor: Tensor) -> str:
    """Return dtype and shape, such as "float32 (3, 4)"."""
    return f"{tensor.array.dtype} {tuple(tensor.array.shape)}"


# ---- The common part of all collectives: argument checks, matching of the calls, start, results ---------------------

_MPI_OPS = {"AVG": "SUM", "PRODUCT": "PROD"}
OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
_BITWISE = ("BAND", "BOR", "BXOR")


class Collective:
    """One call of the collective `name` in `group`.

    ``input`` and ``output`` (and their plural forms) register the tensors; then ``run`` starts the collective.
    """

    group: ProcessGroup
    name: str

    def __init__(self, name: str, group: Any, async_op: bool = False) -> None:
        self.name, self.group, self._async = name, member(group, name), async_op
        self._outputs: list[Buffer] = []
        self._op = "SUM"

    def input(self, name: str, tensor: Any) -> np.ndarray:
        """Return the elements of a tensor that is sent."""
        return Buffer(as_tensor(self.name, name, tensor), self.name).array

    def output(self, name: str, tensor: Any) -> np.ndarray:
        """Return a buffer that starts with the tensor's elements and is copied back to the tensor at the end."""
        self._outputs.append(Buffer(as_tensor(self.name, name, tensor), self.name))
        return self._outputs[-1].array

    def inputs(self, name: str, tensors: Any, like: tuple[str, Tensor] | None = None) -> np.ndarray:
        """Stack tensors that are sent, one for each process; all must have the shape and dtype of `like`."""
        found = self._checked_list(name, tensors, like)
        return np.stack([Buffer(each, self.name).array for each in found])

    def outputs(self, name: str, tensors: Any, like: tuple[str, Tensor]) -> np.ndarray:
        """Return a buffer whose rows are copied to the tensors at the end, one for each process."""
        buffers = [Buffer(each, self.name) for each in self._checked_list(name, tensors, like)]
        rows = np.empty((len(buffers), *buffers[0].array.shape), buffers[0].array.dtype)
        for buffer, row in zip(buffers, rows, strict=True):
            buffer.array = row
        self._outputs += buffers
        return rows

    def _checked_list(self, name: str, tensors: Any, like: tuple[str, Tensor] | None) -> list[Tensor]:
        found = as_list(self.name, name, tensors, self.group.size())
        named = [(f"{name}[{k}]", each) for k, each in enumerate(found)]
        check_same_spec(self.name, like or named[0], named)
        return found

    def set_op(self, op: Any, array: np.ndarray) -> Callable[[], Any]:
        """Set the reduction operation; return a function that looks up MPI's, which is loaded only when needed."""
        check_op(self.name, op, array)
        self._op = op
        return lambda: getattr(mpi.load(), _MPI_OPS.get(op, op))

    def root(self, name: str, rank: int | None, group_rank: int | None) -> int:
        """Return the group rank of the root: the process that sends to all, or receives from all."""
        return root_of(self.name, name, self.group, rank, group_rank)

    def run(
        self,
        arguments: str,
        start: Callable[[Any], Any],
        local_copy: tuple[np.ndarray, Any] | None = None,
    ) -> Work | None:
        """Check that all processes make the same call, start it, and wait for it unless it is asynchronous.

        arguments: text for the comparison of the calls. start: a function of MPI's communicator that returns a request.
        local_copy: (a, b) if the only effect in a world of one process is to copy b to a; None if there is no effect.

        Raises:
            DistError: the processes disagree about the call. DistNetworkError: a process did not come in time.
            WorkerLostError: a process has died. DistBackendError: MPI reports another error.
        """
        group, outputs, average = self.group, self._outputs, self._op == "AVG"
        entered = group.agree(f"{self.name}({arguments})")

        def finish() -> None:
            if group.comm is None and local_copy is not None:
                local_copy[0][...] = np.reshape(local_copy[1], local_copy[0].shape)
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


def root_of(caller: str, name: str, group: ProcessGroup, rank: int | None, group_rank: int | None) -> int:
    """Return the root's group rank, given its world `rank` or its `group_rank`; 0 if neither is given.

    Raises:
        ValueError: both are given, or the process is not in the group.
    """
    if group_rank is not None:
        if rank is not None:
            raise ValueError(f"{caller}: pass {name} or group_{name}, not both")
        if not 0 <= group_rank < group.size():
            raise ValueError(f"{caller}: group_{name}={group_rank} must be from 0 to {group.size() - 1}")
        return group_rank
    if rank not in group.ranks and rank is not None:
        raise ValueError(f"{caller}: {name}={rank} is not in the group, which has the ranks {group.ranks}")
    return 0 if rank is None else get_group_rank(group, rank)


def check_list(caller: str, name: str, value: Any, is_root: bool, role: str) -> None:
    """Check that the process with this role passes a list, and that no other process does.

    Raises:
        ValueError: a list is missing, or is passed by another process.
    """
    if is_root and value is None:
        raise ValueError(f"{caller}: {name} is missing: the process that is {role} passes a list of Tensors")
    if not is_root and value:
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
    """Return the number of elements in each of `count` pieces.

    sizes: the extents of the pieces along the first axis; None: equal extents.

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


# ---- Collectives on tensors, with the names and semantics of torch.distributed --------------------------------------


class ReduceOp:
    """Reduction operations. AVG is the sum divided by the number of processes."""

    SUM, AVG, PRODUCT, MIN, MAX = "SUM", "AVG", "PRODUCT", "MIN", "MAX"
    BAND, BOR, BXOR = "BAND", "BOR", "BXOR"


reduce_op = ReduceOp


def all_reduce(
    tensor: Tensor, op: str = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Reduce the tensors of all processes with op, in place; every process gets the result.

    Raises:
        ValueError: op is unknown, or does not fit the dtype. DistError: the processes disagree about the call.
        DistNetworkError: a process did not come in time. WorkerLostError: one has died.
        RuntimeError: there is no group.
    """
    call = Collective("all_reduce", group, async_op)
    x = call.output("tensor", tensor)
    operation = call.set_op(op, x)
    return call.run(f"{spec_text(tensor)}, {op}", lambda comm: comm.Iallreduce(mpi.load().IN_PLACE, x, operation()))


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: str = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce the tensors of all processes with op; process dst (a world rank) gets the result, in place.

    Raises:
        As all_reduce; ValueError: dst is not in the group.
    """
    call = Collective("reduce", group, async_op)
    x = call.input("tensor", tensor)
    operation, root = call.set_op(op, x), call.root("dst", dst, group_dst)
    is_root = call.group.rank() == root
    x = call.output("tensor", tensor) if is_root else x.copy()

    def start(comm: Any) -> Any:
        return comm.Ireduce(mpi.load().IN_PLACE if is_root else x, x if is_root else None, operation(), root)

    return call.run(f"{spec_text(tensor)}, {op}, dst={root}", start)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy the tensor of process src (a world rank) to the tensors of all other processes.

    Raises:
        As all_reduce; ValueError: src is not in the group.
    """
    call = Collective("broadcast", group, async_op)
    x, root = call.output("tensor", tensor), call.root("src", src, group_src)
    return call.run(f"{spec_text(tensor)}, src={root}", lambda comm: comm.Ibcast(x, root))


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
    return call.run(spec_text(tensor), lambda comm: comm.Iallgather(own, rows), (rows, own))


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
    return call.run(spec_text(input_tensor), lambda comm: comm.Iallgather(own, whole), (whole, own))


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
    is_root = call.group.rank() == root
    check_list("gather", "gather_list", gather_list, is_root, "dst")
    rows = call.outputs("gather_list", gather_list, ("tensor", tensor)) if is_root else None
    local_copy = None if rows is None else (rows, own)
    return call.run(f"{spec_text(tensor)}, dst={root}", lambda comm: comm.Igather(own, rows, root), local_copy)


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
    is_root = call.group.rank() == root
    check_list("scatter", "scatter_list", scatter_list, is_root, "src")
    rows = call.inputs("scatter_list", scatter_list, ("tensor", tensor)) if is_root else None
    local_copy = None if rows is None else (own, rows)
    return call.run(f"{spec_text(tensor)}, src={root}", lambda comm: comm.Iscatter(rows, own, root), local_copy)


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: str = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the lists of all processes entry by entry; process k gets entry k of the result.

    Raises:
        As all_gather.
    """
    call = Collective("reduce_scatter", group, async_op)
    own = call.output("output", output)
    return _reduce_scatter(call, output, own, call.inputs("input_list", input_list, ("output", output)), op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: str = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Reduce the tensors of all processes and split the result along the first axis; process k gets piece k.

    Raises:
        As all_reduce; ValueError: input is not of size (processes * n, ...) or (processes, n, ...).
    """
    call = Collective("reduce_scatter_tensor", group, async_op)
    rows, own = call.input("input", input), call.output("output", output)
    check_whole(call.name, "input", rows, "output", own, call.group.size())
    return _reduce_scatter(call, output, own, rows, op)


def _reduce_scatter(call: Collective, output: Tensor, own: np.ndarray, rows: np.ndarray, op: str) -> Work | None:
    operation = call.set_op(op, rows)
    return call.run(
        f"{spec_text(output)}, {op}", lambda comm: comm.Ireduce_scatter_block(rows, own, operation()), (own, rows)
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
    return call.run(spec_text(first), lambda comm: comm.Ialltoall(sent, rows), (rows, sent))


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Split the input along its first axis, send piece k to process k, and concatenate the received pieces in output.

    output_split_sizes, input_split_sizes: extents of the pieces along the first axis; None means equal pieces.

    Raises:
        As all_reduce; ValueError: the pieces do not add up to a tensor.
    """
    call = Collective("all_to_all_single", group, async_op)
    whole, own = call.output("output", output), call.input("input", input)
    if own.shape[1:] != whole.shape[1:] or own.dtype != whole.dtype or not own.ndim:
        raise ValueError(
            f"{call.name}: input is {spec_text(input)}, output {spec_text(output)}; only the first axis may differ"
        )
    sent = sizes_of(call.name, "input_split_sizes", input_split_sizes, own, call.group.size())
    received = sizes_of(call.name, "output_split_sizes", output_split_sizes, whole, call.group.size())

    def start(comm: Any) -> Any:
        return comm.Ialltoallv([own, sent], [whole, received])

    return call.run(f"{own.dtype} {own.shape[1:]}", start, (whole, own))


def barrier(group: ProcessGroup | None = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all processes of the group have called it.

    Raises:
        As all_reduce.
    """
    return Collective("barrier", group, async_op).run("", lambda comm: comm.Ibarrier())


def monitored_barrier(group: ProcessGroup | None = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Do a ``barrier`` with its own timeout (None: the group's). As with any barrier, errors name all missing ranks.

    Raises:
        As all_reduce; ValueError: timeout is not a positive time.
    """
    pg = member(group, "monitored_barrier")
    before = pg.timeout
    pg.timeout = before if timeout is None else as_seconds("monitored_barrier", timeout)
    try:
        barrier(pg)
    finally:
        pg.timeout = before
