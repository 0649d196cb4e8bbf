"""A worker process of a DataLoader. Its counterpart is processes.py.

Messages to it: one with the settings and the fetcher, then ``(epoch, seeds)`` for each epoch and ``(epoch, number,
indices)`` for each batch. It answers in the order of the batches and exits when the pipe of messages is closed.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import sys
import threading
import traceback
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import numpy as np

from ..kernel_set import use_kernels
from ..ops.random.random import default_generator
from .fetch import END, Fetcher

__all__ = ["WorkerInfo", "get_worker_info", "receive", "work"]


_LAUNCH = f"{__name__.partition('.')[0]}.kernels.compiled.machine.launch"


@dataclass(frozen=True)
class WorkerInfo:
    """The worker process that a dataset's code runs in.

    id: 0 to num_workers - 1.
    seed: the seed of this worker in this epoch, which is also ``retrograd.initial_seed()``.
    dataset: this process's copy.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The info of the current worker process; None in the main process."""
    return _info


def work(tasks: Connection, results: Connection, inherited: Any = None) -> None:
    """The main function of a worker: build the requested batches until the pipe is closed.

    inherited: what a forked process has from the main one: the fetcher, worker_init_fn, and ends of pipes.
    """
    own = None
    if inherited is not None:
        *own, others = inherited
        for connection in others:
            connection.close()
        launch = sys.modules.get(_LAUNCH)  # with the main process's number of threads, if it was loaded there
        if launch is not None:
            launch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the main one ends this one
    os.environ["RETROGRAD_NUM_THREADS"] = "1"  # the cores are shared with the other workers
    fetcher: Fetcher | None = None
    queue: SimpleQueue[Any] = SimpleQueue()
    # a thread reads, so that sending a task never blocks on this process
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
    """The pickled exception (None if it cannot be pickled) and its traceback as text."""
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
    """Receive a message of ``_send``; arrays get their own, writable memory."""
    packed, sizes = pickle.loads(results.recv_bytes())
    arrays = [np.empty(size, np.uint8) for size in sizes]
    for array in arrays:
        if len(array):
            results.recv_bytes_into(array.data)
    return pickle.loads(packed, buffers=arrays)
