"""Every operator with all its arrays between inaccessible pages (see pages.py), in separate processes.

A drawn case runs forward, backward and double backward twice, with other garbage in fresh memory, and wants the same
bits. Then it runs once more, and all integers and truth values that the user holds, inputs and outputs, are written
over as soon as forward is over: the gradients must be those of the values that forward saw.
"""

from __future__ import annotations

import mmap
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from guard.planted import OPERATORS as PLANTED

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not hasattr(mmap, "MAP_ANONYMOUS"), reason="needs POSIX")


def guarded(module: str, *arguments: int, threads: int = 1) -> subprocess.CompletedProcess[str]:
    return python("-m", f"guard.{module}", *map(str, arguments), threads=threads)


def python(*arguments: str, threads: int = 1) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", *arguments],
        env={**os.environ, "PYTHONPATH": path, "RETROGRAD_NUM_THREADS": str(threads)},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=3000,
    )


def kernel_calls(run: subprocess.CompletedProcess[str]) -> int:
    """How many there were, if all went well."""
    lines = run.stdout.splitlines()
    faults = [line for line in lines if line.startswith("FAULT")] or lines[-1:]
    assert run.returncode == 0, "\n".join([f"ended with {run.returncode}", *faults, run.stderr[-3000:]])
    found = re.match(r"(\d+) kernel calls", lines[-1])
    assert found, lines[-1:]
    return int(found[1])


def test_operators_between_pages_without_access() -> None:
    assert kernel_calls(guarded("child", 0, 60)) > 1000


@pytest.mark.nightly
@pytest.mark.parametrize("threads", [1, 2])
def test_every_operator_between_pages_without_access(threads: int) -> None:
    assert kernel_calls(guarded("child", threads, 3000, threads=threads)) > 20_000


@pytest.mark.nightly
def test_tests_of_kernels_between_pages_without_access() -> None:
    run = python(
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "guard.plugin",
        "-p",
        "no:cacheprovider",
        "tests/kernels",
        # those are about memory, launches and processes themselves
        "-k",
        "not precompile and not scratch and not launch and not test_plans",
    )
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-3000:]


def test_planted_faults_are_found() -> None:
    run = guarded("planted")
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.splitlines() == [entry.name for entry in PLANTED]
