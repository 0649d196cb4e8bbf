"""MPI startup: launcher detection, worker environment variables, threads per worker, error conversion.

mpi4py stands on the MPI of the cluster or on the wheel of Open MPI or MPICH. A program that no launcher has started is
a world of one process, which needs neither.
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

# ---- The environment of a worker: what launchers of MPI programs say, under the names that scripts for torchrun read

_NAMES = {  # torchrun's name -> the launchers' names
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"),
    "LOCAL_WORLD_SIZE": ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"),
}
# MPI connects the processes: scripts for torchrun print these, and nobody is there
_MASTER = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
ABORT_NOTE = "RETROGRAD_ABORT_NOTE"  # the file in which a process tells the launcher that it has ended the job


def set_environment(**known: int) -> None:
    """Set torchrun's names where the launcher gives them; or else to what is `known`."""
    for name, others in _NAMES.items():
        found = next((os.environ[other] for other in others if other in os.environ), None)
        if found is None and name in known:
            found = str(known[name])
        if found is not None:
            os.environ.setdefault(name, found)
    if "RANK" in os.environ:
        for name, value in _MASTER.items():
            os.environ.setdefault(name, value)


# ---- Threads of a worker: its part of the cores of its machine ------------------------------------------------------

_SET = ("RETROGRAD_NUM_THREADS", "OMP_NUM_THREADS")
_CORES = 8192  # more than a machine has


@lru_cache(maxsize=1)
def has_a_core() -> bool:
    """Whether there is a core for each worker of this machine, so that one that waits keeps none from its work."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) <= (os.cpu_count() or 1)


def share_cores(here: Any) -> None:
    """Give this worker as many threads as there are cores for it, unless the environment sets the number.

    here: MPI's communicator of the workers of this machine. Each core is shared by those that may run on it: launchers
    give each worker cores of its own, or all of them all cores.
    """
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cores = [core for core in mine if core < _CORES]
    own, workers = np.zeros(_CORES, np.intc), np.empty(_CORES, np.intc)
    own[cores] = 1
    here.Allreduce(own, workers)
    if not any(name in os.environ for name in _SET):
        set_num_threads(max(1, int((1 / workers[cores]).sum() + 1e-6)))


# ---- MPI: found and started when the first process group is made, and finished when the program ends ----------------

# what mpiexec (Open MPI, MPICH and its kin) and srun tell the processes that they start
_SRUN = "SLURM_STEP_NUM_TASKS"  # SLURM_NTASKS is there in a batch script too, which no srun has started
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", _SRUN)
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")
_PAUSE = 1.0  # seconds for the others to say what they miss, or that they fail as well, before the first one ends all
_STAGGER = 0.2  # by rank: Open MPI's launcher may hang when several end all at once


def is_launched() -> bool:
    """Whether a launcher of MPI programs has started this process, or srun several."""
    return launched_size() > 1 or any(name in os.environ for name in _RANKS)


def launched_size() -> int:
    """Return the number of processes reported by the launcher; 1 if it reports none, or there is no launcher."""
    return next((int(os.environ[name]) for name in _SIZES if os.environ.get(name, "").isdecimal()), 1)


def check_joined(size: int, library: str) -> None:
    """Check that the launcher and MPI, whose world is of this size, have found each other.

    Raises:
        DistBackendError: this process is alone in its world, and is one of several.
    """
    started = launched_size()
    if size > 1 or started == 1:
        return
    if os.environ.get(_SRUN) == str(started):
        launcher = f"srun --mpi={os.environ.get('SLURM_MPI_TYPE', 'none')}"
        advice = (
            "pass --mpi=pmix to srun for Open MPI, --mpi=pmi2 for MPICH (srun --mpi=list shows what this Slurm has); "
            "programs that have nothing to do with each other are started one by one, with srun -n 1"
        )
    else:
        launcher, advice = "mpiexec", "it belongs to another MPI; use the mpiexec of this one, or retrograd launch"
    raise DistBackendError(
        f"init_process_group: {launcher} has started {started} processes, and each is alone, in a world of its own: "
        f"{library} does not hear of the others from it; {advice}"
    )


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
            f"distributed: this process was started by mpiexec or srun, and MPI cannot be loaded ({error}); "
            "pip install 'retrograd[mpi]', or pip install mpi4py where the cluster has an MPI of its own"
        ) from error
    before = sys.excepthook

    def failed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, MemoryError):
            _state.lost = True  # as if it had been killed: the others go on where they can
        else:
            _state.code = 1
        before(kind, error, trace)

    sys.excepthook = failed
    _state.errors = mpi.Exception
    atexit.register(_finish, mpi)
    return mpi


class _State:
    """`lost`: a process was lost, and MPI's end would wait for it.

    `missing`: a process did not come in time, and has not been heard from since. It may be stopped, and the launcher
    would wait for it: the end of this program ends it too. `code`: of an end by an error. It ends the others, which may
    wait for this process in a collective, and hear of its end from some launchers only.
    """

    lost = missing = False
    code = 0
    errors: Any = None  # MPI's class of exceptions, once it is started


_state = _State()


def give_up() -> None:
    """Leave out MPI's end, which waits for all processes."""
    _state.lost = True


def ends_with(code: object) -> None:
    """This program calls sys.exit(code). A signal to stop, 128 and above, has reached the others as well."""
    if code is not None and not (isinstance(code, int) and code >= 128):
        _state.code = code if isinstance(code, int) else 1


def misses_others() -> None:
    """A process did not come in time."""
    _state.missing = True


def heard_from_all() -> None:
    """All have taken part in a collective."""
    _state.missing = False


def _finish(mpi: Any) -> None:
    if mpi.Is_finalized():
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if _state.missing or (_state.code and mpi.COMM_WORLD.Get_size() > 1):
        time.sleep(_PAUSE + _STAGGER * min(mpi.COMM_WORLD.Get_rank(), 5))
        with suppress(OSError, KeyError):  # the launcher runs on another machine, or there is none
            Path(os.environ[ABORT_NOTE]).touch()
        mpi.COMM_WORLD.Abort(_state.code or 1)
    if not _state.lost and not _state.code:
        mpi.Finalize()


class errors:  # noqa: N801  a function to its callers, a class because it is entered at every look at a message
    """Within the block, exceptions of MPI's become ours; `what` names what is done in it."""

    __slots__ = ("_what",)

    def __init__(self, what: object) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None and _state.errors is not None and isinstance(error, _state.errors):
            raise converted(error, f"{self._what}") from error


def converted(error: BaseException, what: str) -> DistError:
    """One of our errors for an exception of MPI's within `what`."""
    mpi = load()
    kind = error.Get_error_class() if isinstance(error, mpi.Exception) else None
    if kind in (getattr(mpi, "ERR_PROC_FAILED", None), getattr(mpi, "ERR_REVOKED", None)):
        give_up()
        return WorkerLostError(f"{what}: a process that takes part in it has died ({error})")
    return DistBackendError(f"{what}: MPI reports {error}")
