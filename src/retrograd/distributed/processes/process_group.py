"""A process group: the processes that take part in a collective, and their communicators."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import DistError, WorkerLostError
from . import mpi
from .entered import Entered, all_equal, difference, enter
from .waiting import wait

__all__ = ["ProcessGroup"]


class _Thread(threading.local):
    shards = 0  # for how many shards, at most, a process runs a module one by one; 0: it runs none


thread = _Thread()


@contextmanager
def for_each_of(shards: int) -> Iterator[None]:
    """Within the block this thread runs a module for one of up to so many shards of a process: collectives are refused,
    which would be called once for each."""
    before, thread.shards = thread.shards, shards
    try:
        yield
    finally:
        thread.shards = before


class ProcessGroup:
    """Processes that take part in collectives together, numbered from 0.

    `timeout`: seconds that a collective may wait. `is_world`: it has all processes.
    """

    def __init__(self, comm: Any, ranks: Sequence[int], timeout: float, recoverable: bool | None = None) -> None:
        self.comm = comm  # MPI's communicator; None for this process alone
        self.control: Any = None if comm is None else comm.Dup()  # what the ranks tell each other about collectives
        self.ranks = list(ranks)  # in the world
        self.timeout = timeout
        self.is_world = False
        self.count = 0  # collectives so far
        self.last: dict[int, Entered] = {}  # of each rank, the last collective that it entered
        self.unfinished: list[Any] = []  # answers under way
        self._others: list[Any] = []  # communicators made by `duplicate`
        self._lanes: dict[int, Any] = {}
        self.recoverable = (comm is not None and _recovers(comm)) if recoverable is None else recoverable

    def rank(self) -> int:
        """The number of this process in the group."""
        return 0 if self.comm is None else int(self.comm.Get_rank())

    def size(self) -> int:
        """The number of processes."""
        return len(self.ranks)

    def name(self) -> str:
        """The backend."""
        return "mpi"

    def __deepcopy__(self, memo: dict[int, Any]) -> ProcessGroup:
        """Itself: a copy of a layer that has a group is in the same group."""
        return self

    def __repr__(self) -> str:
        return f"<ProcessGroup of {self.size()} processes, this is rank {self.rank()}>"

    def duplicate(self) -> Any:
        """Another communicator of the same processes; None for this process alone."""
        if self.comm is None:
            return None
        with mpi.errors("the communicators of a trainer"):
            self._others.append(self.comm.Dup())
        return self._others[-1]

    def lane(self, number: int) -> Any:
        """A communicator for collectives that are always begun in one order, apart from those of other lanes."""
        if number not in self._lanes:
            self._lanes[number] = self.duplicate()
        return self._lanes[number]

    def revoke(self) -> None:
        """Make the collectives under way fail in all processes, after one has died."""
        if self.comm is not None and self.recoverable:
            for comm in (*self._others, self.control, self.comm):
                comm.Revoke()

    def all_agree(self, value: bool) -> bool:
        """Whether the value is true in all processes and none has died; the answer is the same in all that live.

        Raises:
            DistNetworkError: a process did not come in time.
        """
        if self.comm is None or not self.recoverable:
            return value
        flag = np.array([value], np.intc)
        entered = enter(self.count, "the agreement that all have done a step")
        try:
            with mpi.errors(entered):
                request = self.comm.Iagree(flag)
            wait(self, [request], entered, agreeing=True)
        except WorkerLostError:
            return False
        self.all_entered(entered)
        return bool(flag[0])

    def of_the_living(self) -> ProcessGroup:
        """The group of the processes that are still there; all of them call it."""
        mpi.give_up()
        comm = self.comm
        while True:
            comm = comm.Shrink()
            found = np.empty(comm.Get_size(), np.int64)
            made = None
            try:
                comm.Allgather(np.array([self.ranks[self.rank()]]), found)
                made = ProcessGroup(comm, found.tolist(), self.timeout, recoverable=True)
            except mpi.load().Exception:
                comm.Revoke()  # another one has died meanwhile
            if _agree(comm, made is not None) and made is not None:
                return made

    def agree(self, call: str) -> Entered:
        """Tell the others which collective comes, and make sure that it is the same for all.

        Raises:
            DistError: it is not; the message says who calls what. Or a module calls it that runs shard by shard.
            DistNetworkError: a rank did not come in time. WorkerLostError: one has died.
        """
        if thread.shards > 1:
            raise DistError(
                f"{call} is called within the module of a DistributedDataParallel, which runs once for each shard, of "
                f"which a process has up to {thread.shards}; pass reproducible=False, with which it runs once"
            )
        if self.comm is None:
            self.count += 1
            return enter(self.count, call)
        entered, rows = self.say(call)
        if not all_equal(rows):
            raise DistError(f"the processes call different collectives, or with other arguments: {difference(rows)}")
        self.all_entered(entered)
        return entered

    def say(self, call: str) -> tuple[Entered, np.ndarray]:
        """Tell the others, which there must be, what this process is about to do; returns that, and the rows of all.

        Raises:
            DistNetworkError: a rank did not come in time. WorkerLostError: one has died.
        """
        self.count += 1
        entered = enter(self.count, call)
        row = entered.row()
        rows = np.empty((self.size(), row.size), np.uint8)
        with mpi.errors(entered):
            request = self.control.Iallgather(row, rows)
        wait(self, [request], entered)
        return entered, rows

    def all_entered(self, entered: Entered) -> None:
        """All ranks have entered this collective."""
        if self.is_world:
            mpi.heard_from_all()
        self.last = dict.fromkeys(range(self.size()), entered)


def _recovers(comm: Any) -> bool:
    """Whether this MPI can go on after the death of a process (ULFM)."""
    try:
        return _agree(comm, True)
    except (NotImplementedError, AttributeError):
        return False


def _agree(comm: Any, value: bool) -> bool:
    """Whether it is true in all processes, and none has died."""
    try:
        return bool(comm.Agree(int(value)))
    except mpi.load().Exception:
        return False
