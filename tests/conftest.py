"""Test selection: pairwise samples (``@pytest.mark.pairwise``), random ones (``--draw``, ``--tenth``); MPI fixtures."""

from __future__ import annotations

import gc
import heapq
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest

numpy_2 = np.lib.NumpyVersion(np.__version__) >= "2.0.0"
# of the cases of a parametrized test in these folders and files, --draw keeps one in so many
DRAWN = {"conformance": 3, "explanation": 3, "kernels": 3, "onnx_models": 2, "ops": 2, "test_docs.py": 3, "textbook": 3}
Combination = tuple[tuple[int, str], ...]  # (index of the parametrize mark, id of its value), for each stacked mark


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tenth", metavar="SEED", help="run a tenth of the chosen tests, drawn with this seed")
    parser.addoption("--draw", metavar="SEED", help="run a part of the cases of large tests, drawn with this seed")


@pytest.hookimpl(trylast=True)
def pytest_report_header(config: pytest.Config) -> str | None:
    for option, part in (("--tenth", "a tenth of the tests"), ("--draw", "a part of the cases of large tests")):
        if (seed := config.getoption(option)) is not None:
            return f"{part}, drawn: {option} {seed}"
    return None


@pytest.hookimpl(tryfirst=True)  # before pytest deselects the nightly tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("--tenth")
    if seed is not None:
        items[:] = [item for item in items if is_drawn(seed, item.nodeid)]
    mark_unsampled_as_nightly(items)
    seed = config.getoption("--draw")
    if seed is not None:
        mark_undrawn_as_nightly(seed, items)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    _exempt_from_garbage_collection()


def pytest_runtest_logfinish() -> None:
    global _finished
    _finished += 1
    if _finished % 500 == 0:
        _exempt_from_garbage_collection()


_finished = 0


def _exempt_from_garbage_collection() -> None:
    """Exempt what lives now: the tests are a million objects, all of which ``gc.collect()`` in a test would visit."""
    gc.collect()
    gc.freeze()


def is_drawn(seed: str, name: str) -> bool:
    """Return whether a test is in the random tenth for this seed; the same in every process."""
    return Random(f"{seed} {name}").random() < 0.1


def mark_unsampled_as_nightly(items: list[pytest.Item]) -> None:
    """Mark the tests of each ``pairwise`` grid that do not belong to its sample as nightly."""
    grids: dict[object, dict[Combination, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        if item.get_closest_marker("pairwise") and not item.get_closest_marker("nightly"):
            grids[item.function][tuple(enumerate(item.callspec._idlist))].append(item)  # type: ignore[attr-defined]
    for grid in grids.values():
        sample = set(pairwise(grid))
        for combination, found in grid.items():
            for item in found if combination not in sample else ():
                item.add_marker("nightly")


def mark_undrawn_as_nightly(seed: str, items: list[pytest.Item]) -> None:
    """Mark the cases of large tests that are not drawn as nightly; at least one case of each test is drawn."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("nightly"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for name, found in cases.items():
        share = DRAWN.get(name.split("/")[1].partition("::")[0], 1)
        drawn = set(Random(f"{seed} {name}").sample(range(len(found)), -(-len(found) // share)))
        for at, item in enumerate(found):
            if at not in drawn:
                item.add_marker("nightly")


def pairwise(grid: Iterable[Combination]) -> list[Combination]:
    """Return a small subset of the combinations that covers every pair of values of two parameters.

    The choice is greedy and deterministic: the next one covers the most uncovered pairs; ties go to the first.
    """
    pairs = {each: set(combinations(sorted(each), 2)) or {each} for each in grid}
    waiting = [(-len(pairs[each]), place, each) for place, each in enumerate(pairs)]
    heapq.heapify(waiting)
    met: set[object] = set()
    sample: list[Combination] = []
    while waiting:
        claimed, place, each = heapq.heappop(waiting)
        new = len(pairs[each] - met)
        if new == -claimed:
            sample.append(each)
            met |= pairs[each]
        elif new:
            heapq.heappush(waiting, (-new, place, each))
    return sample


@pytest.fixture(scope="session")
def mpi() -> None:
    """Skip the test, with the reason, unless MPI runs a minimal program of two processes without this library."""
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


@pytest.fixture(scope="session")
def ulfm(mpi: None) -> None:
    """Skip the test unless MPI keeps a job running after one of its processes dies (ULFM)."""
    from distributed.workers import has_ulfm

    if not has_ulfm():
        pytest.skip("this MPI ends the job when a process dies: it has no ULFM, which Open MPI has")
