"""The results as JSON, as a table for the terminal and as RESULTS.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby
from operator import methodcaller
from pathlib import Path
from statistics import geometric_mean

from retrograd.atomic import write_atomically

from .harness import Result

_HEAD = """# Results of `make bench`

retrograd and PyTorch did the same work on the same arrays in one process (rows of `distributed`: in two processes
each), in turns, with the same number of threads.
**ratio** is PyTorch's figure in its best way (named in the row) divided by ours: above 1 retrograd is better. It is the
median over all rounds; **spread** is their middle half. A time is the median of all rounds.
PyTorch's ways are contiguous and channels-last arrays and torch.compile (in the suites of many operators only if
`--compile all` asks for it); for a training step of LeNet the target is against eager, and the others inform. Rows of
memory and of whole processes name their own unit. Rows of errors have the root of the mean square of the errors of
float32 results, divided by that of the exact results, instead of a time.
"""


_COLUMNS = ("row", "threads", "retrograd", "PyTorch", "its way", "ratio", "spread", "target", "")


def merged(folder: Path, results: Sequence[Result], processor: str) -> list[Result]:
    """The rows of ``folder``'s results.json, with ``results`` in place of their groups; the others marked.

    processor: that of this run; rows of another one keep its name.
    """
    content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    before, groups = content["machine"]["processor"], {result.group for result in results}
    kept = []
    for row in (Result(**row) for row in content["results"]):
        if row.group not in groups:
            own = row.processor or before
            kept.append(replace(row, earlier=True, processor="" if own == processor else own))
    return [*results, *kept]


def save(folder: Path, machine: dict[str, str], results: Sequence[Result], failures: Sequence[str]) -> None:
    content = {"machine": machine, "failures": list(failures), "results": [asdict(result) for result in results]}
    data = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    for name, text in (("results.json", data), ("RESULTS.md", markdown(machine, results, failures))):
        write_atomically(folder / name, methodcaller("write", text.encode()))


def markdown(machine: dict[str, str], results: Sequence[Result], failures: Sequence[str]) -> str:
    lines = [_HEAD]
    lines += [f"- {name}: {value}" for name, value in machine.items() if value]
    lines += ["", summary(results)]
    lines += [f"\n**Stopped by an error, with the rows after it: {failure}.**" for failure in failures]
    first: dict[tuple[str, ...], int] = {}  # the rows of one and of two threads stand together
    for index, result in enumerate(results):
        first.setdefault((result.group,), index)
        first.setdefault((result.group, result.name), index)
    ordered = sorted(results, key=lambda result: (first[result.group,], first[result.group, result.name]))
    for group, rows in groupby(ordered, key=lambda result: result.group):
        members = list(rows)
        lines += ["", f"## {group}", ""]
        if members[0].earlier:
            on = f", on {members[0].processor}" if members[0].processor else ""
            lines += [f"From an earlier run{on}.", ""]
        ratios = [result.ratio for result in members if result.ratio]
        if len(ratios) > 1 and members[0].unit != "times":
            lines += [f"Geometric mean of the ratios: {geometric_mean(ratios):.2f}", ""]
        lines += [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
        lines += ["| " + " | ".join(cells(result)) + " |" for result in members]
    return "\n".join(lines) + "\n"


def summary(results: Sequence[Result]) -> str:
    judged = [result for result in results if result.passed is not None]
    missed = [result for result in judged if not result.passed]
    text = f"{len(judged) - len(missed)} of {len(judged)} rows with a target reach it."
    if missed:
        text += "\n\nShort of it:\n\n" + "\n".join(
            f"- {result.group}: {result.name}{_at(result)}: {_short(result)}" for result in missed
        )
    return text


def line(result: Result) -> str:
    """One row for the terminal."""
    name, threads, ours, theirs, way, ratio, spread, target, mark = cells(result)
    peer = f"  PyTorch {theirs} ({way})" if theirs else ""
    return f"{result.group}: {name}{_at(result)}: {ours}{peer}  {ratio} {spread} {target} {mark}".rstrip()


def cells(result: Result) -> list[str]:
    others = {way: figure for way, figure in result.theirs.items() if way != result.best}
    ways = result.best + "".join(f"; {way} {amount(figure, result.unit)}" for way, figure in others.items())
    return [
        result.name,
        "" if result.threads is None else str(result.threads),
        amount(result.ours, result.unit),
        amount(result.theirs[result.best], result.unit) if result.best else "",
        ways,
        "" if result.ratio is None else f"{result.ratio:.2f}",
        "" if result.spread is None else f"{result.spread[0]:.2f} to {result.spread[1]:.2f}",
        result.target,
        {True: "reached", False: "**short**", None: ""}[result.passed],
    ]


def amount(value: float, unit: str) -> str:
    if unit == "rms":
        return f"{value:.2g}"
    if unit == "times":
        return f"{value:.2f} times"
    if unit != "s":
        return f"{value:.1f} {unit}"
    for factor, name in ((1, "s"), (1e-3, "ms")):
        if value >= factor:
            return f"{value / factor:.3g} {name}"
    return f"{value / 1e-6:.3g} µs"


def _at(result: Result) -> str:
    return "" if result.threads is None else f", {result.threads} thread{'s' * (result.threads > 1)}"


def _short(result: Result) -> str:
    of_its_own = result.ratio is None or result.unit == "times" or "<" in result.target
    figure = amount(result.ours, result.unit) if of_its_own else f"{result.ratio:.2f}"
    return f"{figure}, target {result.target}"
