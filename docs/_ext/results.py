"""Tables of benchmarks/results.json, put into pages when they are built."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from benchmarks import report
from benchmarks.harness import Result, is_ours

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
_QUOTE = re.compile(r"^<!-- results: (.+) -->$", re.MULTILINE)
_EVERY_ROW = re.compile(r"^<!-- results -->$", re.MULTILINE)
_BEHIND = re.compile(r"^<!-- results behind -->$", re.MULTILINE)
_FIGURES = {"s": "time", "samples/s": "throughput", "times": "speedup", "MiB": "memory", "rms": "rounding error"}
_CLEARLY = 0.95  # a ratio above it is within the spread of repeated measurements


def quoted(text: str) -> str:
    """Put tables of results.json into a page.

    ``<!-- results: GROUP -->`` becomes the table of a group, ``<!-- results -->`` the tables of all groups, and
    ``<!-- results behind -->`` the rows in which another library is better.
    """
    text = _QUOTE.sub(lambda match: tables().get(match[1], "Not measured yet."), text)
    text = _BEHIND.sub(lambda _: behind(report.read(FOLDER)[1]), text)
    return _EVERY_ROW.sub(lambda _: report.every_row(*report.read(FOLDER)), text)


@functools.cache
def tables() -> dict[str, str]:
    """Map the name of each group to its table in Markdown."""
    return report.tables(report.read(FOLDER)[1])


def behind(results: list[Result]) -> str:
    """Return Markdown with the rows in which another library is better, by kind of figure, worst first."""
    rows = [row for row in results if not row.level and row.ratio and row.best and not is_ours(row.best)]
    parts = []
    for unit, figure in _FIGURES.items():
        compared = [row for row in rows if row.unit == unit]
        worse = sorted((row for row in compared if (row.ratio or 1) < _CLEARLY), key=lambda row: row.ratio or 0)
        if worse:
            of = f"{len(worse)} of {len(compared)} rows, worst first."
            parts.append(f"## {figure.capitalize()}\n\n{of}\n\n{_table(worse)}")
    return "\n\n".join(parts)


def _table(rows: list[Result]) -> str:
    lines = ["| group | row | threads | retrograd | better | ratio |", "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        library = row.best if row.best.startswith("onnxruntime") else "PyTorch"
        ours, theirs = (report.amount(value, row.unit) for value in (row.ours, row.theirs[row.best]))
        cells = (row.group, row.name, str(row.threads or ""), ours, f"{theirs}, {library}", f"{row.ratio:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
