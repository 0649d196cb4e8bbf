"""Shards that run in turn: each goes on until it needs numbers of all the others, or ends.

Usually a process runs its shards one after the other. A layer that needs sums over the whole batch makes that
impossible: the first shard cannot go on before the last one has come to the layer. So each shard gets a thread, of
which one runs at a time, and they meet in the layer.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...engine import grad_mode
from ..errors import DistError
from ..processes.process_group import ProcessGroup
from .meeting import Combine, Meeting, here, total
from .tree import add, share

T = TypeVar("T")


class _Asks(NamedTuple):
    """A shard waits for a total."""

    call: str
    piece: np.ndarray
    combine: Combine


class _Ends(NamedTuple):
    """A shard has ended, with a result or an error."""

    result: Any
    error: BaseException | None


class _Stop(BaseException):
    """Ends a shard that nobody waits for any more."""


def in_turn(
    group: ProcessGroup,
    shards: int,
    jobs: Mapping[int, Callable[[], T]],
    around: Callable[[int], AbstractContextManager[Any]] | None = None,
    first_group: ProcessGroup | None = None,
    between: Callable[[], object] = lambda: None,
) -> dict[int, T]:
    """The results of the jobs, one for each of this process's shards that has samples, in order.

    around: what surrounds each stretch in which a shard runs, for what all shards change. first_group: the group before
    processes died. between: called in this thread when all shards have come to a meeting.

    Raises:
        What a job raises; the others are given up. DistError: a shard ends while another waits for it, or they wait in
        different calls. The errors of ``Meeting.total``.
    """
    outside = grad_mode.thread.mode
    threads = {shard: _Shard(group, shards, job, outside) for shard, job in jobs.items()}
    for shard, thread in threads.items():
        thread.first_group, thread.leads = first_group or group, shard == min(jobs)
    answers: dict[int, np.ndarray | None] = dict.fromkeys(jobs)
    own = share(shards, group.size(), group.rank())
    try:
        while True:
            states: dict[int, _Asks | _Ends] = {}
            for shard, thread in threads.items():
                with around(shard) if around is not None else nullcontext():
                    states[shard] = thread.go_on(answers[shard])
                state = states[shard]
                if isinstance(state, _Ends) and state.error is not None:
                    raise state.error
            if all(isinstance(state, _Ends) for state in states.values()):
                return {shard: state.result for shard, state in states.items() if isinstance(state, _Ends)}
            between()
            first = _same(states)
            pieces = {shard: state.piece for shard, state in states.items() if isinstance(state, _Asks)}
            for shard in own:  # without samples
                pieces.setdefault(shard, np.zeros_like(first.piece))
            found = total(group, shards, dict(sorted(pieces.items())), first.call, first.combine)
            answers = {shard: found.copy() for shard in jobs}
    finally:
        for thread in threads.values():
            thread.give_up()


def _same(states: Mapping[int, _Asks | _Ends]) -> _Asks:
    """Return the request that all shards make, after checking that it is the same."""
    calls = {shard: state.call if isinstance(state, _Asks) else "the end" for shard, state in states.items()}
    if len(set(calls.values())) > 1:
        raise DistError(
            "the shards of this process are in different layers: "
            + "; ".join(f"shard {shard} in {call}" for shard, call in calls.items())
            + "; the module must call the same layers for every shard"
        )
    first = next(iter(states.values()))
    assert isinstance(first, _Asks)
    return first


class _Shard(Meeting):
    """One shard in a thread of its own."""

    def __init__(self, group: ProcessGroup, shards: int, job: Callable[[], Any], outside: Any) -> None:
        super().__init__(group, shards)
        self._job, self._mode = job, copy.copy(outside)
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._states: SimpleQueue[_Asks | _Ends] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def cuts(self, samples: int) -> list[slice]:
        return [slice(None)]

    def total(self, call: str, pieces: Sequence[np.ndarray], combine: Combine = add) -> np.ndarray:
        (piece,) = pieces
        self._states.put(_Asks(call, piece, combine))
        answer: np.ndarray | None = self._answers.get()
        if answer is None:
            raise _Stop
        return answer

    def go_on(self, answer: np.ndarray | None) -> _Asks | _Ends:
        """Let it run until it asks or ends."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="retrograd-shard", daemon=True)
            self._thread.start()
        else:
            self._answers.put(answer)
        return self._states.get()

    def give_up(self) -> None:
        """End it if it still waits."""
        if self._thread is not None:
            self._answers.put(None)
            self._thread.join()

    def _run(self) -> None:
        grad_mode.thread.mode, here.meeting = self._mode, self
        result, error = None, None
        try:
            result = self._job()
        except BaseException as raised:
            error = raised
        self._states.put(_Ends(result, error))
