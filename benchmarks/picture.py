"""Draws the README's speed picture, an SVG with the speed of each group relative to PyTorch, from results.json.

The SVG is written as text, so that the same results give the same file; a test checks this. The layout leaves space for
the widest common font.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean, quantiles
from xml.sax.saxutils import escape

from retrograd._files.atomic import write_atomically

from .harness import OURS, Result

HERE = Path(__file__).parent
PICTURE = HERE.parent / "docs" / "static" / "speed.svg"

# width of the picture, ends and top of the axis, height of a group
_WIDTH, _LEFT, _RIGHT, _TOP, _LINE = 600, 168, 496, 100, 26
_FASTER, _SLOWER, _QUIET, _GRID, _TEXT = "#0f766e", "#b45309", "#57606a", "#e3e7eb", "#1f2328"
_FONT = "-apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"


def draw() -> None:
    """Write the picture of the results in this folder."""
    content = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    text = picture(content["machine"], [Result(**row) for row in content["results"]])
    write_atomically(PICTURE, lambda file: file.write(text.encode()))


def ratios(results: Sequence[Result]) -> dict[str, list[float]]:
    """Return the ratios of times to PyTorch's best variant, by group, best mean first.

    Groups that share their first word (the kinds of convolution) are merged. Excluded are rows of whole processes,
    which have no number of threads, comparisons with another variant of ours or with another library, and rows measured
    at a restricted instruction level.
    """
    rows = [
        result
        for result in results
        if result.unit == "s" and result.threads and result.ratio and not result.level
        if not result.best.startswith((OURS, "onnxruntime"))
    ]
    kinds = Counter(_kind(group) for group in {row.group for row in rows})
    groups: dict[str, list[float]] = {}
    for row in rows:
        first = _kind(row.group)
        groups.setdefault(first if kinds[first] > 1 else row.group, []).append(row.ratio or 0.0)
    return dict(sorted(groups.items(), key=lambda group: -geometric_mean(group[1])))


def _kind(group: str) -> str:
    return group.split()[0].rstrip(":")


def picture(machine: dict[str, str], results: Sequence[Result]) -> str:
    groups = ratios(results)
    bars = {name: (*_middle_half(some), geometric_mean(some)) for name, some in groups.items()}
    ends = [math.log2(end) for bar in bars.values() for end in bar]
    low, high = min(-1, math.floor(min(ends))), max(1, math.ceil(max(ends)))
    bottom = _TOP + _LINE * len(groups)
    height = bottom + 86

    def place(ratio: float) -> float:
        return _LEFT + (math.log2(ratio) - low) / (high - low) * (_RIGHT - _LEFT)

    small = f' font-size="15" fill="{_QUIET}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" font-family="{_FONT}" font-size="17" fill="{_TEXT}">',
        "<title>How many times as fast as PyTorch on a CPU, by group of operators</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _words(20, 32, "How many times as fast as PyTorch, on a CPU", ' font-size="20" font-weight="600"'),
        _words(20, 56, "dot: geometric mean of a group; line: the middle half of its rows", small),
    ]
    for power in range(low, high + 1):
        x = place(2.0**power)
        stroke = f'stroke="{_QUIET}" stroke-width="2"' if not power else f'stroke="{_GRID}"'
        lines.append(f'<path d="M{x:.1f} {_TOP - 8}V{bottom}" {stroke}/>')
        lines.append(_words(x, _TOP - 16, f"{2.0**power:g}×", small + ' text-anchor="middle"'))
    for number, (name, (start, end, mean)) in enumerate(bars.items()):
        y, color = _TOP + _LINE * number + _LINE / 2, _FASTER if mean >= 1 else _SLOWER
        lines += [
            _words(_LEFT - 12, y + 5.5, name, ' text-anchor="end"'),
            f'<path d="M{place(start):.1f} {y:.1f}H{place(end):.1f}" stroke="{color}" stroke-width="5" '
            'stroke-linecap="round" stroke-opacity="0.35"/>',
            f'<circle cx="{place(mean):.1f}" cy="{y:.1f}" r="6.5" fill="{color}"/>',
            _words(_WIDTH - 20, y + 5.5, f"{mean:.2f}×", f' text-anchor="end" font-weight="600" fill="{color}"'),
        ]
    processors = Counter(result.processor or machine["processor"] for result in results)
    facts = {**machine, "processor": max(processors, key=processors.__getitem__)}  # the processor of most rows
    for number, text in enumerate(_notes(facts, sum(map(len, groups.values())))):
        lines.append(_words(20, bottom + 32 + 21 * number, text, small))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _middle_half(some: Sequence[float]) -> tuple[float, float]:
    first, _, third = quantiles(some, method="inclusive") if len(some) > 1 else [some[0]] * 3
    return first, third


def _notes(machine: dict[str, str], rows: int) -> Iterator[str]:
    yield f"{rows:,} rows, with 1 or 2 threads; PyTorch's best setup for each"
    yield f"retrograd {machine['retrograd']}, PyTorch {machine['PyTorch']}"
    yield machine["processor"].replace("(R)", "")


def _words(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(text)}</text>'
