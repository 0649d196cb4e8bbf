"""The exchange of a bucket: from the sums of each worker to the sum of all, while the workers compute on.

Halving and doubling: neighbours exchange halves of their sums and add, then quarters with the next neighbours, and so
on; then the totals go back the same way. With p workers that are log₂ p rounds each way, and the sums that meet are
those of the fixed tree. It needs a power of 2 of workers, each with one whole subtree. Otherwise each worker receives
one part of every worker's sums, adds them in the order of the tree, and sends the total of its part to all.

Source: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from ..processes.process_group import ProcessGroup
from .buckets import BLOCK, Bucket
from .tree import Node, add_up, share, subtrees


class Exchange:
    """The sum of one bucket over all workers, times `scale`.

    `begin` may be called when the bucket's sums are complete.
    """

    def __init__(self, group: ProcessGroup, comm: Any, shards: int, bucket: Bucket) -> None:
        self._comm, self._shards, self._bucket = comm, shards, bucket
        self._workers, self._rank = group.size(), group.rank()
        self._nodes: list[list[Node]] = [
            subtrees(share(shards, self._workers, rank), shards) for rank in range(self._workers)
        ]
        self._halves = halves(self._workers, shards)
        bounds = [rank * bucket.size // self._workers for rank in range(self._workers + 1)]
        self._parts = [slice(low, high) for low, high in pairwise(bounds)]  # each worker adds one
        self._received = np.empty((bucket.size + 1) // 2 if self._halves else 0, bucket.dtype)
        self._total = np.empty(0, bucket.dtype)
        self._rounds: Iterator[list[Any]] = iter(())
        self._requests: list[Any] | None = None
        self._scale = bucket.dtype.type(1)
        self._tag = 0

    def begin(self, scale: float, tag: int) -> None:
        """Send this worker's sums; all workers use the same tag."""
        self._scale, self._tag = self._bucket.dtype.type(scale), tag
        self._total = np.empty(self._bucket.size, self._bucket.dtype)
        if self._workers == 1:
            self._rounds = self._alone()
        elif self._halves:
            self._rounds = self._halving()
        else:
            self._rounds = self._all_to_all()
        self._next()

    def advance(self) -> bool:
        """Go on as far as possible without waiting; returns whether it is done."""
        while self._requests is not None:
            self._requests = [request for request in self._requests if not request.Test()]
            if self._requests:
                return False
            self._next()
        return True

    def take(self) -> np.ndarray:
        """The result, once; it is the caller's."""
        total, self._total = self._total, self._total[:0].copy()
        return total

    def _next(self) -> None:
        """Use what has arrived, and begin what follows."""
        self._requests = next(self._rounds, None)

    # ---- the rounds: each yields the requests that must be done before the next one ----------------------------------

    def _alone(self) -> Iterator[list[Any]]:
        (own,) = self._bucket.sums()
        if self._scale == 1 and self._bucket.is_single:
            self._bucket.give_away()
            self._total = own
        else:
            self._scaled_sum(own, None, self._total)
        yield from ()

    def _halving(self) -> Iterator[list[Any]]:
        low, high, (sums,) = 0, self._bucket.size, self._bucket.sums()
        total, kept, distance = self._total, [], 1
        while distance < self._workers:
            cut = (low + high) // 2
            lower, upper = slice(low, cut), slice(cut, high)
            mine, others = (upper, lower) if self._rank & distance else (lower, upper)
            kept.append((distance, mine, others))
            received = self._received[: mine.stop - mine.start]
            other = self._rank ^ distance
            yield [self._receive(received, other), self._send(sums[others], other)]
            low, high, distance = mine.start, mine.stop, 2 * distance
            if distance < self._workers:
                np.add(sums[mine], received, out=total[mine])
                sums = total
            else:
                self._scaled_sum(sums[mine], received, total[mine])
        for distance, mine, others in reversed(kept):
            other = self._rank ^ distance
            yield [self._receive(total[others], other), self._send(total[mine], other)]

    def _all_to_all(self) -> Iterator[list[Any]]:
        sums, mine, total = self._bucket.sums(), self._parts[self._rank], self._total
        others = [rank for rank in range(self._workers) if rank != self._rank]
        found = {node: each[mine].copy() for node, each in zip(self._nodes[self._rank], sums, strict=True)}
        requests = []
        for rank in others:
            for node in self._nodes[rank]:
                found[node] = np.empty_like(total[mine])
                requests.append(self._receive(found[node], rank))
        # messages from one worker arrive in the order in which they were sent
        requests += [self._send(each[self._parts[rank]], rank) for rank in others for each in sums]
        yield requests
        self._scaled_sum(add_up(found, self._shards), None, total[mine])
        requests = [self._receive(total[self._parts[rank]], rank) for rank in others]
        yield requests + [self._send(total[mine], rank) for rank in others]

    def _receive(self, memory: np.ndarray, rank: int) -> Any:
        return self._comm.Irecv(memory, rank, self._tag)

    def _send(self, memory: np.ndarray, rank: int) -> Any:
        return self._comm.Isend(memory, rank, self._tag)

    def _scaled_sum(self, left: np.ndarray, right: np.ndarray | None, out: np.ndarray) -> None:
        """out = (left + right) · scale"""
        for low in range(0, left.size, BLOCK):
            block = slice(low, low + BLOCK)
            part = left[block] if right is None else np.add(left[block], right[block], out=out[block])
            if self._scale != 1 or right is None:
                np.multiply(part, self._scale, out=out[block])


def halves(workers: int, shards: int) -> bool:
    """Whether neighbours that add, then neighbours of those, and so on, add as the fixed tree does."""
    if workers == 1 or workers & (workers - 1):
        return False
    owners = [share(shards, workers, rank) for rank in range(workers)]
    together = 1
    while together <= workers:
        for first in range(0, workers, together):
            if len(subtrees(range(owners[first].start, owners[first + together - 1].stop), shards)) != 1:
                return False
        together *= 2
    return True
