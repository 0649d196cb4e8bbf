"""Tests in several processes are skipped, and say so, where MPI starts none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def mpi() -> None:
    """A plain program of two processes runs, without anything of ours."""
    if find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed: pip install retrograd[mpi]")
    beside = Path(sys.executable).parent / "mpiexec"
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    if mpiexec is None:
        pytest.skip("there is no mpiexec: pip install retrograd[mpi]")
    version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    flags = ["--oversubscribe", "--allow-run-as-root"] if "Open MPI" in version else []
    program = "from mpi4py import MPI; assert MPI.COMM_WORLD.allreduce(1) == 2"
    line = [mpiexec, *flags, "-n", "2", sys.executable, "-c", program]
    try:
        ended = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("mpiexec starts no two processes on this machine: it hangs")
    if ended.returncode:
        pytest.skip(f"mpiexec starts no two processes on this machine: {ended.stderr[-200:]}")
