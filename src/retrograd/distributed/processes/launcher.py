"""The launcher: finds mpiexec and starts a script in several processes with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from ..errors import DistBackendError

_QUICK = 5.0  # seconds; a job that fails sooner is not started again


def find_mpiexec() -> str:
    """The mpiexec beside this Python, as the wheels of Open MPI and MPICH put it there, or else the one on PATH.

    Raises:
        DistBackendError: there is none, or mpi4py is not installed.
    """
    if find_spec("mpi4py") is None:
        raise DistBackendError("launch: mpi4py is not installed; pip install 'retrograd[mpi]'")
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise DistBackendError(
            "launch: there is no mpiexec; pip install 'retrograd[mpi]' brings Open MPI, or load the cluster's MPI"
        )
    return found


@lru_cache(maxsize=4)
def _is_open_mpi(mpiexec: str) -> bool:
    text = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    return "Open MPI" in text or "OpenRTE" in text or "prte" in text.lower()


def command(workers: int, script: Sequence[str], mpiexec: str, *, options: Sequence[str] = ()) -> list[str]:
    """The command line that runs a script (its path, or "-m" and a module; then its arguments) in `workers` processes.

    With Open MPI the others go on when one dies (ULFM), there may be more processes than cores, and the system's own
    scheduler places them.
    """
    flags: list[str] = []
    if _is_open_mpi(mpiexec):
        flags = ["--with-ft", "ulfm", "--oversubscribe", "--bind-to", "none"]
        if os.name == "posix" and os.getuid() == 0:
            flags.append("--allow-run-as-root")
    worker = [sys.executable, "-m", "retrograd.distributed.processes.worker"]
    return [mpiexec, *flags, *options, "-n", str(workers), *worker, *script]


def launch(
    workers: int,
    script: Sequence[str],
    *,
    restarts: int = 0,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    say: Callable[[str], object] = print,
) -> int:
    """Run a script in `workers` processes and return its exit code.

    restarts: how often a job that fails is started again; the script continues from its last checkpoint. A job that
    fails in its first seconds is not. The processes find the number of the start in RETROGRAD_RESTART.

    Raises:
        DistBackendError: there is no mpiexec, or no mpi4py. ValueError: a number is out of range.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ValueError(f"launch: workers={workers!r} must be a positive int")
    if isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 0:
        raise ValueError(f"launch: restarts={restarts!r} must be an int of at least 0")
    mpiexec = find_mpiexec()
    line = command(workers, script, mpiexec, options=options)
    for start in range(restarts + 1):
        variables = {**os.environ, **(environment or {}), "RETROGRAD_LAUNCHED": "1", "RETROGRAD_RESTART": str(start)}
        began = time.monotonic()
        code = _run(line, variables)
        if code == 0 or start == restarts or time.monotonic() - began < _QUICK:
            break
        say(f"launch: the job ended with code {code}; start {start + 2} of at most {restarts + 1}")
    return code


def _run(line: Sequence[str], variables: Mapping[str, str]) -> int:
    """The exit code of a command, which gets Ctrl-C like this process."""
    process = subprocess.Popen(line, env=dict(variables))
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue  # it stops its processes itself
