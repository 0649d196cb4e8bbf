"""Compiling many kernels before the first of them is needed, on as many cores as the kernels themselves use.

Numba compiles under one lock, so the other cores run helper processes. They share one queue of kernels with the calling
process and write object files to the cache, where ``launch`` finds them. A kernel that a helper fails to compile is
compiled when it is needed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Condition, Lock, Thread

from . import cache
from .launch import (
    Deferred,
    Kernel,
    announce,
    begun,
    few_collections,
    get_num_threads,
    known_versions,
    pool,
    registered,
    waiting,
)
from .plan import Plan

Progress = Callable[[int, int], None]
_WORTH_A_HELPER = 8  # kernels more than one, since a helper starts in the time of four


def warmup(dtypes: str = "fd", progress: Progress | None = None) -> int:
    """Load every kernel for the element types ("f", "d"), compiling what the cache lacks; return their number.

    progress: see ``Compilation.finish``.
    """
    handles = registered()
    Compilation((handle.path for handle in handles), dtypes).finish(progress)
    for handle in handles:
        for dtype in dtypes:
            handle[dtype]
    return len(handles) * len(dtypes)


def compile_deferred(plans: Iterable[Plan]) -> None:
    """Compile the kernels that these plans run and that were not compiled when they were made."""
    functions = {one.function for plan in plans for one in plan.launches if type(one.function) is Deferred}
    missing = {(each.kernel.path, each.dtype) for each in functions if each.is_shared and not each.is_loaded}
    floats, doubles = (sorted(path for path, dtype in missing if dtype == wanted) for wanted in "fd")
    Compilation(floats, doubles=doubles).finish()


@contextmanager
def compiling_deferred() -> Iterator[None]:
    """Compile kernels in other processes as soon as a plan needs them, and the rest at the end."""
    compilation = Compilation((), is_open=True)
    waiting.append(compilation.add)
    with few_collections():
        try:
            yield
        finally:
            waiting.remove(compilation.add)
            compilation.finish()


class Compilation:
    """Compilation of those of the kernels ``module.function`` that the cache lacks; helper processes start immediately.

    is_open: more kernels are added until ``finish``.

    The calling process takes part in ``finish``. It works from the front of the list and the others from its back: so
    the kernels of a module, which share functions, mostly fall to one process, and slow ones should be at both ends.
    """

    def __init__(
        self, paths: Iterable[str], dtypes: str = "f", doubles: Iterable[str] = (), is_open: bool = False
    ) -> None:
        chosen = [*((path, dtype) for path in paths for dtype in dtypes), *((path, "d") for path in doubles)]
        kernels = ((Kernel(path), dtype) for path, dtype in chosen)
        self._queue = deque((kernel, dtype) for kernel, dtype in kernels if cache.read(kernel.symbol(dtype)) is None)
        self.total, self.done = len(self._queue), 0
        self._lock = Lock()
        self._changed = Condition()
        self._is_open = is_open
        self._progress: Progress | None = None
        self._helpers: list[subprocess.Popen[str]] = []
        self._threads: list[Thread] = []
        most = get_num_threads() - 1
        for _ in range(most if is_open else min(most, (self.total - 1) // _WORTH_A_HELPER)):
            if helper := _start():
                self._helpers.append(helper)
                self._threads.append(Thread(target=self._employ, args=(helper,), daemon=True))
                self._threads[-1].start()

    def add(self, deferred: Deferred) -> None:
        """Add a kernel that the cache lacks, while it is open."""
        if deferred.is_shared:
            with self._changed:
                self._queue.append((deferred.kernel, deferred.dtype))
                self.total += 1
                self._changed.notify()

    def finish(self, progress: Progress | None = None) -> None:
        """Compile what is left and wait for the helpers.

        progress: called with the number of compiled kernels and of all kernels, at the beginning and after each kernel;
            None: print one line saying that the first call takes a while.
        """
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
        if not self.total:
            self.stop()
            return
        announce(shown=progress is not None)
        if progress is not None:
            progress(self.done, self.total)
        self._progress = progress
        try:
            with few_collections():
                pool.compile()
                while (task := self._take(self._queue.popleft)) is not None:
                    _compile(*task)
                    self._count()
            for thread in self._threads:
                thread.join()
        finally:  # after Ctrl-C, some are still running
            self.stop()
        if progress is not None and self.done < self.total:  # a helper failed
            progress(self.total, self.total)

    def stop(self) -> None:
        """End the helpers; kernels that are not compiled yet are compiled when they are needed."""
        self._queue.clear()
        for helper in self._helpers:
            helper.kill()
            helper.wait()

    def _take(self, end: Callable[[], tuple[Kernel, str]]) -> tuple[Kernel, str] | None:
        while True:
            try:
                kernel, dtype = end()
            except IndexError:
                return None
            if kernel.symbol(dtype) not in begun:
                return kernel, dtype
            self._count()  # this process needed it at once

    def _awaited(self) -> tuple[Kernel, str] | None:
        """A kernel for a helper; while more may be added, it waits for one."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or not self._is_open)
                is_open = self._is_open
            task = self._take(self._queue.pop)
            if task is not None or not is_open:
                return task

    def _count(self) -> None:
        with self._lock:
            self.done += 1
            if self._progress is not None:
                self._progress(self.done, self.total)

    def _employ(self, helper: subprocess.Popen[str]) -> None:
        assert helper.stdin is not None and helper.stdout is not None
        with suppress(OSError), helper:  # OSError: the helper died
            while (task := self._awaited()) is not None:
                print(task[0].path, task[1], file=helper.stdin, flush=True)
                if not helper.stdout.readline():
                    return
                self._count()


def _compile(kernel: Kernel, dtype: str) -> None:
    with known_versions(f"compile {kernel.symbol(dtype)}"):
        content = kernel.compile(dtype)
    cache.write(kernel.symbol(dtype), content)


def _start() -> subprocess.Popen[str] | None:
    """A helper process, or None where there can be none."""
    if getattr(sys, "frozen", False):  # the executable is the whole program, not Python
        return None
    package, root = __name__.partition(".")[0], str(Path(__file__).parents[3])
    code = (  # without the modules of the package that compile nothing, which take half of the time to import
        f"import sys, types; sys.path[:] = {sys.path!r}; package = types.ModuleType({package!r}); "
        f"package.__path__ = [{root!r}]; sys.modules[{package!r}] = package; from {__name__} import serve; serve()"
    )
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
    with few_collections():
        for line in sys.stdin:
            path, dtype = line.split()
            _compile(Kernel(path), dtype)
            print(path, flush=True)
    os._exit(0)  # at once: Python and LLVM would free their memory first, and the parent waits
