"""Test selection: pairwise samples (``@pytest.mark.pairwise``), random ones (``--draw``, ``--tenth``); MPI fixtures."""

from __future__ import annotations

import gc
import heapq
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterable
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

numpy_2 = np.lib.NumpyVersion(np.__version__) >= "2.0.0"
# of the cases of a parametrized test in these folders and files, --draw keeps one in so many
DRAWN = {
    **dict.fromkeys(("conformance", "kernels", "replay"), 6),
    "test_docs.py": 5,
    **dict.fromkeys(("explanation", "ops", "test_every_operator.py", "textbook"), 4),
    **dict.fromkeys(("lowbit", "onnx_models", "test_sklearn_checks.py"), 3),
    **dict.fromkeys(("test_array_methods.py", "test_batch_norm_fusion.py", "test_fusion.py"), 3),
    "nn": 2,
}
xdist_worker = os.environ.get("PYTEST_XDIST_WORKER", "")
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


@pytest.hookimpl(trylast=True)  # when the cases are known
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Mark the cases that run at night. With ``--draw`` pytest makes no items of them, which would take ten seconds.

    A case that the command line names is not left out.
    """
    calls, test = metafunc._calls, metafunc.definition
    if test.get_closest_marker("pairwise"):
        mark_unsampled_as_nightly(calls)
    seed = test.config.getoption("--draw")
    named = any("[" in argument for argument in test.config.args)
    if seed is not None and not named and "not nightly" in test.config.option.markexpr:
        mark_undrawn_as_nightly(seed, test.nodeid, calls)
        by_day = [call for call in calls if not is_nightly(call) and not test.get_closest_marker("nightly")]
        calls[:] = by_day or calls[:1]  # without any, pytest would make an item without parameters


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Collect the files in reverse in every second process of pytest-xdist.

    The processes share the files with the rewritten assertions, and rewriting takes longer than the rest of collecting:
    two processes that begin at the two ends each rewrite half of the files.
    """
    report = yield
    if xdist_worker.endswith(("1", "3", "5", "7", "9")) and isinstance(collector, pytest.Session | pytest.Dir):
        report.result.reverse()
    return report


@pytest.hookimpl(tryfirst=True)  # before pytest deselects the nightly tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if xdist_worker:  # all processes need the same order
        items.sort(key=lambda item: item.path)
    seed = config.getoption("--tenth")
    if seed is not None:
        items[:] = [item for item in items if is_drawn(seed, item.nodeid)]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    _exempt_from_garbage_collection()


def pytest_runtest_logstart(nodeid: str) -> None:
    """Exempt what the tests of a file left, such as the modules that they loaded, before those of the next."""
    global _file
    if (file := nodeid.partition("::")[0]) != _file:
        _file = file
        _exempt_from_garbage_collection()


_file = ""


def _exempt_from_garbage_collection() -> None:
    """Exempt what lives now: the tests are a million objects, all of which ``gc.collect()`` in a test would visit."""
    gc.collect()
    gc.freeze()


def is_drawn(seed: str, name: str) -> bool:
    """Return whether a test is in the random tenth for this seed; the same in every process."""
    return Random(f"{seed} {name}").random() < 0.1


def is_nightly(call: Any) -> bool:
    """Return whether a case (pytest's CallSpec2) runs at night only."""
    return any(mark.name == "nightly" for mark in call.marks)


def mark_unsampled_as_nightly(calls: list[Any]) -> None:
    """Mark the cases of a ``pairwise`` grid that do not belong to its sample as nightly."""
    grid = {tuple(enumerate(call._idlist)): call for call in calls if not is_nightly(call)}
    for combination in grid.keys() - set(pairwise(grid)):
        grid[combination].marks.append(pytest.mark.nightly.mark)


def mark_undrawn_as_nightly(seed: str, name: str, calls: list[Any]) -> None:
    """Mark the cases of a large test that are not drawn as nightly; at least one case is drawn."""
    found = [call for call in calls if not is_nightly(call)]
    share = next((DRAWN[part] for part in re.split("/|::", name) if part in DRAWN), 1)
    drawn = set(Random(f"{seed} {name}").sample(range(len(found)), -(-len(found) // share)))
    for at, call in enumerate(found):
        if at not in drawn:
            call.marks.append(pytest.mark.nightly.mark)


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
