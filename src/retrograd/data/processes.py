"""The worker processes of a DataLoader, as seen by the main process.

They are started afresh ("spawn" or "forkserver") where that works: a fork copies the locks that other threads hold (of
a BLAS, LLVM; those of the kernels know of forks), which nothing would release. It does not work in a script that lacks
``if __name__ == "__main__":``, which every process would run again, nor with a dataset that cannot be pickled. They are
forked there, as with PyTorch on Linux. Threads instead of processes would compete with the training loop for the GIL
and share one random generator.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any

from ..ops.kernel_set import kernel_setting
from .fetch import Fetcher
from .worker import receive, work

__all__ = ["Workers"]

_PATIENCE = 0.5  # seconds for a process to exit by itself


class _RemoteError(Exception):
    """Carries the text of a traceback from another process, as the cause of an exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


_FORKS = sys.platform == "linux"  # elsewhere system libraries do not survive it


def _runs_again() -> bool:
    """Whether a process that is started afresh would run the main script's training again."""
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is None:
        return False
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return "__name__" not in file.read()
    except OSError:
        return False


class Workers:
    """``count`` processes that load batches.

    context: a multiprocessing context; None means "spawn", and "fork" where that cannot work and the system has it.
    seed: worker i seeds Python's and NumPy's global generators with seed + i.

    Raises:
        TypeError: dataset, collate_fn or worker_init_fn cannot be sent to another process.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        count: int,
        prefetch: int,
        timeout: float,
        init: Callable[[int], object] | None,
        context: Any,
        seed: int,
    ) -> None:
        pickled: bytes | None = None
        if context is None:
            context = multiprocessing.get_context("fork" if _FORKS and _runs_again() else "spawn")
            may_fork = _FORKS
        else:
            may_fork = False
        if context.get_start_method() != "fork":
            try:
                pickled = pickle.dumps((fetcher, init), 5)
            except Exception as error:
                if not may_fork:
                    raise TypeError(
                        f"DataLoader: num_workers={count} sends the dataset, collate_fn and worker_init_fn to other "
                        f"processes, and one of them cannot be pickled ({error}); define classes and functions at the "
                        "top level of a module, without lambda, or use num_workers=0"
                    ) from error
                context = multiprocessing.get_context("fork")
        inherited = (fetcher, init) if pickled is None else None
        self._count, self._prefetch, self._timeout = count, prefetch, timeout
        self._epoch = 0
        self._answered = [False] * count
        self._tasks: list[Connection] = []
        self._results: list[Connection] = []
        self._processes: list[Any] = []
        self._close = weakref.finalize(self, _close, self._tasks, self._results, self._processes)
        _STARTED.add(self)
        for identity in range(count):
            take_task, give_task = context.Pipe(duplex=False)
            take_result, give_result = context.Pipe(duplex=False)
            self._tasks.append(give_task)
            self._results.append(take_result)
            arguments: tuple[Any, ...] = take_task, give_result
            if inherited is not None:  # forked, with copies of all pipes' ends, which would keep them open
                arguments += inherited, [end for one in _STARTED for end in (*one._tasks, *one._results)]
            process = context.Process(
                target=work, args=arguments, name=f"retrograd-worker-{identity}", daemon=True
            )
            try:
                process.start()
            finally:
                take_task.close()
                give_result.close()
            self._processes.append(process)
        for identity in range(count):
            settings = identity, count, seed + identity, kernel_setting()
            self._send(identity, pickle.dumps((settings, pickled), 5))

    def close(self) -> None:
        """End the processes."""
        self._close()

    def epoch(self, seed: int, order: Iterator[Any], first: int) -> Iterator[tuple[Any, bool]]:
        """The batches of ``order``, numbered from ``first``, each with whether it drew random numbers.

        Raises:
            RuntimeError: a worker process died or took too long, or the next epoch has started.
            Exception: raised by the dataset in a worker.
        """
        self._epoch += 1
        epoch = self._epoch
        for worker in range(self._count):
            self._send(worker, pickle.dumps((epoch, seed)))
        # Worker n % count builds batch n, also after resuming: an IterableDataset is divided that way.
        rotation = deque((first + step) % self._count for step in range(self._count))
        numbers = iter(range(first, 2**63))
        pending: deque[int] = deque()

        def ask(worker: int) -> bool:
            for indices in order:
                self._send(worker, pickle.dumps((epoch, next(numbers), indices), 5))
                pending.append(worker)
                return True
            return False

        for _ in range(self._prefetch):
            for worker in rotation:
                if not ask(worker):
                    break
        ended: set[int] = set()
        while pending:
            worker = pending.popleft()
            end, drew, batch = self._answer(worker, epoch)
            if end:  # of its part of an IterableDataset; further requests get the same answer
                ended.add(worker)
                continue
            if worker not in ended:
                ask(worker)
            yield batch, drew

    def _answer(self, worker: int, epoch: int) -> tuple[bool, bool, Any]:
        results, process = self._results[worker], self._processes[worker]
        until = monotonic() + self._timeout if self._timeout else None
        while True:
            if epoch != self._epoch:
                raise RuntimeError(
                    "DataLoader: a new iteration over this loader has started, which ends this one; with "
                    "persistent_workers=True only one is possible"
                )
            if not wait([results, process.sentinel], None if until is None else max(0.0, until - monotonic())):
                raise RuntimeError(
                    f"DataLoader: worker {worker} returned no batch within timeout={self._timeout:g} s; increase it, "
                    "or check what the dataset is waiting for"
                )
            try:
                if not results.poll():
                    raise EOFError
                of, end, drew, batch, error = receive(results)
            except (EOFError, OSError):
                raise self._death(worker) from None
            self._answered[worker] = True
            if of not in (0, epoch):
                continue  # requested in an epoch that was abandoned
            if error is not None:
                _raise(worker, *error)
            return end, drew, batch

    def _send(self, worker: int, message: bytes) -> None:
        try:
            self._tasks[worker].send_bytes(message)
        except OSError:  # it is dead; report its last message if there is one
            if not self._results[worker].poll():
                raise self._death(worker) from None

    def _death(self, worker: int) -> RuntimeError:
        process = self._processes[worker]
        process.join(_PATIENCE)
        code = process.exitcode
        reason = f"exited with code {code}"
        if code is not None and code < 0:
            with suppress(ValueError):
                reason = f"was killed by {signal.Signals(-code).name}"
            if -code == signal.SIGKILL:
                reason += ", as the system does when memory runs out"
        message = f"DataLoader: worker {worker} (process {process.pid}) {reason}"
        if not self._answered[worker] and code == 1:
            message += (
                "; if its message above mentions the bootstrapping phase, put your script's code under "
                'if __name__ == "__main__":, because a worker process imports the script'
            )
        return RuntimeError(message)


def _raise(worker: int, packed: bytes | None, text: str) -> None:
    """Raise the worker's exception, with its traceback as the cause."""
    error: Any = None
    if packed is not None:
        with suppress(Exception):
            error = pickle.loads(packed)
    if not isinstance(error, Exception):
        error = RuntimeError(f"DataLoader: worker {worker} raised {text.strip().splitlines()[-1]}")
    raise error from _RemoteError(f"in worker process {worker} of a DataLoader:\n{text}")


def _close(tasks: list[Connection], results: list[Connection], processes: list[Any]) -> None:
    for connection in (*tasks, *results):
        connection.close()
    until = monotonic() + _PATIENCE
    for process in processes:
        process.join(max(0.0, until - monotonic()))
        if process.exitcode is None:
            process.terminate()
            process.join(_PATIENCE)
        if process.exitcode is None:
            process.kill()
            process.join()
        process.close()


_STARTED: weakref.WeakSet[Workers] = weakref.WeakSet()


def start_method(context: Any) -> Any:
    """The multiprocessing context of this name; None is decided when the processes start.

    Raises:
        ValueError: context is not a start method of this system.
    """
    if isinstance(context, str):
        if context not in multiprocessing.get_all_start_methods():
            raise ValueError(
                f"DataLoader: multiprocessing_context={context!r} is not available here; choose 'spawn' or 'forkserver'"
            )
        context = multiprocessing.get_context(context)
    if context is not None and not hasattr(context, "get_start_method"):
        raise ValueError(
            f"DataLoader: multiprocessing_context={context!r} is no start method; choose 'spawn' or 'forkserver'"
        )
    return context
