"""Messages from one process to another, with the names of torch.distributed.

A header with shape and dtype precedes each message, so a receiver with another shape gets an error that names both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from . import mpi
from .collectives import Buffer, as_tensor, spec_text
from .errors import DistError
from .process_group import CollectiveCall, ProcessGroup, as_seconds, describe_call, wait
from .work import Work
from .world import get_group_rank, member

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def send(tensor: Tensor, dst: int, group: ProcessGroup | None = None, tag: int = 0) -> None:
    """Send the tensor to process dst (a world rank).

    Raises:
        ValueError: dst is this process or not in the group, or tag is not an int of at least 0.
        DistNetworkError: dst did not receive in time. WorkerLostError: it has died.
    """
    isend(tensor, dst, group, tag).wait()


def recv(tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0) -> int:
    """Receive the tensor from process src, or from any process if None; return the sender's world rank.

    Raises:
        As send; DistError: a tensor of another shape or dtype was sent.
    """
    work = irecv(tensor, src, group, tag)
    work.wait()
    return work.source


def isend(tensor: Tensor, dst: int, group: ProcessGroup | None = None, tag: int = 0) -> Work:
    """Start a ``send`` and return immediately; the tensor must not change before ``wait()``.

    Raises:
        As send.
    """
    pg = member(group, "isend")
    buffer = Buffer(as_tensor("send", "tensor", tensor), "send")
    to = _peer_rank("send", "dst", pg, dst)
    entered = describe_call(0, f"send({spec_text(tensor)}, dst={dst})")
    header, number = entered.row(), _checked_tag("send", tag)
    with mpi.errors(entered):
        requests = [pg.comm.Isend(header, to, number), pg.comm.Isend(buffer.array, to, number)]
    return Work(pg, requests, entered)


def irecv(tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0) -> _RecvWork:
    """Start a ``recv`` and return immediately; the tensor contains the message after ``wait()``.

    Raises:
        As recv; ValueError: this is the only process.
    """
    pg = member(group, "irecv")
    as_tensor("recv", "tensor", tensor)
    source = None if src is None else _peer_rank("recv", "src", pg, src)
    if pg.comm is None:
        raise ValueError("recv: this is the only process; nobody can send to it")
    return _RecvWork(pg, tensor, source, _checked_tag("recv", tag))


class _RecvWork(Work):
    """A pending receive; `source` is the sender's world rank once the message has arrived."""

    source: int

    def __init__(self, group: ProcessGroup, tensor: Tensor, source: int | None, tag: int) -> None:
        super().__init__()
        self.source = -1 if source is None else group.ranks[source]
        self._pg, self._tensor, self._tag = group, tensor, tag
        self._entered = describe_call(0, f"recv({spec_text(tensor)}, src={'any' if source is None else self.source})")
        self._header = np.zeros_like(self._entered.row())
        self._buffer = Buffer(tensor, "recv")
        self._status = mpi.load().Status()
        any_source = mpi.load().ANY_SOURCE
        self._first: Any = group.comm.Irecv(self._header, any_source if source is None else source, tag)
        # if the sender is known, post the receive of the data too: two processes may both send before they receive
        self._second: Any = None if source is None else group.comm.Irecv(self._buffer.array, source, tag)
        self._done = False

    def wait(self, timeout: Any = None) -> bool:
        if self._done:
            return True
        comm, entered = self._pg.comm, self._entered
        seconds = None if timeout is None else as_seconds("Work.wait", timeout)
        assert entered is not None
        if self._first is not None:
            wait(self._pg, [self._first], entered, self._status, seconds)
            self._first = None
        sender = self._status.Get_source() if self.source < 0 else self._pg.ranks.index(self.source)
        sent = CollectiveCall.of_row(self._header)
        if sent.call.partition(", dst=")[0] != f"send({spec_text(self._tensor)}":
            raise DistError(f"rank {self._pg.ranks[sender]} calls {sent}, this process calls {entered}")
        if self._second is None:
            self._second = comm.Irecv(self._buffer.array, sender, self._tag)
        wait(self._pg, [self._second], entered, timeout=seconds)
        self.source, self._done = self._pg.ranks[sender], True
        self._buffer.store()
        return True

    def is_completed(self) -> bool:
        if not self._done and (self._first is None or self._first.Test(self._status)):
            self._first = None
            self.wait()
        return self._done


class P2POp:
    """A send or receive for ``batch_isend_irecv``. op: ``isend`` or ``irecv``; peer: a world rank.

    Raises:
        ValueError: op is something else.
    """

    group: ProcessGroup | None
    peer: int
    tag: int
    tensor: Tensor
    op: Callable[..., Work]

    def __init__(
        self, op: Callable[..., Work], tensor: Tensor, peer: int, group: ProcessGroup | None = None, tag: int = 0
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError("P2POp: op must be distributed.isend or distributed.irecv")
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Start all sends and receives of the list.

    Raises:
        As isend and irecv.
    """
    return [each.op(each.tensor, each.peer, each.group, each.tag) for each in p2p_op_list]


def _peer_rank(caller: str, name: str, group: ProcessGroup, rank: Any) -> int:
    if isinstance(rank, bool) or not isinstance(rank, int) or rank not in group.ranks:
        raise ValueError(f"{caller}: {name}={rank!r} is not in the group, which has the ranks {group.ranks}")
    found = get_group_rank(group, rank)
    if found == group.rank():
        raise ValueError(f"{caller}: {name}={rank} is this process; a process does not send to itself")
    return found


def _checked_tag(caller: str, tag: Any) -> int:
    if isinstance(tag, bool) or not isinstance(tag, int) or not 0 <= tag < 2**15:
        raise ValueError(f"{caller}: tag={tag!r} must be an int from 0 to 32767")
    return tag
