"""Worker processes of a DataLoader: the worker's loop, and its control by the main process.

The main process sends a worker one message with the settings and the fetcher, then ``(epoch, seeds)`` for each epoch
and ``(epoch, number, indices)`` for each batch. The worker answers in the order of the batches and exits when the
message pipe is closed.

Workers are started as fresh processes ("spawn" or "forkserver") where possible. A fork copies the locks held by other
threads (of a BLAS, LLVM), and nothing would release them; the kernels handle their own locks. As in PyTorch,
workers are forked where a fresh process could not do the work: the dataset cannot be pickled, or the script has no
``if __name__ == "__main__":``, so a process that imports it would run all of it again. Threads instead of processes
would compete with the training loop for the GIL and share one random generator.
"""

from __future__ import annotations

import ast
import multiprocessing
import os
import pickle
import random
import signal
import sys
import threading
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Any

import numpy as np

from ..kernel_set import kernel_setting, use_kernels
from ..ops.random.random import default_generator
from .fetch import END, Fetcher

__all__ = ["WorkerInfo", "Workers", "get_worker_info", "receive", "work"]


# ---- The worker process ---------------------------------------------------------------------------------------------

_LAUNCH = f"{__name__.partition('.')[0]}.kernels.compiled.machine.launch"


@dataclass(frozen=True)
class WorkerInfo:
    """Information for dataset code about the worker process in which it runs.

    id: 0 to num_workers - 1.
    seed: the seed of this worker in this epoch, equal to ``retrograd.initial_seed()``.
    dataset: this process's copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return the WorkerInfo of the current worker process; None in the main process."""
    return _info


def work(tasks: Connection, results: Connection, inherited: Any = None) -> None:
    """Run a worker: build the requested batches until the pipe is closed.

    inherited: what a forked process has from the main one: the fetcher, worker_init_fn, and pipe ends to close.
    """
    own = None
    if inherited is not None:
        *own, others = inherited
        for connection in others:
            connection.close()
        launch = sys.modules.get(_LAUNCH)  # if the main process loaded it, it has that process's thread count
        if launch is not None:
            launch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the main process ends this one
    os.environ["RETROGRAD_NUM_THREADS"] = "1"  # the cores are shared with the other workers
    fetcher: Fetcher | None = None
    queue: SimpleQueue[Any] = SimpleQueue()
    # a thread reads the pipe, so that sending a task never blocks the main process
    threading.Thread(target=_read, args=(tasks, queue), daemon=True).start()
    while (message := queue.get()) is not None:
        epoch, drew, answer, error = 0, False, None, None
        try:
            if fetcher is None:
                fetcher = _set_up(message, own)
                continue
            epoch, *rest = pickle.loads(message)
            if len(rest) == 1:
                seed, worker_seed = rest[0]
                if worker_seed is not None:
                    _seed(worker_seed)
                fetcher.start(seed, in_worker=True)
                continue
            answer, drew = fetcher.fetch(*rest)
        except Exception as raised:  # re-raised in the main process
            error = _described(raised)
        try:
            _send(results, (epoch, answer is END, drew, None if answer is END else answer, error))
        except OSError:
            return
        except Exception as raised:  # a batch that cannot be pickled
            _send(results, (epoch, False, False, None, _described(raised)))
        if fetcher is None:
            return


def _set_up(message: bytes, own: Any) -> Fetcher:
    global _info
    settings, pickled = pickle.loads(message)
    identity, workers, seed, kernels = settings
    _seed(seed)
    use_kernels(*kernels)
    fetcher, init = pickle.loads(pickled) if own is None else own
    _info = WorkerInfo(identity, workers, seed, fetcher.dataset)
    if init is not None:
        init(identity)
    return fetcher


def _seed(seed: int) -> None:
    """Seed this process's global generators: retrograd's, Python's and NumPy's."""
    global _info
    default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if _info is not None:
        _info = replace(_info, seed=seed)


def _read(tasks: Connection, queue: SimpleQueue[Any]) -> None:
    try:
        while True:
            queue.put(tasks.recv_bytes())
    except (EOFError, OSError):
        queue.put(None)


def _described(error: Exception) -> tuple[bytes | None, str]:
    """Return the pickled exception (None if it cannot be pickled) and its traceback as a string."""
    text = "".join(traceback.format_exception(error))
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)
    except Exception:
        return None, text
    return packed, text


def _send(results: Connection, message: Any) -> None:
    """Send arrays separately from the pickled message, without copying them."""
    buffers: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(message, 5, buffer_callback=buffers.append)
    arrays = [buffer.raw() for buffer in buffers]
    results.send_bytes(pickle.dumps((packed, [len(array) for array in arrays])))
    for array in arrays:
        if len(array):
            results.send_bytes(array)


def receive(results: Connection) -> Any:
    """Receive a message from ``_send``; arrays get their own, writable memory."""
    packed, sizes = pickle.loads(results.recv_bytes())
    arrays = [np.empty(size, np.uint8) for size in sizes]
    for array in arrays:
        if len(array):
            results.recv_bytes_into(array.data)
    return pickle.loads(packed, buffers=arrays)


# ---- Worker processes, as seen by the main process ------------------------------------------------------------------

_CAN_FORK = "fork" in multiprocessing.get_all_start_methods()
_PATIENCE = 0.5  # seconds to wait for a process to exit


class _RemoteError(Exception):
    """The traceback of another process, used as the cause of an exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class Workers:
    """``count`` processes that load batches.

    context: a multiprocessing context; None forks only if a fresh process could not do the work.
    seed: worker i starts with seed + i, which seeds all global generators of its process.

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
        try:
            pickled = pickle.dumps((fetcher, init), 5)
        except Exception as error:
            if context is not None or not _CAN_FORK:
                raise TypeError(
                    f"DataLoader: num_workers={count} sends the dataset, collate_fn and worker_init_fn to other "
                    f"processes, and one of them cannot be pickled ({error}); define classes and functions at the top "
                    "level of a module, without lambda, or use num_workers=0"
                ) from error
        if context is None:
            fork = _CAN_FORK and (pickled is None or _runs_again_when_imported())
            context = multiprocessing.get_context("fork" if fork else "spawn")
        forked = context.get_start_method() == "fork"
        self._count, self._prefetch, self._timeout = count, prefetch, timeout
        self._epoch = 0
        self._answered = [False] * count
        self._tasks: list[Connection] = []
        self._results: list[Connection] = []
        self._processes: list[Any] = []
        self._close = weakref.finalize(self, _close, self._tasks, self._results, self._processes)
        for identity in range(count):
            take_task, give_task = context.Pipe(duplex=False)
            take_result, give_result = context.Pipe(duplex=False)
            self._tasks.append(give_task)
            self._results.append(take_result)
            # a forked process inherits what it needs, and pipe ends that it must close
            inherited = (fetcher, init, [*self._tasks, *self._results]) if forked else None
            process = context.Process(
                target=work, args=(take_task, give_result, inherited), name=f"retrograd-worker-{identity}", daemon=True
            )
            try:
                with warnings.catch_warnings():  # Python warns about forking with threads, see above
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
            finally:
                take_task.close()
                give_result.close()
            self._processes.append(process)
        for identity in range(count):
            settings = identity, count, seed + identity, kernel_setting()
            self._send(identity, pickle.dumps((settings, None if forked else pickled), 5))

    def close(self) -> None:
        """End the processes."""
        self._close()

    def epoch(self, seed: int, worker_seed: int, order: Iterator[Any], first: int) -> Iterator[tuple[Any, bool]]:
        """Yield the batches of ``order``, numbered from ``first``, each with whether it drew random numbers.

        seed: determines the random numbers of the batches.
        worker_seed: in later epochs, worker i is seeded with worker_seed + i again. In the first one it keeps its
            state, which the caller's ``init`` may have changed.

        Raises:
            RuntimeError: a worker process died or took too long, or the next epoch has started.
            Exception: an exception raised by the dataset in a worker.
        """
        self._epoch += 1
        epoch = self._epoch
        for worker in range(self._count):
            self._send(worker, pickle.dumps((epoch, (seed, None if epoch == 1 else worker_seed + worker))))
        # Worker n % count builds batch n, also after resuming, because this is how an IterableDataset is divided.
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
            if end:  # its part of an IterableDataset has ended; further requests get the same answer
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
                continue  # requested in an abandoned epoch
            if error is not None:
                _raise(worker, *error)
            return end, drew, batch

    def _send(self, worker: int, message: bytes) -> None:
        try:
            self._tasks[worker].send_bytes(message)
        except OSError:  # the worker is dead; report its last message, if any
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


def _runs_again_when_imported() -> bool:
    """Return whether the main module is a script that would run again in a process that imports it."""
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None)
    if path is None or getattr(main, "__spec__", None) is not None:  # an interactive session, or python -m
        return False
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return "__name__" not in names


def start_method(context: Any) -> Any:
    """Return a multiprocessing context; None leaves the choice to Workers.

    Raises:
        ValueError: context is not a start method of this system.
    """
    if context is None:
        return None
    if isinstance(context, str):
        if context not in multiprocessing.get_all_start_methods():
            raise ValueError(
                f"DataLoader: multiprocessing_context={context!r} is not available here; choose 'spawn' or 'forkserver'"
            )
        context = multiprocessing.get_context(context)
    if not hasattr(context, "get_start_method"):
        raise ValueError(
            f"DataLoader: multiprocessing_context={context!r} is neither a start method nor a context of "
            "multiprocessing"
        )
    return context
