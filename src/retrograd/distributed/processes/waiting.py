"""Waiting for requests: with a limit of time, and with an answer for whoever asks what this process waits for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DistNetworkError
from . import mpi
from .entered import Entered
from .threads import has_a_core

if TYPE_CHECKING:
    from .process_group import ProcessGroup

_SPIN = {True: 5e-3, False: 2e-4}  # seconds of asking again and again before it sleeps; True: each worker has a core
_LONGEST_SLEEP = 1e-3
_TIMEOUT = timedelta(minutes=30)
_LISTEN_EVERY = 0.02
_GRACE = 1.0  # seconds for the others to answer
_QUESTION, _ANSWER = 1, 2  # tags


def wait(
    group: ProcessGroup,
    requests: Sequence[Any],
    entered: Entered,
    status: Any = None,
    timeout: float | None = None,
    agreeing: bool = False,
) -> float:
    """Wait until all of MPI's `requests` are done; returns the seconds that it took. `status`: what MPI says of the
    last one. The others are as for ``wait_until``.

    Raises:
        As wait_until.
    """
    pending = list(requests)

    def done() -> bool:
        # one by one: the errors of several at once do not say that a process has died
        pending[:] = [request for request in pending if not request.Test(status)]
        return not pending

    return wait_until(group, done, entered, timeout, agreeing)


def wait_until(
    group: ProcessGroup,
    done: Callable[[], object],
    entered: Entered,
    timeout: float | None = None,
    agreeing: bool = False,
) -> float:
    """Wait until done() is true; returns the seconds that it took. `timeout`: seconds, those of the group for None.
    `agreeing`: what is waited for goes on when processes have died, and only what it says itself counts, which is the
    same in all that live.

    Raises:
        DistNetworkError: it took longer than the timeout; the message names the ranks that are missing.
        WorkerLostError: a process has died. DistBackendError: MPI reports something else.
    """
    start = now = time.perf_counter()
    listen, sleep, spin = start + _LISTEN_EVERY, 5e-5, _SPIN[has_a_core()]
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
                    mpi.misses_others()
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
    """Says which of the other ranks are missing, and what the others wait for."""
    others = [rank for rank in range(group.size()) if rank != group.rank()]
    answers: dict[int, Entered] = {}
    with suppress(mpi.load().Exception):  # one has died as well
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


def _ask(group: ProcessGroup, entered: Entered, others: Sequence[int], answers: dict[int, Entered]) -> None:
    """Ask the other ranks what they wait in."""
    comm = group.control
    group.unfinished += [comm.Isend(np.empty(0, np.uint8), rank, _QUESTION) for rank in others]
    rows = {rank: np.empty_like(entered.row()) for rank in others}
    waiting = {rank: comm.Irecv(rows[rank], rank, _ANSWER) for rank in others}
    end = time.perf_counter() + _GRACE
    while waiting and time.perf_counter() < end:
        _answer(group, entered)
        for rank in [rank for rank, request in waiting.items() if request.Test()]:
            del waiting[rank]
            answers[rank] = Entered.of_row(rows[rank])
        time.sleep(_LONGEST_SLEEP)
    for request in waiting.values():
        request.Cancel()


def as_seconds(caller: str, timeout: Any) -> float:
    """A timeout in seconds, 30 minutes for None; ValueError if it is none."""
    value = _TIMEOUT if timeout is None else timeout
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ValueError(f"{caller}: timeout={timeout!r} must be a timedelta or a number of seconds above 0")
    return float(seconds)
