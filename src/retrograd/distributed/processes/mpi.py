"""MPI: found and started when the first process group is made, and finished when the program ends.

mpi4py stands on the MPI of the cluster or on the wheel of Open MPI or MPICH. A program that no launcher has started is
a world of one process, which needs neither.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import DistBackendError, DistError, WorkerLostError
from .environment import ABORT_NOTE

# what mpiexec (Open MPI, MPICH and its kin) and srun tell the processes that they start
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
_RANKS = ("PMIX_RANK", "PMI_RANK")
_PAUSE = 1.0  # seconds for the others to say what they miss, before the first one ends all


def is_launched() -> bool:
    """Whether a launcher of MPI programs has started this process."""
    return any(name in os.environ for name in (*_SIZES, *_RANKS))


@lru_cache(maxsize=1)
def load() -> Any:
    """``mpi4py.MPI``, started.

    Raises:
        DistBackendError: it is not installed, or finds no MPI.
    """
    try:
        import mpi4py

        mpi4py.rc.finalize = False  # a program that fails must end, not wait for the others
        mpi = importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise DistBackendError(
            f"distributed: this process was started by mpiexec, and MPI cannot be loaded ({error}); "
            "pip install 'retrograd[mpi]', or pip install mpi4py where the cluster has an MPI of its own"
        ) from error
    before = sys.excepthook

    def failed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _state.failed = True
        before(kind, error, trace)

    sys.excepthook = failed
    _state.errors = mpi.Exception
    atexit.register(_finish, mpi)
    return mpi


class _State:
    """`failed`: the program ends by an error, or a process was lost: MPI's end would wait for the others.

    `missing`: a process did not come in time, and has not been heard from since. It may be stopped, and the launcher
    would wait for it: the end of this program ends it too.
    """

    failed = missing = False
    errors: Any = None  # MPI's class of exceptions, once it is started


_state = _State()


def give_up() -> None:
    """Leave out MPI's end, which waits for all processes."""
    _state.failed = True


def misses_others() -> None:
    """A process did not come in time."""
    _state.missing = True


def heard_from_all() -> None:
    """All have taken part in a collective."""
    _state.missing = False


def _finish(mpi: Any) -> None:
    if _state.missing and not mpi.Is_finalized():
        time.sleep(_PAUSE)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        with suppress(OSError, KeyError):  # the launcher runs on another machine, or there is none
            Path(os.environ[ABORT_NOTE]).touch()
        mpi.COMM_WORLD.Abort(1)
    if not _state.failed and not mpi.Is_finalized():
        mpi.Finalize()


@contextmanager
def errors(what: object) -> Iterator[None]:
    """Within the block, exceptions of MPI's become ours; `what` names what is done in it."""
    if _state.errors is None:  # MPI is not used
        yield
        return
    try:
        yield
    except _state.errors as error:
        raise converted(error, f"{what}") from error


def converted(error: Exception, what: str) -> DistError:
    """One of our errors for an exception of MPI's within `what`."""
    mpi = load()
    kind = error.Get_error_class() if isinstance(error, mpi.Exception) else None
    if kind in (getattr(mpi, "ERR_PROC_FAILED", None), getattr(mpi, "ERR_REVOKED", None)):
        give_up()
        return WorkerLostError(f"{what}: a process that takes part in it has died ({error})")
    return DistBackendError(f"{what}: MPI reports {error}")
