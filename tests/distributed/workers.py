"""Runs test programs in several processes, with a real mpiexec."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from retrograd.distributed.launcher import command, find_mpiexec

PROGRAMS = Path(__file__).parent / "programs"

needs_mpi = pytest.mark.usefixtures("mpi")
needs_ulfm = pytest.mark.usefixtures("ulfm")


def has_ulfm() -> bool:
    """Return whether the other processes of a job survive if one dies."""
    return "ulfm" in command(1, [], find_mpiexec())


def run(
    workers: int, program: str, *arguments: object, seconds: float = 120, code: int | None = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a file of PROGRAMS in `workers` processes of one thread each; check the exit code unless `code` is None."""
    line = [sys.executable, "-m", "retrograd", "launch", "-n", str(workers), str(PROGRAMS / program)]
    variables = {**os.environ, "RETROGRAD_NUM_THREADS": "1", **environment}
    ended = subprocess.run(
        [*line, *map(str, arguments)], env=variables, capture_output=True, text=True, timeout=seconds, check=False
    )
    if code is not None:
        assert ended.returncode == code, f"{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"
    return ended
