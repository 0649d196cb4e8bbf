"""Timing two libraries against each other in one process.

Both hold a pool of threads that spins for a while after each call, so the libraries never run at the same moment and
take turns in blocks: A B C A B C ..., with a pause between blocks in which the threads of the one before fall asleep,
and a few calls that are not counted, to wake up the next. A block gives the median of its calls, a row the median of
its blocks. The ratio is the median of the ratios of single rounds: on a machine that others use, speed changes from
second to second, but little within a round; how far those ratios lie apart says how far it can be trusted.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import geometric_mean, median
from typing import Any

import numpy as np

Call = Callable[[], Any]


@dataclass(frozen=True)
class Effort:
    """How much is measured: ``rounds`` blocks of each candidate, each of at least ``block`` seconds."""

    rounds: int = 9
    block: float = 0.05
    pause: float = 0.004
    repeats: int = 5  # processes started per row of the suites that start processes

    @classmethod
    def quick(cls) -> Effort:
        return cls(rounds=2, block=0.005, pause=0.001, repeats=1)


@dataclass
class Row:
    """One comparison: the same work done by retrograd and, in several ways, by PyTorch.

    theirs: name of the way (layout, compiled) -> call. The fastest way counts, among those named in ``against`` if any.
    values: gives our results and theirs, pair by pair; they are compared before anything is timed.
    target: the least ratio (their time / our time) that passes; None for a row that only informs.
    """

    group: str
    name: str
    ours: Call
    theirs: dict[str, Call]
    target: float | None = None
    values: Callable[[], list[tuple[np.ndarray, np.ndarray]]] | None = None
    tolerance: float = 1e-3  # of the size of the result: float32, sums of up to 25,000 terms
    against: tuple[str, ...] = ()


@dataclass
class Result:
    """A measured row as it goes into results.json. ``ratio`` > 1 means that retrograd is better."""

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


def check(row: Row) -> None:
    """Compare the results of the two libraries; a fast wrong answer is no figure."""
    if row.values is None:
        return
    for ours, theirs in row.values():
        if ours.shape != theirs.shape:
            raise AssertionError(f"{row.group} {row.name}: retrograd's shape is {ours.shape}, PyTorch's {theirs.shape}")
        scale = float(np.sqrt(np.mean(np.square(theirs, dtype=np.float64))))
        error = float(np.max(np.abs(ours.astype(np.float64) - theirs)))
        if not error <= row.tolerance * scale:
            raise AssertionError(f"{row.group} {row.name}: results differ by {error:.3g}; their size is {scale:.3g}")


def measure(row: Row, threads: int, effort: Effort) -> Result:
    """Check the row, then time all its candidates in turn."""
    check(row)
    calls = {"retrograd": row.ours, **row.theirs}
    lengths = {name: _calls_per_block(call, effort.block) for name, call in calls.items()}
    blocks: dict[str, list[float]] = {name: [] for name in calls}
    gc.collect()
    gc.disable()
    try:
        for turn in range(effort.rounds):
            # every other round backwards: a machine that slows down then favours nobody
            order = list(calls) if turn % 2 == 0 else list(reversed(calls))
            for name in order:
                time.sleep(effort.pause)
                blocks[name].append(_block(calls[name], lengths[name]))
    finally:
        gc.enable()
    figures = {name: median(times) for name, times in blocks.items()}
    ours = figures.pop("retrograd")
    best = min(row.against or figures, key=figures.__getitem__)
    rounds = sorted(b / a for a, b in zip(blocks["retrograd"], blocks[best], strict=True))
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


def _calls_per_block(call: Call, block: float) -> int:
    for _ in range(3):  # compile, fill caches, make tables
        call()
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    return max(2, min(2000, round(block / max(once, 1e-7))))


def _block(call: Call, length: int) -> float:
    clock = time.perf_counter
    for _ in range(2):
        call()
    times = []
    for _ in range(length):
        start = clock()
        call()
        times.append(clock() - start)
    return median(times)


def mean(name: str, results: list[Result], groups: tuple[str, ...], threads: int, goal: float) -> Result | None:
    """The geometric mean of the ratios of some groups, taken together; None where they have no rows."""
    ratios = [result.ratio for result in results if result.group in groups and result.ratio]
    if not ratios:
        return None
    value = geometric_mean(ratios)
    return Result(
        group="geometric means of ratios",
        name=f"{name} ({len(ratios)} rows)",
        threads=threads,
        unit="times",
        ours=value,
        ratio=value,
        target=f">= {goal:g}",
        passed=value >= goal,
    )


def below(group: str, name: str, unit: str, ours: float, theirs: dict[str, float], limit: float | None) -> Result:
    """A figure that has to stay below a limit of its own (seconds), PyTorch's figure beside it if there is one."""
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
