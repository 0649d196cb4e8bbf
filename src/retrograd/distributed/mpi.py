"""MPI startup and exit: launcher detection, worker environment variables, threads per worker, error conversion.

mpi4py uses the cluster's MPI, or that of the Open MPI or MPICH wheel. A program that was not started by a launcher is a
world of one process, and needs neither MPI nor mpi4py.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..kernels.compiled.machine.launch import set_num_threads
from .errors import DistBackendError, DistError, WorkerLostError

# ---- Environment variables of a worker: the launcher's values under torchrun's names --------------------------------

_NAMES = {  # torchrun's name -> the launchers' names
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"),
    "LOCAL_WORLD_SIZE": ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"),
}
# scripts for torchrun read and print these; MPI connects the processes, so nothing listens there
_MASTER = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
ABORT_NOTE = "RETROGRAD_ABORT_NOTE"  # path of a file that a worker creates when it aborts the job


def set_environment(**known: int) -> None:
    """Set torchrun's variables from the launcher's, or from `known` where the launcher has none."""
    for name, others in _NAMES.items():
        found = next((os.environ[other] for other in others if other in os.environ), None)
        if found is None and name in known:
            found = str(known[name])
        if found is not None:
            os.environ.setdefault(name, found)
    if "RANK" in os.environ:
        for name, value in _MASTER.items():
            os.environ.setdefault(name, value)


# ---- Threads of a worker: its share of the machine's cores ----------------------------------------------------------

_THREAD_VARIABLES = ("RETROGRAD_NUM_THREADS", "OMP_NUM_THREADS")
_MAX_CORES = 8192  # more than any machine has


@lru_cache(maxsize=1)
def has_own_core() -> bool:
    """Return whether there is a core for each worker on this machine, so that polling slows no other worker down."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) <= (os.cpu_count() or 1)


def share_cores(here: Any) -> None:
    """Set the number of threads to this worker's share of the cores, unless the environment sets it.

    here: MPI's communicator of the workers on this machine.

    Each core is divided among the workers that may run on it. A launcher either gives each worker its own cores, or
    allows all workers on all cores.
    """
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cores = [core for core in mine if core < _MAX_CORES]
    own, workers = np.zeros(_MAX_CORES, np.intc), np.empty(_MAX_CORES, np.intc)
    own[cores] = 1
    here.Allreduce(own, workers)
    if not any(name in os.environ for name in _THREAD_VARIABLES):
        set_num_threads(max(1, int((1 / workers[cores]).sum() + 1e-6)))


# ---- MPI: loaded with the first process group, finalized at exit ----------------------------------------------------

# variables that mpiexec (Open MPI, MPICH and its relatives) and srun set in the processes they start
_SRUN = "SLURM_STEP_NUM_TASKS"  # a batch script has SLURM_NTASKS without srun
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", _SRUN)
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")
_PAUSE = 1.0  # seconds in which the others can report their errors before one process aborts the job
_STAGGER = 0.2  # seconds more per rank: Open MPI's launcher may hang when several processes abort at once


def is_launched() -> bool:
    """Return whether this process was started by an MPI launcher, or by srun with several tasks."""
    return launched_size() > 1 or any(name in os.environ for name in _RANKS)


def launched_size() -> int:
    """Return the number of processes that the launcher reports; 1 if there is no launcher or no number."""
    return next((int(os.environ[name]) for name in _SIZES if os.environ.get(name, "").isdecimal()), 1)


def check_connected(size: int, library: str) -> None:
    """Check that MPI, whose world has this size, knows of all processes that the launcher has started.

    Raises:
        DistBackendError: this process is alone in its world although the launcher has started several.
    """
    started = launched_size()
    if size > 1 or started == 1:
        return
    if os.environ.get(_SRUN) == str(started):
        launcher = f"srun --mpi={os.environ.get('SLURM_MPI_TYPE', 'none')}"
        advice = (
            "pass --mpi=pmix to srun for Open MPI, --mpi=pmi2 for MPICH (srun --mpi=list shows what this Slurm has); "
            "start independent programs one by one, with srun -n 1"
        )
    else:
        launcher, advice = "mpiexec", "it belongs to another MPI; use the mpiexec of this one, or retrograd launch"
    raise DistBackendError(
        f"init_process_group: {launcher} has started {started} processes, but each is alone in its own world: "
        f"{library} does not learn of the others from it; {advice}"
    )


@lru_cache(maxsize=1)
def load() -> Any:
    """Import and initialize ``mpi4py.MPI``.

    Raises:
        DistBackendError: mpi4py is not installed, or finds no MPI.
    """
    try:
        import mpi4py

        mpi4py.rc.finalize = False  # a program that fails must end instead of waiting for the others in MPI_Finalize
        mpi = importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise DistBackendError(
            f"distributed: this process was started by mpiexec or srun, and MPI cannot be loaded ({error}); "
            "pip install 'retrograd[mpi]', or pip install mpi4py where the cluster has its own MPI"
        ) from error
    before = sys.excepthook

    def failed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, MemoryError):
            _state.lost = True  # out of memory counts as a death: the others continue if they can
        else:
            _state.code = 1
        before(kind, error, trace)

    sys.excepthook = failed
    _state.errors = mpi.Exception
    atexit.register(_finish, mpi)
    return mpi


class _State:
    """Decides how this process ends.

    lost: a process has died, and MPI_Finalize would wait for it forever.
    missing: a process did not come in time and has not been heard from since. It may be stopped, and the launcher would
        wait for it. So this program aborts the job when it ends.
    code: the exit code after an error. A process with a code other than 0 aborts the job, because the others may be
        waiting for it in a collective, and only some launchers tell them of its end.
    """

    lost = missing = False
    code = 0
    errors: Any = None  # MPI's exception class, once MPI is initialized


_state = _State()


def skip_finalize() -> None:
    """Skip MPI_Finalize at exit, because it waits for all processes, including dead ones."""
    _state.lost = True


def record_exit_code(code: object) -> None:
    """Record the argument of sys.exit. Codes from 128 mean a stop signal, which the other processes have got, too."""
    if code is not None and not (isinstance(code, int) and code >= 128):
        _state.code = code if isinstance(code, int) else 1


def record_missing() -> None:
    """Record that a process did not come in time."""
    _state.missing = True


def record_all_present() -> None:
    """Record that all processes have taken part in a collective."""
    _state.missing = False


def _finish(mpi: Any) -> None:
    if mpi.Is_finalized():
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if _state.missing or (_state.code and mpi.COMM_WORLD.Get_size() > 1):
        time.sleep(_PAUSE + _STAGGER * min(mpi.COMM_WORLD.Get_rank(), 5))
        with suppress(OSError, KeyError):  # the launcher is on another machine, or there is no launcher
            Path(os.environ[ABORT_NOTE]).touch()
        mpi.COMM_WORLD.Abort(_state.code or 1)
    if not _state.lost and not _state.code:
        mpi.Finalize()


class errors:  # noqa: N801  called like a function; a class is faster at each poll
    """Context manager that converts MPI's exceptions to retrograd's; `what` names the operation in the message."""

    __slots__ = ("_what",)

    def __init__(self, what: object) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None and _state.errors is not None and isinstance(error, _state.errors):
            raise converted(error, f"{self._what}") from error


def converted(error: BaseException, what: str) -> DistError:
    """Convert an exception that MPI raised in the operation `what` to one of retrograd's."""
    mpi = load()
    kind = error.Get_error_class() if isinstance(error, mpi.Exception) else None
    if kind in (getattr(mpi, "ERR_PROC_FAILED", None), getattr(mpi, "ERR_REVOKED", None)):
        skip_finalize()
        return WorkerLostError(f"{what}: a process that takes part in it has died ({error})")
    return DistBackendError(f"{what}: MPI reports {error}")
