"""The results as JSON, as a table for the terminal and as RESULTS.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby
from operator import methodcaller
from pathlib import Path
from statistics import geometric_mean

from retrograd._files.atomic import write_atomically

from .harness import Result, is_ours

_HEAD = """# Results of `make bench`

retrograd and PyTorch do the same work on the same arrays with the same number of threads. Each library has a process
of its own (rows of `distributed`: two), and the processes take turns, block by block: while one measures, the other is
stopped, so that its threads, which spin for milliseconds after a call, take no time from the one that is measured.
**ratio** is PyTorch's figure in its best way (named in the row) divided by ours: above 1, retrograd is better. It is
the median over all rounds; **spread** is their middle half. A time is the median of all rounds.
PyTorch's ways are contiguous arrays, channels-last arrays and torch.compile (in the suites of many operators only with
`--compile all`); the target of a LeNet training step is against eager, and the other ways inform. A way whose name
begins with "retrograd" is another way of ours. Rows of memory and of whole processes name their own unit. Rows of
errors have, instead of a time, the root mean square of the errors of float32 results, divided by that of the exact
results.
Columns that begin with **AVX2** are of a run in which both sides were restricted to AVX2 instructions (`--level avx2`),
as on the processors that most people have. onnxruntime cannot be restricted.
"""


_COLUMNS = ("row", "threads", "retrograd", "PyTorch", "its way", "ratio", "spread", "target", "")
_LEVEL_COLUMNS = {"retrograd": 2, "PyTorch": 3, "its way": 4, "ratio": 5, "spread": 6}  # which of the cells
_TITLES = {"avx2": "AVX2"}


def merged(folder: Path, results: Sequence[Result], processor: str, level: str = "") -> list[Result]:
    """The rows of ``folder``'s results.json, with ``results`` in place of their groups at ``level``; the others marked.

    processor: that of this run; rows of another one keep its name.
    """
    content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    before, groups = content["machine"]["processor"], {result.group for result in results}
    kept = []
    for row in (Result(**row) for row in content["results"]):
        if row.group not in groups or row.level != level:
            own = row.processor or before
            kept.append(replace(row, earlier=True, processor="" if own == processor else own))
    return [*results, *kept]


def save(folder: Path, machine: dict[str, str], results: Sequence[Result], failures: Sequence[str]) -> None:
    content = {"machine": machine, "failures": list(failures), "results": [asdict(result) for result in results]}
    data = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_atomically(folder / "results.json", methodcaller("write", data.encode()))
    write(folder)


def write(folder: Path) -> None:
    """Write RESULTS.md from the results.json in ``folder``."""
    content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    results = [Result(**row) for row in content["results"]]
    text = markdown(content["machine"], results, content["failures"])
    write_atomically(folder / "RESULTS.md", methodcaller("write", text.encode()))


def markdown(machine: dict[str, str], results: Sequence[Result], failures: Sequence[str]) -> str:
    lines = [_HEAD]
    lines += [f"- {name}: {value}" for name, value in machine.items() if value]
    lines += ["", summary(results)]
    lines += [f"\n**Stopped by an error, with the rows after it: {failure}.**" for failure in failures]
    first: dict[tuple[str, ...], int] = {}  # the rows of one and of two threads stand together
    plain = [result for result in results if not result.level]
    for index, result in enumerate(plain):
        first.setdefault((result.group,), index)
        first.setdefault((result.group, result.name), index)
    ordered = sorted(plain, key=lambda result: (first[result.group,], first[result.group, result.name]))
    for group, rows in groupby(ordered, key=lambda result: result.group):
        lines += _table(group, list(rows), [result for result in results if result.level and result.group == group])
    return "\n".join(lines) + "\n"


def _table(group: str, members: list[Result], restricted: list[Result]) -> list[str]:
    """The lines of a group. restricted: its rows at lower levels of the processor, which become further columns."""
    lines = ["", f"## {group}", ""]
    levels = sorted({result.level for result in restricted})
    for level, some in (("", members), *((level, [r for r in restricted if r.level == level]) for level in levels)):
        if some[0].earlier:
            on = f", on {some[0].processor}" if some[0].processor else ""
            lines += [f"{f'{_TITLES[level]}: from' if level else 'From'} an earlier run{on}.", ""]
    ratios = {level: _mean([r for r in [*members, *restricted] if r.level == level]) for level in ("", *levels)}
    if ratios[""]:
        words = [f"{ratio}{f' with {_TITLES[level]}' if level else ''}" for level, ratio in ratios.items() if ratio]
        lines += [f"Geometric mean of the ratios: {', '.join(words)}", ""]
    columns = [*_COLUMNS, *(f"{_TITLES[level]} {name}" for level in levels for name in _LEVEL_COLUMNS)]
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    found = {(result.level, result.name, result.threads): cells(result) for result in restricted}
    empty = [""] * len(_COLUMNS)
    for result in members:
        more = [found.get((level, result.name, result.threads), empty) for level in levels]
        row = [*cells(result), *(some[place] for some in more for place in _LEVEL_COLUMNS.values())]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def _mean(results: Sequence[Result]) -> str:
    """The geometric mean of the ratios, if there are several; of means none is taken."""
    ratios = [result.ratio for result in results if result.ratio and result.unit != "times"]
    return f"{geometric_mean(ratios):.2f}" if len(ratios) > 1 else ""


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
    peer = f"  {'' if is_ours(way) else 'PyTorch '}{theirs} ({way})" if theirs else ""
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
    threads = "" if result.threads is None else f", {result.threads} thread{'s' * (result.threads > 1)}"
    return f"{threads}, {_TITLES[result.level]}" if result.level else threads


def _short(result: Result) -> str:
    of_its_own = result.ratio is None or result.unit == "times" or "<" in result.target
    figure = amount(result.ours, result.unit) if of_its_own else f"{result.ratio:.2f}"
    return f"{figure}, target {result.target}"
