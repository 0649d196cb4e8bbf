"""The two processes of a benchmark: each times its own calls, only one runs at a time, and errors reach the parent."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

HEAD = """
import os
import numpy as np
from benchmarks.harness import Row

def note(name):
    return lambda: open({notes!r}, "a").write(f"{name} {os.getpid()} ")

def rows(quick, compile):
"""


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Writes a suite whose ``rows`` has this body and measures it."""
    monkeypatch.syspath_prepend(ROOT)  # the children get this path, too
    monkeypatch.syspath_prepend(tmp_path)
    turns, harness = (importlib.import_module(f"benchmarks.{name}") for name in ("turns", "harness"))

    def run(body: str) -> list:
        (tmp_path / "some_suite.py").write_text(HEAD.replace("{notes!r}", repr(str(tmp_path / "notes"))) + body)
        effort = harness.Effort(rounds=2, block=1e-6, pause=0.0)
        return list(turns.measure(turns.Plan("some_suite", 1), effort))

    return run


def test_each_side_times_its_own_calls_in_a_process_of_its_own(measured, tmp_path: Path) -> None:
    results = measured("""
    theirs = {"eager": note("eager"), "retrograd in another way": note("another")}
    yield Row("g", "first", note("ours"), theirs, target=0.001)
    yield Row("g", "second", note("ours"), {"eager": note("eager")})
""")
    assert [result.name for result in results] == ["first", "second"]
    assert set(results[0].theirs) == {"eager", "retrograd in another way"} and results[0].passed
    words = (tmp_path / "notes").read_text().split()
    where: dict[str, set[str]] = {}
    for name, pid in zip(words[::2], words[1::2], strict=True):
        where.setdefault(name, set()).add(pid)
    assert len(where["ours"]) == len(where["eager"]) == 1 and where["ours"] != where["eager"]
    assert where["another"] == where["ours"] and str(os.getpid()) not in words


def test_a_process_is_stopped_while_the_other_measures(measured, tmp_path: Path) -> None:
    """Our call reads the state of the other process, which the suite's rows have noted while they were built."""
    measured(
        """
    open({folder!r} + f"/{os.getpid()}", "w").close()
    def ours():
        others = [pid for pid in os.listdir({folder!r}) if pid.isdigit() and pid != str(os.getpid())]
        states = [open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1][0] for pid in others]
        open({folder!r} + "/states", "a").write("".join(states))
    yield Row("g", "r", ours, {"eager": ours})
""".replace("{folder!r}", repr(str(tmp_path)))
    )
    assert set((tmp_path / "states").read_text()) == {"T"}


def test_a_wrong_result_is_no_figure(measured) -> None:
    values = "lambda: [(np.ones(2), np.zeros(2) + 1.1)]"
    with pytest.raises(RuntimeError, match=r"results differ by 0.1; their size is 1.1"):
        measured(f"    yield Row('g', 'r', note('a'), {{'eager': note('b')}}, values={values})\n")


def test_an_error_in_a_call_reaches_the_parent(measured) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        measured("    yield Row('g', 'r', lambda: 1 / 0, {'eager': note('b')})\n")


def test_a_process_that_dies_is_an_error(measured) -> None:
    with pytest.raises(RuntimeError, match="ended with exit code 3"):
        measured("    yield Row('g', 'r', lambda: os._exit(3), {'eager': note('b')})\n")


def test_rows_that_differ_between_the_processes_are_an_error(measured) -> None:
    with pytest.raises(RuntimeError, match="the processes are at different rows"):
        measured("    yield Row('g', str(os.getpid()), note('a'), {'eager': note('b')})\n")


def test_the_command_line_measures_a_suite() -> None:
    line = [sys.executable, "-m", "benchmarks", "--quick", "--only", "matmul", "--threads", "1", "--level", "avx2"]
    ended = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
    assert "matmul: (128, 128) @ (128, 128), 1 thread, AVX2:" in ended.stdout and "1 rows with a target" in ended.stdout


def test_a_level_is_refused_for_suites_that_have_no_turns() -> None:
    line = [sys.executable, "-m", "benchmarks", "--only", "memory", "--level", "avx2"]
    ended = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 1
    assert "--level is only for suites whose two processes take turns, not for memory" in ended.stderr
