"""Predicts the time of a training step on many machines: a model of the exchange and a simulation of the step.

A message of n bytes takes latency + n·per_byte, as in R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of
Collective Communication Operations in MPICH", 2005, which also gives the costs of the collectives. The simulation
adds what formulas omit: buckets are sent while the backward continues, so they wait for each other, and the slowest of
the workers delays all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from retrograd.distributed.reduction_tree import shard_range, subtrees


@dataclass(frozen=True)
class Link:
    """The network link: seconds for each message, whatever its length, and for each byte."""

    name: str
    latency: float
    per_byte: float


class Stages(NamedTuple):
    """The stages of the exchange of one bucket: seconds on the link, for additions, and on the link again."""

    first: float
    adding: float
    second: float


Collective = Callable[[Link, int, int, float], Stages]  # link, workers, bytes, seconds to add a byte


def all_to_all(link: Link, workers: int, size: int, adding: float, shards: int | None = None) -> Stages:
    """Return the cost of the fixed tree when the number of workers is not a power of 2.

    Every worker sends each other worker a part of its sums, pair by pair. Each adds the parts it gets and sends the
    total to all, in a ring.

    shards: number of shards; None: one for each worker. A worker has several sums if its shards are not one subtree.
    """
    sums = _sums(workers, workers if shards is None else shards)
    part = size / workers
    busiest = max(max(own * (workers - 1), sum(sums) - own) for own in sums)  # parts that one worker sends or gets
    rounds = (workers - 1) * link.latency
    return Stages(
        rounds + busiest * part * link.per_byte,
        (sum(sums) - 1) * part * adding,
        rounds + (workers - 1) * part * link.per_byte,
    )


@cache
def _sums(workers: int, shards: int) -> list[int]:
    """Return the number of sums that each worker sends: one for each whole subtree of its shards."""
    return [len(subtrees(shard_range(shards, workers, rank), shards)) for rank in range(workers)]


def ring(link: Link, workers: int, size: int, adding: float) -> Stages:
    """Return the cost of a ring: partial sums go around, then the totals. Each part has its own addition order."""
    half = (workers - 1) * (link.latency + size / workers * link.per_byte)
    return Stages(half, (workers - 1) / workers * size * adding, half)


def halving(link: Link, workers: int, size: int, adding: float) -> Stages:
    """Return the cost of Rabenseifner's algorithm: pairs exchange halves of their sums, then quarters, ..., and back.

    As in retrograd.distributed.reducer, neighbors exchange first, so the sums are those of the fixed tree if each
    worker has one whole subtree.

    Raises:
        ValueError: workers is not a power of 2.
    """
    if workers & (workers - 1):
        raise ValueError(f"halving: workers={workers} must be a power of 2")
    rest = (workers - 1) / workers * size
    half = (workers.bit_length() - 1) * link.latency + rest * link.per_byte
    return Stages(half, rest * adding, half)


@dataclass(frozen=True)
class Load:
    """The work of one worker in a step.

    forward, backward: seconds; buckets: bytes of each; they are completed at equal intervals within the backward.
    call, copying: seconds that a worker's core spends on each bucket, and on each byte of it, instead of computing.
    adding: seconds to add a byte.
    """

    forward: float
    backward: float
    buckets: tuple[int, ...]
    call: float = 0.0
    copying: float = 0.0
    adding: float = 0.0


def end_of_exchange(ready: Sequence[float], stages: Sequence[Stages]) -> float:
    """Return the time when the last bucket has its total. ready: when each bucket is complete in all workers.

    All workers do the same, so one link is simulated. It carries one bucket at a time, first come, first served.
    """
    events = [(time, bucket, 0) for bucket, time in enumerate(ready)]
    heapify(events)
    free = end = 0.0
    while events:
        time, bucket, stage = heappop(events)
        free = max(time, free) + (stages[bucket].second if stage else stages[bucket].first)
        if stage:
            end = free
        else:
            heappush(events, (free + stages[bucket].adding, bucket, 1))
    return end


def step_time(load: Load, collective: Collective, link: Link, delays: np.ndarray) -> float:
    """Return the seconds of one step. delays: the extra time of each worker, as a fraction of its time."""
    workers, count = len(delays), len(load.buckets)
    stages = [collective(link, workers, size, load.adding) for size in load.buckets]
    if workers == 1:
        return (load.forward + load.backward) * (1 + delays[0])
    pieces = [load.forward, *[load.backward / count] * count]
    computed = np.cumsum(pieces) * (1 + delays[:, None])
    own = [load.call + load.copying * size + each.adding for size, each in zip(load.buckets, stages, strict=True)]
    busy = computed[:, 1:] + np.cumsum([0.0, *own[:-1]])  # sending a bucket delays the computation after it
    ready = busy.max(axis=0)
    return max(float(ready[-1]) + own[-1], end_of_exchange(ready.tolist(), stages) + own[-1])


def efficiency(
    load: Load, alone: float, collective: Collective, link: Link, workers: int, late: float, steps: int = 40
) -> float:
    """Return the speed of `workers` workers as a fraction of `workers` times the speed of one.

    alone: seconds of a step of a single worker. late: each worker's delay is drawn from the exponential
    distribution with this mean. The time of a step is the mean of `steps` of them.
    """
    rng = np.random.default_rng([11, workers])
    times = [step_time(load, collective, link, rng.exponential(late, workers)) for _ in range(steps)]
    return alone / float(np.mean(times))
