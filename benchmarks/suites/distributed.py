"""Training in two processes of one thread, each on its own core, compared with one process and with PyTorch's DDP.

PyTorch's DDP uses gloo.

The batch of a process is the same with one process and with two (weak scaling), and all variants take turns. On an
ideal machine, two processes would do twice the work of one. "Without exchange" is what two independent processes reach
on this machine, whose cores share memory, cache and clock with each other and with other programs. Products of small
matrices and additions of large arrays show how much of these two processes get. "Only wait for each other" means a
barrier after each step and no exchange, which is a bound for any exchange. "Work" is the CPU time of one process for a
step, without the time that the process sleeps while it waits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from ..harness import Effort, Result, below
from ..models import WORKLOADS, Workload
from ..pool_worker import CHANNELS_LAST, CONTIGUOUS
from ..process_pool import ProcessPool

THROUGHPUT, SCALING, WORK, COSTS, MACHINE = (
    "distributed throughput",
    "distributed scaling",
    "distributed work",
    "distributed costs",
    "distributed machine",
)
SIZE = 2  # processes
ONE = "1 process"
APART = "2 processes without exchange"
IN_STEP = "2 processes that only wait for each other after each step"
PLAIN = "2 processes, reproducible=False"
TREE = "2 processes, the same bits"
WHOLE = "1 process with the batch of 2, the same bits"
TARGETS = {PLAIN: 1.85, TREE: 1.75}
BIG = "VGG-11"  # the network of 10 million parameters
MESSAGES = {"4 kB": 1000, "4 MB": 1_000_000}  # elements of a bucket whose exchange is measured separately
ADDITION = "addition of two arrays of 4 MB"
CORES = "products in the caches: 2 processes / 1 process"
MEMORY = "additions in memory: 2 processes / 1 process"
LOAD = "other processes that wanted the cores (5 minutes)"
_BLOCK, _ROUNDS = 0.25, 15  # seconds, and many short rounds, because the machine's speed changes
_LEAST, _MOST = 3, 200  # steps of a block


def row_name(network: str, label: str) -> str:
    """Return the name of a row, which scaling_page.py reads."""
    return f"{_title(network)}: {label}"


def exchange_row(label: str) -> str:
    """Return the name of an exchange row, which scaling_page.py reads."""
    return f"exchange of {label} between {SIZE} processes"


def _title(network: str) -> str:
    return f"{network}, {WORKLOADS[network].samples} samples per process"


@dataclass
class Variant:
    """A variant: its pool, its step, the ranks that run it, and the batch of all of them."""

    pool: ProcessPool
    step: str
    ranks: tuple[int, ...]
    batch: int  # number of samples of all processes in a step
    length: int = 0  # steps of a block

    def block(self, steps: int) -> tuple[float, float]:
        """Return the wall-clock and CPU seconds of a step, of the slowest process."""
        time, work = zip(*self.pool.ask("block", self.step, steps, ranks=self.ranks), strict=True)
        return max(time), max(work)


def results(effort: Effort, quick: bool) -> Iterator[Result]:
    rounds, both = (2 if quick else _ROUNDS), tuple(range(SIZE))
    with ProcessPool("retrograd", SIZE) as ours, ProcessPool("torch", SIZE) as theirs:
        for name in ("LeNet",) if quick else WORKLOADS:
            yield from _network(name, ours, theirs, both, rounds)
        if not quick:
            ours.ask("build", BIG)
            share = max(ours.ask("waits", "tree", 3 * rounds))
            title = f"{BIG}: part of the step that waits for other processes"
            yield below(COSTS, title, "%", 100 * share, {}, 5.0)
        yield from _machine(ours, rounds)
    yield _death("LeNet" if quick else "mnist5k", 1 if quick else min(3, effort.repeats))


def _network(name: str, ours: ProcessPool, theirs: ProcessPool, both: tuple[int, ...], rounds: int) -> Iterator[Result]:
    work = WORKLOADS[name]
    layouts = (CONTIGUOUS, CHANNELS_LAST)[: len(work.shape)]  # rows of characters have one
    for pool in (ours, theirs):
        pool.ask("build", name)
    single, double = work.samples, SIZE * work.samples
    variants: dict[str, Variant] = {
        ONE: Variant(ours, "alone", both[:1], single),
        APART: Variant(ours, "alone", both, double),
        IN_STEP: Variant(ours, "in step", both, double),
        PLAIN: Variant(ours, "plain", both, double),
        TREE: Variant(ours, "tree", both, double),
        WHOLE: Variant(ours, "whole", both[:1], double),
    }
    for layout in layouts:
        variants[f"{ONE}, {layout}"] = Variant(theirs, f"alone, {layout}", both[:1], single)
        variants[f"DDP, {layout}"] = Variant(theirs, f"ddp, {layout}", both, double)
    _check(name, work, ours, theirs)
    seconds, works = _in_turns(variants, rounds)

    def times(first: str, second: str) -> list[float]:
        """Return the throughput of the first variant divided by that of the second, in each round."""
        rate = variants[first].batch / variants[second].batch
        return [rate * b / a for a, b in zip(seconds[first], seconds[second], strict=True)]

    rates = {label: variant.batch / median(seconds[label]) for label, variant in variants.items()}
    alone = {layout: rates[f"{ONE}, {layout}"] for layout in layouts}
    parallel = {f"DDP, {layout}": rates[f"DDP, {layout}"] for layout in layouts}
    for label in (ONE, APART, IN_STEP, PLAIN, TREE, WHOLE):
        peers = {ONE: alone, PLAIN: parallel, TREE: parallel}.get(label, {})
        best = max(peers, key=peers.__getitem__) if peers else ""
        ratio = rates[label] / peers[best] if best else None
        yield Result(THROUGHPUT, row_name(name, label), 1, "samples/s", rates[label], peers, best, ratio)
    for label in (ONE, PLAIN, TREE, WHOLE):
        work_of = {each: median(works[each]) for each in parallel} if label in (PLAIN, TREE) else {}
        if label == ONE:
            work_of = {layout: median(works[f"{ONE}, {layout}"]) for layout in layouts}
        best = min(work_of, key=work_of.__getitem__) if work_of else ""
        yield Result(WORK, row_name(name, label), 1, "s", median(works[label]), work_of, best)

    layout = max(layouts, key=lambda each: rates[f"DDP, {each}"])
    of_peer = {f"DDP, {layout}": median(times(f"DDP, {layout}", f"{ONE}, {layout}"))}
    pairs = (APART, ONE), (IN_STEP, ONE), (PLAIN, ONE), (TREE, ONE), (TREE, WHOLE), (PLAIN, APART), (TREE, APART)
    for label, base in pairs:
        target = None if base == APART else TARGETS.get(label)
        peer = of_peer if base == ONE else {}
        yield _scaling(f"{_title(name)}: {label} / {base}", times(label, base), peer, target, label == PLAIN)
    yield _price(f"{_title(name)}: time of the same bits / reproducible=False", times(PLAIN, TREE))


def _in_turns(variants: dict[str, Variant], rounds: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the wall-clock seconds of a step of each variant in each round, and the CPU seconds."""
    for variant in variants.values():
        variant.length = min(_MOST, max(_LEAST, round(_BLOCK / variant.block(_LEAST)[0])))
    seconds: dict[str, list[float]] = {label: [] for label in variants}
    works: dict[str, list[float]] = {label: [] for label in variants}
    for turn in range(rounds):
        for label in list(variants) if turn % 2 == 0 else list(reversed(variants)):
            time, work = variants[label].block(variants[label].length)
            seconds[label].append(time)
            works[label].append(work)
    return seconds, works


def _check(name: str, work: Workload, ours: ProcessPool, theirs: ProcessPool) -> None:
    """Check that the losses of three steps equal PyTorch's, and that one process and two give the same bits."""
    plain, ddp = (
        np.mean([each["losses"] for each in pool.ask("values", variant, 3)], axis=0)
        for pool, variant in ((ours, "plain"), (theirs, f"ddp, {CONTIGUOUS}"))
    )
    if work.same and not np.allclose(plain, ddp, rtol=2e-3):
        raise AssertionError(f"{name}: losses of three steps in two processes are {plain}, PyTorch's {ddp}")
    (one,) = ours.ask("values", "whole", 3, ranks=(0,))
    two = ours.ask("values", "tree", 3)
    if {each["digest"] for each in two} != {one["digest"]}:
        raise AssertionError(f"{name}: one process and two have different weights after three steps")


def _scaling(name: str, rounds: Sequence[float], peer: dict[str, float], target: float | None, beside: bool) -> Result:
    """Return a row of speedups. beside: the peer's figure is also a target, because it has no fixed order, either."""
    value, best = median(rounds), next(iter(peer), "")
    ratio = value / peer[best] if best else None
    beside = beside and ratio is not None
    passed = None if target is None else value >= target and (not beside or ratio >= 1)
    text = "" if target is None else f">= {target:g}" + (", and DDP's" if beside else "")
    return Result(SCALING, name, 1, "times", value, peer, best, ratio, _middle_half(rounds), text, passed)


def _price(name: str, rounds: Sequence[float]) -> Result:
    return Result(COSTS, name, 1, "times", median(rounds), spread=_middle_half(rounds))


def _middle_half(values: Sequence[float]) -> tuple[float, float]:
    ordered, cut = sorted(values), len(values) // 4
    return ordered[cut], ordered[-1 - cut]


# ---- inputs of the prediction in scaling.py ------------------------------------------------------------------------


def _machine(ours: ProcessPool, rounds: int) -> Iterator[Result]:
    for label, numbers in MESSAGES.items():
        seconds = max(ours.ask("exchange", numbers, 20 * rounds))
        yield Result(MACHINE, exchange_row(label), 1, "s", seconds)
    (seconds,) = ours.ask("addition", MESSAGES["4 MB"], 20 * rounds, ranks=(0,))
    yield Result(MACHINE, ADDITION, 1, "s", seconds)
    for name, *call in ((CORES, "arithmetic", 500), (MEMORY, "addition", 16_000_000, 5)):
        ratios = []
        for _ in range(rounds):
            (one,) = ours.ask(*call, ranks=(0,))
            ratios.append(SIZE * one / max(ours.ask(*call)))
        yield Result(MACHINE, name, 1, "times", median(ratios), spread=_middle_half(ratios))
    yield Result(MACHINE, LOAD, None, "processes", os.getloadavg()[1] - SIZE)


# ---- a process that is killed ------------------------------------------------------------------------------------


def _death(network: str, repeats: int) -> Result:
    """Return how much longer a step takes if a process is killed in it, compared with the survivors' next steps."""
    steps, costs, before = 4, [], []
    for _ in range(repeats):
        with ProcessPool("retrograd", SIZE) as pool:
            times = _killed(pool, network, steps)
        costs.append(times[steps] - median(times[steps + 1 :]))
        before.append(median(times[1:steps]))
    title = f"{network}: the step in which a process is killed, above a step of the others alone"
    limit = 1 + median(before)  # a second, plus the lost step
    return below(COSTS, title, "s", median(costs), {}, round(limit, 2))


def _killed(pool: ProcessPool, network: str, steps: int) -> list[float]:
    pool.begin("death", network, steps)
    pool.forget(SIZE - 1)
    return list(pool.answer(0))
