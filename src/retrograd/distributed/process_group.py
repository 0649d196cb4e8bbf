"""ProcessGroup: communicators, matching of collective calls across ranks, and waiting with a timeout.

Ranks that call different collectives, or the same one with different shapes, would wait forever or read the wrong
memory. So before each collective the ranks exchange a description of the call, a row of fixed length.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self

import numpy as np

from ..engine.call_site import line_number, user_call_site
from . import mpi
from .errors import DistError, DistNetworkError, WorkerLostError
from .mpi import has_own_core

__all__ = ["ProcessGroup"]


# ---- Descriptions of collectives, exchanged before each collective --------------------------------------------------

_CALL, _PLACE = 160, 96  # bytes of a row: the call, and the user's source line


@dataclass(frozen=True)
class CollectiveCall:
    """A collective call: its `number` in the group, the `call` with shapes and options, and the user's source line."""

    number: int
    call: str
    place: str

    def __str__(self) -> str:
        return f"{self.call} (collective {self.number}, at {self.place})"

    def row(self) -> np.ndarray:
        """Encode the call as a row of bytes for the other ranks."""
        text = f"{self.number}\n{self.call}".encode()[:_CALL].ljust(_CALL, b"\0")
        return np.frombuffer(text + self.place.encode()[-_PLACE:].ljust(_PLACE, b"\0"), np.uint8)

    @classmethod
    def of_row(cls, row: np.ndarray) -> Self:
        number, _, call = _text(row[:_CALL]).partition("\n")
        return cls(int(number), call, _text(row[_CALL:]))


def describe_call(number: int, call: str) -> CollectiveCall:
    """Return the CollectiveCall for the user's current source line."""
    place = user_call_site()
    return CollectiveCall(number, call, f"{os.path.basename(place[0].co_filename)}:{line_number(place)}")


def all_equal(rows: np.ndarray) -> bool:
    """Return whether the rows of all ranks describe the same call, from any source line."""
    calls = rows[:, :_CALL]
    return bool((calls == calls[0]).all())


def calls(rows: np.ndarray) -> list[str]:
    """Return the call of each rank."""
    return [CollectiveCall.of_row(row).call for row in rows]


def difference(rows: np.ndarray) -> str:
    """Describe each call with the ranks that make it."""
    groups: dict[str, list[int]] = {}
    for rank, row in enumerate(rows):
        groups.setdefault(f"{CollectiveCall.of_row(row)}", []).append(rank)
    return "; ".join(f"{ranks_text(ranks)} {call}" for call, ranks in groups.items())


def ranks_text(ranks: list[int]) -> str:
    """Return "rank 3", "ranks 0, 2" or "ranks 0 to 5"."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"ranks {', '.join(map(str, ranks))}"


def _text(part: np.ndarray) -> str:
    return part.tobytes().rstrip(b"\0").decode(errors="replace")


# ---- Waiting for requests, with a timeout, and answering other ranks' questions about what this process waits for ---

_SPIN = {True: 5e-3, False: 2e-4}  # seconds of polling before sleeping, by has_own_core()
_LONGEST_SLEEP = 1e-3
_TIMEOUT = timedelta(minutes=30)
_LISTEN_EVERY = 0.02
_GRACE = 1.0  # seconds for the others to answer
_QUESTION, _ANSWER = 1, 2  # tags


def wait(
    group: ProcessGroup,
    requests: Sequence[Any],
    entered: CollectiveCall,
    status: Any = None,
    timeout: float | None = None,
    agreeing: bool = False,
) -> float:
    """Wait until all of MPI's `requests` are done and return the seconds spent waiting.

    status: MPI's Status object, which gets the status of the last request. Other arguments: as for ``wait_until``.

    Raises:
        As wait_until.
    """
    pending = list(requests)

    def done() -> bool:
        # not Testall: its error does not say that a process has died
        pending[:] = [request for request in pending if not request.Test(status)]
        return not pending

    return wait_until(group, done, entered, timeout, agreeing)


def wait_until(
    group: ProcessGroup,
    done: Callable[[], object],
    entered: CollectiveCall,
    timeout: float | None = None,
    agreeing: bool = False,
) -> float:
    """Wait until done() is true and return the seconds spent waiting.

    timeout: seconds; None means the group's.
    agreeing: the operation is an agreement (Iagree), which completes even if processes have died. Errors seen meanwhile
        are ignored, since only the result of the agreement is the same in all surviving processes.

    Raises:
        DistNetworkError: it took longer than the timeout; the message names the ranks that are missing.
        WorkerLostError: a process has died. DistBackendError: MPI reports something else.
    """
    start = now = time.perf_counter()
    listen, sleep, spin = start + _LISTEN_EVERY, 5e-5, _SPIN[has_own_core()]
    with mpi.errors(entered):
        while not done():
            now = time.perf_counter()
            if now - start < spin:
                os.sched_yield()
                continue
            time.sleep(sleep)
            sleep = min(1.5 * sleep, _LONGEST_SLEEP)
            if now > listen:
                listen = now + _LISTEN_EVERY
                try:
                    _answer(group, entered)
                except mpi.load().Exception:
                    if not agreeing:
                        raise
                if now - start > (group.timeout if timeout is None else timeout):
                    mpi.record_missing()
                    raise _timeout_error(group, entered, now - start)
    return time.perf_counter() - start


def _answer(group: ProcessGroup, entered: CollectiveCall) -> None:
    """Answer pending questions of other ranks about which collective this rank waits in."""
    library, comm = mpi.load(), group.control
    status = library.Status()
    while comm.Iprobe(tag=_QUESTION, status=status):
        asking = status.Get_source()
        comm.Recv(np.empty(0, np.uint8), asking, _QUESTION)
        group.unfinished.append(comm.Isend(entered.row(), asking, _ANSWER))


def _timeout_error(group: ProcessGroup, entered: CollectiveCall, seconds: float) -> DistNetworkError:
    """Return an error that says which ranks are missing and what the others wait for."""
    others = [rank for rank in range(group.size()) if rank != group.rank()]
    answers: dict[int, CollectiveCall] = {}
    with suppress(mpi.load().Exception):  # a process may have died as well
        _ask(group, entered, others, answers)
    parts = []
    for rank in others:
        if rank in answers:
            parts.append(f"rank {rank} waits in {answers[rank]}")
        else:
            last = group.last.get(rank)
            parts.append(
                f"rank {rank} has not entered it and does not answer: it is stopped, or busy in other code"
                + (f"; its last collective was {last}" if last else "")
            )
    return DistNetworkError(f"{entered} waited {seconds:.0f} s: {'; '.join(parts)}")


def _ask(
    group: ProcessGroup, entered: CollectiveCall, others: Sequence[int], answers: dict[int, CollectiveCall]
) -> None:
    """Ask the other ranks which collective they wait in."""
    comm = group.control
    group.unfinished += [comm.Isend(np.empty(0, np.uint8), rank, _QUESTION) for rank in others]
    rows = {rank: np.empty_like(entered.row()) for rank in others}
    waiting = {rank: comm.Irecv(rows[rank], rank, _ANSWER) for rank in others}
    end = time.perf_counter() + _GRACE
    while waiting and time.perf_counter() < end:
        _answer(group, entered)
        for rank in [rank for rank, request in waiting.items() if request.Test()]:
            del waiting[rank]
            answers[rank] = CollectiveCall.of_row(rows[rank])
        time.sleep(_LONGEST_SLEEP)
    for request in waiting.values():
        request.Cancel()


def as_seconds(caller: str, timeout: Any) -> float:
    """Return a timeout in seconds, or 30 minutes for None. Raise ValueError if it is not a positive time."""
    value = _TIMEOUT if timeout is None else timeout
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ValueError(f"{caller}: timeout={timeout!r} must be a timedelta or a number of seconds above 0")
    return float(seconds)


# ---- Process groups -------------------------------------------------------------------------------------------------


class _Thread(threading.local):
    shards = 0  # in a module that runs shard by shard: the largest number of shards of a process; otherwise 0


thread: Final = _Thread()


@contextmanager
def inside_shard(shards: int) -> Iterator[None]:
    """Within the block, this thread runs a module for one of the up to `shards` shards of a process.

    If there are several, collectives raise an error, because they would be called once for each shard.
    """
    before, thread.shards = thread.shards, shards
    try:
        yield
    finally:
        thread.shards = before


class ProcessGroup:
    """Processes that take part in collectives together, numbered from 0.

    ``timeout``: seconds that a collective may wait. ``is_world``: whether the group contains all processes.
    """

    count: int

    def __init__(self, comm: Any, ranks: Sequence[int], timeout: float, recoverable: bool | None = None) -> None:
        self.comm = comm  # MPI's communicator; None for this process alone
        self.control: Any = None if comm is None else comm.Dup()  # for descriptions of calls, questions and answers
        self.ranks: list[int] = list(ranks)  # ranks in the world
        self.timeout = timeout
        self.is_world = False
        self.count = 0  # number of collectives so far
        self.last: dict[int, CollectiveCall] = {}  # the last collective that each rank entered
        self.unfinished: list[Any] = []  # questions and answers being sent
        self._others: list[Any] = []  # communicators made by `duplicate`
        self._lanes: dict[int, Any] = {}
        self.recoverable: bool = (comm is not None and _recovers(comm)) if recoverable is None else recoverable

    def rank(self) -> int:
        """Return the rank of this process in the group."""
        return 0 if self.comm is None else int(self.comm.Get_rank())

    def size(self) -> int:
        """Return the number of processes."""
        return len(self.ranks)

    def name(self) -> str:
        """Return the name of the backend."""
        return "mpi"

    def __deepcopy__(self, memo: dict[int, Any]) -> ProcessGroup:
        """Return self, so that a copied layer stays in the same group."""
        return self

    def __repr__(self) -> str:
        return f"<ProcessGroup of {self.size()} processes, this is rank {self.rank()}>"

    def duplicate(self) -> Any:
        """Return a new communicator of the same processes; None in a world of one process."""
        if self.comm is None:
            return None
        with mpi.errors("the communicators of a trainer"):
            self._others.append(self.comm.Dup())
        return self._others[-1]

    def lane(self, number: int) -> Any:
        """Return the communicator of a lane. Collectives on different lanes may begin in any relative order."""
        if number not in self._lanes:
            self._lanes[number] = self.duplicate()
        return self._lanes[number]

    def revoke(self) -> None:
        """Make running collectives fail in all processes, because one has died."""
        if self.comm is not None and self.recoverable:
            for comm in (*self._others, self.control, self.comm):
                comm.Revoke()

    def all_agree(self, value: bool) -> bool:
        """Return whether the value is true in all processes and none has died. All survivors get the same answer.

        Raises:
            DistNetworkError: a process did not come in time.
        """
        if self.comm is None or not self.recoverable:
            return value
        flag = np.array([value], np.intc)
        entered = describe_call(self.count, "the agreement that all have done a step")
        try:
            with mpi.errors(entered):
                request = self.comm.Iagree(flag)
            wait(self, [request], entered, agreeing=True)
        except WorkerLostError:
            return False
        self.all_entered(entered)
        return bool(flag[0])

    def surviving_group(self) -> ProcessGroup:
        """Return a new group of the surviving processes, all of which must call it."""
        mpi.skip_finalize()
        comm = self.comm
        while True:
            comm = comm.Shrink()
            found = np.empty(comm.Get_size(), np.int64)
            made = None
            try:
                comm.Allgather(np.array([self.ranks[self.rank()]]), found)
                made = ProcessGroup(comm, found.tolist(), self.timeout, recoverable=True)
            except mpi.load().Exception:
                comm.Revoke()  # another process has died in the meantime
            if _agree(comm, made is not None) and made is not None:
                return made

    def agree(self, call: str) -> CollectiveCall:
        """Announce the next collective, and check that all processes call the same.

        Raises:
            DistError: the processes call different collectives (the message says which), or the collective is called
            within a module that runs shard by shard.
            DistNetworkError: a rank did not come in time. WorkerLostError: one has died.
        """
        if thread.shards > 1:
            raise DistError(
                f"{call} is called within the module of a DistributedDataParallel, which runs once for each shard, of "
                f"which a process has up to {thread.shards}; pass reproducible=False, with which it runs once"
            )
        if self.comm is None:
            self.count += 1
            return describe_call(self.count, call)
        entered, rows = self.announce(call)
        if not all_equal(rows):
            raise DistError(f"the processes call different collectives, or with other arguments: {difference(rows)}")
        self.all_entered(entered)
        return entered

    def announce(self, call: str) -> tuple[CollectiveCall, np.ndarray]:
        """Exchange descriptions of the next call between several processes; return this process's call and all rows.

        Raises:
            DistNetworkError: a rank did not come in time. WorkerLostError: one has died.
        """
        self.count += 1
        entered = describe_call(self.count, call)
        row = entered.row()
        rows = np.empty((self.size(), row.size), np.uint8)
        with mpi.errors(entered):
            request = self.control.Iallgather(row, rows)
        wait(self, [request], entered)
        return entered, rows

    def all_entered(self, entered: CollectiveCall) -> None:
        """Record that all ranks have entered this collective."""
        if self.is_world:
            mpi.record_all_present()
        self.last = dict.fromkeys(range(self.size()), entered)


def _recovers(comm: Any) -> bool:
    """Return whether this MPI can continue after the death of a process (ULFM)."""
    try:
        return _agree(comm, True)
    except (NotImplementedError, AttributeError):
        return False


def _agree(comm: Any, value: bool) -> bool:
    """Return whether the value is true in all processes and none has died."""
    try:
        return bool(comm.Agree(int(value)))
    except mpi.load().Exception:
        return False
