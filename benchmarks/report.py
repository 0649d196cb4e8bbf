"""The output of results: JSON, lines for the terminal, the summary RESULTS.md, and tables for the documentation."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby
from operator import methodcaller
from pathlib import Path
from statistics import geometric_mean

from retrograd._files.atomic import write_atomically

from .harness import Result, is_ours

_OVERVIEW = """# Results of `make bench`

retrograd and PyTorch do the same work on the same arrays with the same number of threads, each in its own process, and
the processes take turns: while one measures, the other is stopped. A **ratio** says how many times as good retrograd's
figure is as PyTorch's in its best configuration, or as that of another library if the table names one. Above 1, it is
better. The table has, for each group, the geometric mean of the ratios, the number of rows **behind** (ratio below 1),
and the worst row.

`results.json` has every row. [Benchmarks](../docs/contributing/benchmarks.md) describes the method and the columns, and
`make docs` builds it into a page that shows every row.
"""

_OVERVIEW_COLUMNS = (
    *("group", "compared", "threads", "rows", "geometric mean", "mean with AVX2", "behind", "worst ratio", "worst row"),
)
_COMPARED = {"s": "time", "rms": "rounding error", "MiB": "memory", "samples/s": "throughput", "times": "speedup"}

_COLUMNS = ("row", "threads", "retrograd", "PyTorch", "configuration", "ratio", "spread", "target", "")
# column -> index in the cells of a row
_LEVEL_COLUMNS = {"retrograd": 2, "PyTorch": 3, "configuration": 4, "ratio": 5, "spread": 6}
_TITLES = {"avx2": "AVX2"}


def merged(folder: Path, results: Sequence[Result], processor: str, level: str = "") -> list[Result]:
    """Return the new ``results``, and the rows of ``folder``'s results.json in other groups or at other levels.

    These older rows are marked as such. processor: the processor of this run; older rows of another one keep its name.
    """
    if not (folder / "results.json").exists():
        return [*results]
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
    text = overview(*read(folder))
    write_atomically(folder / "RESULTS.md", methodcaller("write", text.encode()))


def read(folder: Path) -> tuple[dict[str, str], list[Result], list[str]]:
    """Return the machine, the rows and the failures of the results.json in ``folder``."""
    content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return content["machine"], [Result(**row) for row in content["results"]], content["failures"]


# ---------------------------------------------------------------- one-page summary


def overview(machine: dict[str, str], results: Sequence[Result], failures: Sequence[str]) -> str:
    """Return RESULTS.md: the machine, the number of rows that reach their targets, and a line for each group.

    Groups with the same name before a colon share a line if they are compared with the same library.
    """
    plain = [result for result in results if not result.level]
    reached = f"{_reached(plain)} rows with a target reach it"
    for level in sorted({result.level for result in results if result.level}):
        reached += f", and {_reached([each for each in results if each.level == level])} with {_TITLES[level]}"
    lines = [_OVERVIEW, *_facts(machine, failures), "", f"{reached}."]
    if earlier := [result for result in plain if result.earlier]:
        others = sorted({result.processor for result in earlier if result.processor})
        on = f", on {', '.join(others)}" if others else ""
        lines[-1] += f" {len(earlier):,} of the {len(plain):,} rows are from earlier runs{on}."
    lines += ["", f"| {' | '.join(_OVERVIEW_COLUMNS)} |", "|---" * len(_OVERVIEW_COLUMNS) + "|"]
    levels = {(result.group, result.name, result.threads): result for result in results if result.level}
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in plain:
        if result.ratio and result.best:  # a row that is compared with nothing is a mean of other rows
            groups[_compared(result), result.group.partition(":")[0]].append(result)
    kinds = list(dict.fromkeys(compared for compared, _ in groups))
    kinds.sort(key=lambda compared: (compared != "time", not compared.startswith("time"), compared))
    for (compared, group), rows in sorted(groups.items(), key=lambda each: (kinds.index(each[0][0]), -_gain(each[1]))):
        worst = min(rows, key=lambda result: result.ratio or 0.0)
        restricted = [levels[key] for result in rows if (key := (result.group, result.name, result.threads)) in levels]
        cells = (
            group,
            compared,
            ", ".join(str(threads) for threads in sorted({result.threads for result in rows if result.threads})),
            str(len(rows)),
            f"{_gain(rows):.2f}",
            f"{_gain(restricted):.2f}" if restricted else "",
            str(sum((result.ratio or 0.0) < 1 for result in rows)),
            f"{worst.ratio:.2f}",
            f"{worst.group.partition(': ')[2]} {worst.name}".strip(),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _compared(result: Result) -> str:
    """Return the kind of figure, and the library that it is compared with, unless that is PyTorch."""
    figure = _COMPARED.get(result.unit, result.unit)
    if is_ours(result.best):
        return f"{figure}, against retrograd itself"
    return f"{figure}, against onnxruntime" if result.best.startswith("onnxruntime") else figure


def _gain(results: Sequence[Result]) -> float:
    return geometric_mean(result.ratio for result in results if result.ratio)


def _facts(machine: dict[str, str], failures: Sequence[str]) -> list[str]:
    lines = [f"- {name}: {value}" for name, value in machine.items() if value]
    return lines + [f"\n**Stopped by an error, with the rows after it: {failure}.**" for failure in failures]


# ---------------------------------------------------------------- every row


def every_row(machine: dict[str, str], results: Sequence[Result], failures: Sequence[str]) -> str:
    """Return Markdown with the machine, the rows that miss their targets, and a table for each group."""
    lines = [*_facts(machine, failures), "", targets(results)]
    for group, table in tables(results).items():
        lines += ["", f"## {group}", "", table]
    return "\n".join(lines) + "\n"


def tables(results: Sequence[Result]) -> dict[str, str]:
    """Map the name of each group to the table of its rows, in Markdown."""
    first: dict[tuple[str, ...], int] = {}  # keeps the rows of one and of two threads together
    plain = [result for result in results if not result.level]
    for index, result in enumerate(plain):
        first.setdefault((result.group,), index)
        first.setdefault((result.group, result.name), index)
    ordered = sorted(plain, key=lambda result: (first[result.group,], first[result.group, result.name]))
    found = {}
    for group, rows in groupby(ordered, key=lambda result: result.group):
        restricted = [result for result in results if result.level and result.group == group]
        found[group] = "\n".join(_table(list(rows), restricted))
    return found


def _table(members: list[Result], restricted: list[Result]) -> list[str]:
    """Return the lines of a group. restricted: its rows at lower instruction levels, which become extra columns."""
    lines = []
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
    """Return the geometric mean of the ratios if there are several; rows that are means do not count."""
    ratios = [result.ratio for result in results if result.ratio and result.unit != "times"]
    return f"{geometric_mean(ratios):.2f}" if len(ratios) > 1 else ""


def targets(results: Sequence[Result]) -> str:
    """Return the number of rows that reach their targets, and a list of those that do not."""
    text = f"{_reached(results)} rows with a target reach it."
    if missed := [result for result in results if result.passed is False]:
        text += "\n\nShort of it:\n\n" + "\n".join(
            f"- {result.group}: {result.name}{_at(result)}: {_short(result)}" for result in missed
        )
    return text


def _reached(results: Sequence[Result]) -> str:
    """Return how many rows reach their target, of how many that have one."""
    judged = [result.passed for result in results if result.passed is not None]
    return f"{sum(judged):,} of {len(judged):,}"


# ---------------------------------------------------------------- single rows


def line(result: Result) -> str:
    """Return one row as a line for the terminal."""
    name, threads, ours, theirs, variant, ratio, spread, target, mark = cells(result)
    peer = f"  {'' if is_ours(variant) else 'PyTorch '}{theirs} ({variant})" if theirs else ""
    return f"{result.group}: {name}{_at(result)}: {ours}{peer}  {ratio} {spread} {target} {mark}".rstrip()


def cells(result: Result) -> list[str]:
    others = {variant: figure for variant, figure in result.theirs.items() if variant != result.best}
    variants = result.best + "".join(f"; {variant} {amount(figure, result.unit)}" for variant, figure in others.items())
    return [
        result.name,
        "" if result.threads is None else str(result.threads),
        amount(result.ours, result.unit),
        amount(result.theirs[result.best], result.unit) if result.best else "",
        variants,
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
