"""Two processes that take turns: one times retrograd, the other times PyTorch and onnxruntime.

The thread pools of these libraries keep spinning for milliseconds after a call, on cores that the other library needs.
So each side has its own process, which is stopped (SIGSTOP) while the other one measures. Both processes create the
rows of a suite in the same order, and each times only its own calls.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import get_native_id
from typing import Any, Self

from .harness import OURS, Effort, Result, Row, calls_per_block, check, compare, is_ours, time_block


@dataclass(frozen=True)
class Plan:
    """The measurement of a suite: its rows, with this number of threads.

    suite: the module with the rows. compile: add torch.compile to PyTorch's variants. kernels: retrograd's kernel set.
    seed: of the rows of a suite that draws them.
    """

    suite: str
    threads: int
    quick: bool = False
    compile: bool = False
    kernels: str = "compiled"
    seed: int | None = None


def measure(plan: Plan, effort: Effort) -> Iterator[Result]:
    """Measure the rows of the suite one by one; each row is measured when the iterator is advanced.

    Raises:
        RuntimeError: a process failed; the message contains its traceback.
    """
    with _Side(plan, retrograd=True) as ours, _Side(plan, retrograd=False) as peers:
        while True:
            row, peer = ours.ask("next"), peers.ask("next")
            if row is None or peer is None:
                if row is not peer:
                    raise RuntimeError(f"{plan.suite}: one process has more rows than the other")
                return
            if row.title != peer.title:
                raise RuntimeError(f"{plan.suite}: the processes are at different rows, {row.title} and {peer.title}")
            peers.ask("check")
            blocks = _blocks(dict.fromkeys(row.variants, ours) | dict.fromkeys(peer.variants, peers), effort)
            yield compare(row.row, plan.threads, blocks)


def _blocks(variants: dict[str, _Side], effort: Effort) -> dict[str, list[float]]:
    """Return the seconds of a call, as medians of blocks: variant -> one number for each round."""
    for variant, side in variants.items():
        side.ask("prepare", variant, effort.block)
    blocks: dict[str, list[float]] = {variant: [] for variant in variants}
    for turn in range(effort.rounds):
        # every other round runs backwards, so that a machine that slows down favors neither side
        for variant in variants if turn % 2 == 0 else reversed(variants):
            blocks[variant].append(variants[variant].ask("block", variant, effort.pause, turn))
    return blocks


@dataclass(frozen=True)
class _RowInfo:
    """What the parent gets of a row: everything but its calls, which stay in the process."""

    row: Row
    variants: tuple[str, ...]

    @property
    def title(self) -> tuple[str, str]:
        return self.row.group, self.row.name


class _Side:
    """The parent's end of one of the two processes. The process runs only while it answers a request."""

    def __init__(self, plan: Plan, retrograd: bool) -> None:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, plan, retrograd), daemon=True)
        self._process.start()
        theirs.close()
        self._answer()

    def ask(self, request: str, *arguments: Any) -> Any:
        os.kill(self._process.pid or 0, signal.SIGCONT)
        self._connection.send((request, arguments))
        return self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # also ends a process that is stopped
        self._process.join()
        self._connection.close()

    def _answer(self) -> Any:
        try:
            failed, answer = self._connection.recv()
        except EOFError:
            self._process.join()
            raise RuntimeError(f"the process has ended with exit code {self._process.exitcode}") from None
        if failed:
            raise RuntimeError(f"the process failed:\n{answer}")
        pid = self._process.pid or 0
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # it may still run for a moment
        return answer


def _serve(connection: Connection, plan: Plan, retrograd: bool) -> None:
    """Answer the parent's requests until it closes the connection or kills this process."""
    try:
        bench = _Bench(plan, retrograd)
        connection.send((False, None))
        while True:
            request, arguments = connection.recv()
            connection.send((False, getattr(bench, request)(*arguments)))
    except EOFError:
        return
    except Exception:
        connection.send((True, traceback.format_exc()))


class _Bench:
    """The rows of a suite, and this process's calls of the current row."""

    def __init__(self, plan: Plan, retrograd: bool) -> None:
        import retrograd as library

        from . import libraries

        library.use_kernels(plan.kernels)
        libraries.set_threads(plan.threads)
        drawn = {} if plan.seed is None else {"seed": plan.seed}
        self._rows = importlib.import_module(plan.suite).rows(plan.quick, plan.compile and not retrograd, **drawn)
        self._retrograd, self._threads, self._cores = retrograd, plan.threads, _own_cores()
        gc.disable()  # garbage is collected between two rows instead

    def next(self) -> _RowInfo | None:
        self._calls: dict[str, Any] = {}
        self._lengths: dict[str, int] = {}
        self._row = row = next(self._rows, None)
        gc.collect()
        if row is None:
            return None
        all_calls = {OURS: row.ours, **row.theirs}
        self._calls = {variant: call for variant, call in all_calls.items() if is_ours(variant) == self._retrograd}
        return _RowInfo(row.without_calls(), tuple(self._calls))

    def check(self) -> None:
        check(self._row)

    def prepare(self, variant: str, block: float) -> None:
        with _on(cores_of(self._cores, self._threads, 0), self._cores):
            self._lengths[variant] = calls_per_block(self._calls[variant], block)

    def block(self, variant: str, pause: float, turn: int) -> float:
        time.sleep(pause)  # gives threads that were stopped while spinning the time to fall asleep
        with _on(cores_of(self._cores, self._threads, turn), self._cores):
            return time_block(self._calls[variant], self._lengths[variant])


def cores_of(cores: list[int], threads: int, turn: int) -> list[int]:
    """Return the cores of a turn, one for each thread, or none: then the system chooses better.

    It does with fewer cores than threads, and with several threads on a part of the cores, two of which may be one.
    Both libraries run on the same cores within a turn, because a neighbor on the same processor may slow down one core
    for minutes; in the next turn they run on others.
    """
    first = turn % max(1, len(cores))
    return [*cores[first:], *cores[:first]][:threads] if threads in (1, len(cores)) else []


def _own_cores() -> list[int]:
    """The cores on which this process may run; none where the system cannot tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@contextmanager
def _on(cores: list[int], own: list[int]) -> Iterator[None]:
    """Keep the calling thread on the first of these cores, all others on the rest: two may share one for a while."""
    if cores:
        os.sched_setaffinity(0, cores[:1])
        _move_others(cores[1:])
    try:
        yield
    finally:
        if cores:
            os.sched_setaffinity(0, own)  # a child process or a new thread inherits them


def _move_others(cores: list[int]) -> None:
    """Move all threads but the calling one to these cores, if there are any."""
    for thread in map(int, os.listdir("/proc/self/task") if cores else ()):
        if thread != get_native_id():
            with suppress(ProcessLookupError):  # it has ended
                os.sched_setaffinity(thread, cores)
