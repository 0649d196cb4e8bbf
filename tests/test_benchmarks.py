"""Benchmark results: ratios of rounds, columns for lower processor levels, rows of earlier runs, and the summary."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


def _module(name: str) -> ModuleType:
    sys.path.insert(0, str(ROOT))
    try:
        return importlib.import_module(f"benchmarks.{name}")
    finally:
        sys.path.remove(str(ROOT))


harness, report = _module("harness"), _module("report")


def _row(name: str, ratio: float | None = 2.0, **more: Any) -> Any:
    facts = {"group": "g", "name": name, "threads": 1, "unit": "s", "ours": 1e-3, "best": "eager", "ratio": ratio}
    return harness.Result(**facts | {"theirs": {"eager": 1e-3 * (ratio or 1)}} | more)


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    row = harness.Row("g", "r", lambda: None, {}, target=1.5)
    blocks = {"retrograd": [1.0, 2.0, 1.0], "eager": [2.0, 2.0, 4.0], "compiled": [9.0, 9.0, 9.0]}
    result = harness.compare(row, 2, blocks)
    assert (result.ours, result.best, result.ratio) == (1.0, "eager", 2.0)
    assert result.theirs == {"eager": 2.0, "compiled": 9.0} and result.spread == (1.0, 4.0) and result.passed


def test_both_libraries_have_the_same_cores_in_a_turn() -> None:
    cores_of = _module("turns").cores_of
    assert [cores_of([2, 3, 5], 1, turn) for turn in range(4)] == [[2], [3], [5], [2]]
    assert [cores_of([2, 3], 2, turn) for turn in range(3)] == [[2, 3], [3, 2], [2, 3]]
    assert cores_of([2, 3, 5], 2, 0) == cores_of([2], 2, 0) == cores_of([], 1, 0) == []


def test_only_ways_of_against_count() -> None:
    row = harness.Row("g", "r", lambda: None, {}, against=("compiled",))
    result = harness.compare(row, 1, {"retrograd": [1.0], "eager": [2.0], "compiled": [9.0]})
    assert (result.best, result.ratio, result.passed) == ("compiled", 9.0, None)


def test_a_row_without_its_calls_can_be_sent_but_not_run() -> None:
    row = harness.Row("g", "r", lambda: 1, {"eager": lambda: 2}, values=list).without_calls()
    assert (row.group, row.name, row.theirs, row.values) == ("g", "r", {}, None)
    with pytest.raises(RuntimeError, match="in another process"):
        row.ours()


def test_lower_levels_are_further_columns() -> None:
    rows = [_row("a", 2.0), _row("b", 8.0), _row("a", 1.0, level="avx2"), _row("b", 0.25, level="avx2", passed=False)]
    text = report.every_row({"processor": "P"}, rows, [])
    assert "Geometric mean of the ratios: 4.00, 0.50 with AVX2" in text
    header = "| row | threads | retrograd | PyTorch | configuration | ratio | spread | target |  | AVX2 retrograd |"
    assert header + " AVX2 PyTorch | AVX2 configuration | AVX2 ratio | AVX2 spread |" in text
    assert "| a | 1 | 1 ms | 2 ms | eager | 2.00 |  |  |  | 1 ms | 1 ms | eager | 1.00 |  |" in text
    assert "- g: b, 1 thread, AVX2: 0.25, target" in text


def test_a_row_that_a_level_lacks_leaves_its_columns_empty() -> None:
    text = report.every_row({}, [_row("a"), _row("b"), _row("a", 3.0, level="avx2")], [])
    assert "| b | 1 | 1 ms | 2 ms | eager | 2.00 |  |  |  |  |  |  |  |  |" in text


def test_rows_of_other_groups_and_levels_are_kept(tmp_path: Path) -> None:
    before = [_row("a"), _row("a", level="avx2"), _row("b", group="h")]
    report.save(tmp_path, {"processor": "old"}, before, [])
    found = report.merged(tmp_path, [_row("a", 5.0)], "new")
    assert [(row.group, row.level, row.earlier, row.processor) for row in found] == [
        *(("g", "", False, ""), ("g", "avx2", True, "old"), ("h", "", True, "old"))
    ]
    found = report.merged(tmp_path, [_row("a", 5.0, level="avx2")], "old", "avx2")
    assert [(row.ratio, row.level, row.earlier, row.processor) for row in found] == [
        *((5.0, "avx2", False, ""), (2.0, "", True, ""), (2.0, "", True, ""))
    ]


def test_a_figure_of_ours_is_not_called_pytorchs() -> None:
    line = report.line(_row("a", best="retrograd outside", theirs={"retrograd outside": 2e-3}))
    assert line.startswith("g: a, 1 thread: 1 ms  2 ms (retrograd outside)") and "PyTorch" not in line


def _cells(text: str) -> list[list[str]]:
    """Return the rows of a summary's table, without its header."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_the_summary_has_a_line_for_each_group() -> None:
    rows = [_row("a", 4.0, passed=True), _row("b", 0.25, threads=2, passed=False), _row("c", 3.0, group="h: x")]
    rows += [_row("a", 1.0, level="avx2", passed=False)]
    text = report.overview({"processor": "P"}, [*rows, _row("d", 12.0, group="h: y"), _row("no ratio", None)], [])
    assert "- processor: P" in text and "\n1 of 2 rows with a target reach it, and 0 of 1 with AVX2." in text
    assert _cells(text) == [
        ["h", "time", "1", "2", "6.00", "", "0", "3.00", "x c"],
        ["g", "time", "1, 2", "2", "1.00", "1.00", "1", "0.25", "b"],
    ]


def test_the_summary_separates_opponents_and_figures() -> None:
    opponents = [_row("a"), _row("b", 0.5, best="onnxruntime"), _row("c", 0.5, best="retrograd outside")]
    mean = _row("m", best="", unit="times")  # of other rows
    text = report.overview({}, [*opponents, _row("d", unit="MiB", earlier=True, processor="Q"), mean], [])
    assert [row[1] for row in _cells(text)] == [
        *("time", "time, against onnxruntime", "time, against retrograd itself", "memory")
    ]
    assert "1 of the 5 rows are from earlier runs, on Q." in text


def test_the_summary_is_one_page_of_the_last_results() -> None:
    written = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    assert report.overview(*report.read(ROOT / "benchmarks")) == written, "run: python -m benchmarks --plot"
    assert written.count("\n") <= 80
