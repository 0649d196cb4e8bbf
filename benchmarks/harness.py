"""Benchmark rows, results, and the statistics that turn measured rows into results.

The variants of a row take turns in blocks, A B C A B C ..., each block after a few warm-up calls; turns.py runs them.
The result of a block is the median of its calls, the result of a row the median of its blocks. The ratio is the median
of the ratios of single rounds: on a shared machine, speed changes from second to second, but little within a round. The
spread of those ratios shows how reliable the median is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean, median
from typing import Any

import numpy as np

Call = Callable[[], Any]
OURS = "retrograd"


def is_ours(variant: str) -> bool:
    """Return whether a variant is one of retrograd, by its name."""
    return variant.startswith(OURS)


@dataclass(frozen=True)
class Effort:
    """How long to measure: ``rounds`` blocks for each variant, of at least ``block`` seconds each."""

    rounds: int = 9
    block: float = 0.05
    pause: float = 0.004
    repeats: int = 5  # processes started per row of the suites that start processes

    @classmethod
    def quick(cls) -> Effort:
        return cls(rounds=2, block=0.005, pause=0.001, repeats=1)


@dataclass
class Row:
    """One comparison: the same work done by retrograd and, in several variants, by PyTorch.

    theirs: name of a variant (layout, compiled) -> its call. The ratio uses the fastest one, or, if ``against`` names
        variants, the fastest of these. A name that begins with "retrograd" is another variant of ours.
    values: returns pairs of our results and theirs, which are compared before anything is timed.
    target: the smallest ratio (their time / our time) that passes; None if the row is for information only.
    """

    group: str
    name: str
    ours: Call
    theirs: dict[str, Call]
    target: float | None = None
    values: Callable[[], list[tuple[np.ndarray, np.ndarray]]] | None = None
    tolerance: float = 1e-3  # relative to the root mean square of the result; sums have up to 25,000 terms in float32
    against: tuple[str, ...] = ()

    def without_calls(self) -> Row:
        """Return the row without its calls, which cannot be sent to another process."""
        return replace(self, ours=_no_call, theirs={}, values=None)


def _no_call() -> None:
    raise RuntimeError("the calls of this row are in another process")


@dataclass
class Result:
    """A measured row, as stored in results.json. A ``ratio`` above 1 means that retrograd is better."""

    group: str
    name: str
    threads: int | None
    unit: str
    ours: float
    theirs: dict[str, float] = field(default_factory=dict)
    best: str = ""
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    target: str = ""
    passed: bool | None = None
    earlier: bool = False  # from a run before the last one
    processor: str = ""  # of that run, if it was another
    level: str = ""  # the instruction set that both libraries were restricted to, such as "avx2"; "": no restriction


def check(row: Row) -> None:
    """Compare the results of the two libraries, so that no wrong result is timed."""
    if row.values is None:
        return
    for ours, theirs in row.values():
        if ours.shape != theirs.shape:
            raise AssertionError(f"{row.group} {row.name}: retrograd's shape is {ours.shape}, PyTorch's {theirs.shape}")
        scale = float(np.sqrt(np.mean(np.square(theirs, dtype=np.float64))))
        error = float(np.max(np.abs(ours.astype(np.float64) - theirs)))
        if not error <= row.tolerance * scale:
            raise AssertionError(f"{row.group} {row.name}: results differ by {error:.3g}; their size is {scale:.3g}")


def compare(row: Row, threads: int, blocks: dict[str, list[float]]) -> Result:
    """Compute the result of a row from the block times of its variants, including OURS."""
    figures = {name: median(times) for name, times in blocks.items()}
    ours = figures.pop(OURS)
    best = min(row.against or figures, key=figures.__getitem__)
    rounds = sorted(b / a for a, b in zip(blocks[OURS], blocks[best], strict=True))
    ratio, cut = median(rounds), len(rounds) // 4
    return Result(
        group=row.group,
        name=row.name,
        threads=threads,
        unit="s",
        ours=ours,
        theirs=figures,
        best=best,
        ratio=ratio,
        spread=(rounds[cut], rounds[-1 - cut]),
        target="" if row.target is None else f">= {row.target:g}",
        passed=None if row.target is None else ratio >= row.target,
    )


def calls_per_block(call: Call, block: float) -> int:
    """Return the number of calls that take about ``block`` seconds."""
    for _ in range(3):  # compile, fill caches, build tables
        call()
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    return max(2, min(2000, round(block / max(once, 1e-7))))


def time_block(call: Call, length: int) -> float:
    """Return the median time of ``length`` calls, after two warm-up calls."""
    clock = time.perf_counter
    for _ in range(2):
        call()
    times = []
    for _ in range(length):
        start = clock()
        call()
        times.append(clock() - start)
    return median(times)


def worst_tenth(ratios: Sequence[float]) -> float:
    """Return the ratio that a tenth of the rows do not reach."""
    return float(np.quantile(ratios, 0.1))


def summary(
    name: str,
    results: Sequence[Result],
    threads: int,
    goal: float | None,
    figure: Callable[[list[float]], float] = geometric_mean,
) -> Iterator[Result]:
    """Yield one figure of the ratios of several rows, by default their geometric mean; nothing without rows."""
    if ratios := [result.ratio for result in results if result.ratio]:
        value = figure(ratios)
        yield Result(
            group=f"figures of several rows: {name.partition(':')[0]}",
            name=f"{name} ({len(ratios)} rows)",
            threads=threads,
            unit="times",
            ours=value,
            ratio=value,
            target="" if goal is None else f">= {goal:g}",
            passed=None if goal is None else value >= goal,
        )


def below(group: str, name: str, unit: str, ours: float, theirs: dict[str, float], limit: float | None) -> Result:
    """Return the result for a figure with a fixed limit (in `unit`), with PyTorch's figures if there are any."""
    best = min(theirs, key=theirs.__getitem__) if theirs else ""
    return Result(
        group=group,
        name=name,
        threads=None,
        unit=unit,
        ours=ours,
        theirs=theirs,
        best=best,
        ratio=theirs[best] / ours if best else None,
        target="" if limit is None else f"< {limit:g} {unit}",
        passed=None if limit is None else ours < limit,
    )


Rows = Iterator[Row]
