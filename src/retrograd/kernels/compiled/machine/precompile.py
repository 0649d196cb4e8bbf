"""Compiling many kernels before the first of them is needed, on as many cores as the kernels themselves use.

Numba compiles under one lock, so the other cores run helper processes. They share one queue of kernels with the calling
process and write object files to the cache, where ``launch`` finds them. A kernel that a helper fails to compile is
compiled when it is needed.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from . import cache
from .launch import Kernel, announce, get_num_threads, known_versions, registered

_NAMES = {"f": "float32", "d": "float64"}
Progress = Callable[[str], None]


def warmup(dtypes: str = "fd", progress: Progress | None = None) -> int:
    """Load every kernel for the element types ("f", "d"), compiling what the cache lacks; returns their number.

    ``progress`` is told the name of each kernel that is compiled.
    """
    handles = registered()
    compile_ahead((handle.path for handle in handles), dtypes, progress)
    for handle in handles:
        for dtype in dtypes:
            handle[dtype]
    return len(handles) * len(dtypes)


def compile_ahead(paths: Iterable[str], dtypes: str = "f", progress: Progress | None = None) -> None:
    """Compile those of the kernels ``module.function`` that the cache lacks.

    The calling process works from the front of the list and the others from its back: so the kernels of a module,
    which share functions, mostly fall to one process, and slow ones should be at both ends.
    """
    wanted = ((Kernel(path), dtype) for path in paths for dtype in dtypes)
    queue = deque((kernel, dtype) for kernel, dtype in wanted if cache.read(kernel.symbol(dtype)) is None)
    if not queue:
        return
    announce()

    def take(end: Callable[[], tuple[Kernel, str]]) -> tuple[Kernel, str] | None:
        try:
            kernel, dtype = end()
        except IndexError:
            return None
        if progress is not None:
            progress(f"{kernel.path} {_NAMES[dtype]}")
        return kernel, dtype

    def employ(helper: subprocess.Popen[str]) -> None:
        assert helper.stdin is not None and helper.stdout is not None
        with suppress(OSError), helper:  # OSError: the helper died
            while (task := take(queue.pop)) is not None:
                print(task[0].path, task[1], file=helper.stdin, flush=True)
                if not helper.stdout.readline():
                    return

    helpers, threads = [], []
    try:
        for _ in range(min(get_num_threads(), len(queue)) - 1):
            if helper := _start():
                helpers.append(helper)
                threads.append(Thread(target=employ, args=(helper,), daemon=True))
                threads[-1].start()
        with _few_collections():
            while (task := take(queue.popleft)) is not None:
                _compile(*task)
        for thread in threads:
            thread.join()
    finally:  # after Ctrl-C, some are still running
        for helper in helpers:
            helper.kill()
            helper.wait()


def _compile(kernel: Kernel, dtype: str) -> None:
    with known_versions(f"compile {kernel.symbol(dtype)}"):
        content = kernel.compile(dtype)
    cache.write(kernel.symbol(dtype), content)


@contextmanager
def _few_collections() -> Iterator[None]:
    """Numba makes many long-lived objects; by default the garbage collector takes a tenth of the time."""
    before = gc.get_threshold()
    if before[0]:  # 0: the user has switched it off
        gc.set_threshold(max(before[0], 20_000), max(before[1], 20), *before[2:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _start() -> subprocess.Popen[str] | None:
    """A helper process, or None where there can be none."""
    if getattr(sys, "frozen", False):  # the executable is the whole program, not Python
        return None
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    place = {**os.environ, "RETROGRAD_CACHE_DIR": str(cache.folder())}  # the folder may belong to this process alone
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=nothing, text=True, env=place
        )
    except OSError:
        return None


def serve() -> None:
    """A helper process: compile each kernel that standard input names and answer with a line; end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the parent ends this one
    with _few_collections():
        for line in sys.stdin:
            path, dtype = line.split()
            _compile(Kernel(path), dtype)
            print(path, flush=True)
