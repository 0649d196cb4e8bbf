"""Waiting for requests: with a limit of time, and with an answer for whoever asks what this process waits for."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import mpi
from .entered import Entered
from .errors import DistNetworkError

if TYPE_CHECKING:
    from .process_group import ProcessGroup

_SPIN = 2e-4  # seconds of asking again and again before it sleeps in between
_LONGEST_SLEEP = 1e-3
_LISTEN_EVERY = 0.02
_GRACE = 1.0  # seconds for the others to answer
_QUESTION, _ANSWER = 1, 2  # tags


def wait(
    group: ProcessGroup,
    requests: Sequence[Any],
    entered: Entered,
    status: Any = None,
    timeout: float | None = None,
) -> float:
    """Wait until all of MPI's `requests` are done; returns the seconds that it took. `status`: what MPI says of the
    last one. `timeout`: seconds, those of the group for None.

    Raises:
        DistNetworkError: it took longer than the group's timeout; the message names the ranks that are missing.
        WorkerLostError: a process has died. DistBackendError: MPI reports something else.
    """
    start = now = time.perf_counter()
    listen, sleep = start + _LISTEN_EVERY, 5e-5
    pending = list(requests)
    with mpi.errors(entered):
        # one by one: the errors of several at once do not say that a process has died
        while pending := [request for request in pending if not request.Test(status)]:
            now = time.perf_counter()
            if now - start < _SPIN:
                os.sched_yield()
                continue
            time.sleep(sleep)
            sleep = min(1.5 * sleep, _LONGEST_SLEEP)
            if now > listen:
                listen = now + _LISTEN_EVERY
                _answer(group, entered)
                if now - start > (group.timeout if timeout is None else timeout):
                    raise _late(group, entered, now - start)
    return time.perf_counter() - start


def _answer(group: ProcessGroup, entered: Entered) -> None:
    """Tell the ranks that ask which collective this one waits in."""
    library, comm = mpi.load(), group.control
    status = library.Status()
    while comm.Iprobe(tag=_QUESTION, status=status):
        asking = status.Get_source()
        comm.Recv(np.empty(0, np.uint8), asking, _QUESTION)
        group.unfinished.append(comm.Isend(entered.row(), asking, _ANSWER))


def _late(group: ProcessGroup, entered: Entered, seconds: float) -> DistNetworkError:
    """Asks the other ranks what they wait for, and says which of them are missing."""
    comm, own = group.control, group.rank()
    others = [rank for rank in range(group.size()) if rank != own]
    group.unfinished += [comm.Isend(np.empty(0, np.uint8), rank, _QUESTION) for rank in others]
    rows = {rank: np.empty_like(entered.row()) for rank in others}
    waiting = {rank: comm.Irecv(rows[rank], rank, _ANSWER) for rank in others}
    end = time.perf_counter() + _GRACE
    while waiting and time.perf_counter() < end:
        _answer(group, entered)
        waiting = {rank: request for rank, request in waiting.items() if not request.Test()}
        time.sleep(_LONGEST_SLEEP)
    for request in waiting.values():
        request.Cancel()
    mpi.give_up()
    parts = []
    for rank in others:
        if rank in waiting:
            last = group.last.get(rank)
            parts.append(
                f"rank {rank} has not entered it and does not answer: it is stopped, or busy in other code"
                + (f"; its last collective was {last}" if last else "")
            )
        else:
            parts.append(f"rank {rank} waits in {Entered.of_row(rows[rank])}")
    return DistNetworkError(f"{entered} waited {seconds:.0f} s: {'; '.join(parts)}")
