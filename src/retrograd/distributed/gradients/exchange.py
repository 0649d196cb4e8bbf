"""The exchange of a bucket: from the sums of each worker to the sum of all, while the workers compute on.

Halving and doubling: neighbours exchange halves of their sums and add, then quarters with the next neighbours, and so
on; then the totals go back the same way. With p workers that are log₂ p rounds each way, and the sums that meet are
those of the fixed tree. It needs a power of 2 of workers, each with one whole subtree. Otherwise each worker receives
one part of every worker's sums, adds them in the order of the tree, and sends the total of its part to all.

Source: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..processes import mpi
from ..processes.entered import Entered
from ..processes.process_group import ProcessGroup
from ..processes.waiting import wait
from .buckets import BLOCK, Bucket
from .tree import Node, add_up, share, subtrees


class Exchange:
    """The sum of one bucket over all workers, times `scale`.

    comms: communicators of the first and the second half. `begin` may be called when the bucket's sums are complete, in
    the same order on all workers. number: of the bucket.
    """

    def __init__(
        self, group: ProcessGroup, comms: tuple[Any, Any], shards: int, bucket: Bucket, number: int
    ) -> None:
        self._group, self._comms, self._shards, self._bucket, self._number = group, comms, shards, bucket, number
        self._workers, self._rank = group.size(), group.rank()
        self._nodes: list[list[Node]] = [
            subtrees(share(shards, self._workers, rank), shards) for rank in range(self._workers)
        ]
        self._halves = halves(self._workers, shards)
        self.total = np.empty(0, bucket.dtype)
        if self._halves:
            arriving = (bucket.size + 1) // 2
        else:
            self._bounds = [rank * bucket.size // self._workers for rank in range(self._workers + 1)]
            self._mine = slice(*self._bounds[self._rank : self._rank + 2])
            counts = [len(nodes) * (rank != self._rank) for rank, nodes in enumerate(self._nodes)]
            self._arriving = np.array(counts) * (self._mine.stop - self._mine.start)
            arriving = int(self._arriving.sum())
        self._received = np.empty(arriving, bucket.dtype)
        self._rounds: Iterator[list[Any]] = iter(())
        self._requests: list[Any] | None = None
        self._scale = bucket.dtype.type(1)
        self.is_first = False  # a collective is under way that another one follows

    def begin(self, scale: float) -> None:
        """Send this worker's sums."""
        self._scale = self._bucket.dtype.type(scale)
        if self.total.size != self._bucket.size and self._workers > 1:
            self.total = np.empty(self._bucket.size, self._bucket.dtype)
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

    def wait(self, entered: Entered) -> float:
        """Wait for the end; returns the seconds that it took."""
        seconds = 0.0
        while self._requests is not None:
            seconds += wait(self._group, self._requests, entered)
            self._next()
        return seconds

    def take(self) -> np.ndarray:
        """The result. It is the caller's if the bucket is of one parameter, so that no gradient need be copied; else it
        changes with the next step."""
        total = self.total
        if self._bucket.is_single:
            self.total = total[:0].copy()
        return total

    def _next(self) -> None:
        """Use what has arrived, and begin what follows."""
        self._requests = next(self._rounds, None)

    # ---- the rounds: each yields the requests that must be done before the next one ----------------------------------

    def _alone(self) -> Iterator[list[Any]]:
        (own,) = self._bucket.sums()
        if self._scale == 1 and self._bucket.is_single:
            self._bucket.give_away()
            self.total = own
        else:
            self.total = np.empty_like(own)
            self._scaled_sum(own, None, self.total)
        yield from ()

    def _halving(self) -> Iterator[list[Any]]:
        low, high, (sums,) = 0, self._bucket.size, self._bucket.sums()
        kept, distance = [], 1
        while distance < self._workers:
            cut = (low + high) // 2
            lower, upper = slice(low, cut), slice(cut, high)
            mine, others = (upper, lower) if self._rank & distance else (lower, upper)
            kept.append((distance, mine, others))
            received = self._received[: mine.stop - mine.start]
            yield self._exchanged(distance, sums[others], received)
            low, high, distance = mine.start, mine.stop, 2 * distance
            if distance < self._workers:
                np.add(sums[mine], received, out=self.total[mine])
                sums = self.total
            else:
                self._scaled_sum(sums[mine], received, self.total[mine])
        for distance, mine, others in reversed(kept):
            yield self._exchanged(distance, self.total[mine], self.total[others])

    def _exchanged(self, distance: int, sent: np.ndarray, received: np.ndarray) -> list[Any]:
        """Requests that send to the worker at this distance, and receive from it."""
        comm, other = self._comms[0], self._rank ^ distance
        return [comm.Irecv(received, other, self._number), comm.Isend(sent, other, self._number)]

    def _all_to_all(self) -> Iterator[list[Any]]:
        sums, mine = self._bucket.sums(), self._mine
        lengths = np.diff(self._bounds)
        others = [rank for rank in range(self._workers) if rank != self._rank]
        out = np.concatenate([each[self._bounds[rank] : self._bounds[rank + 1]] for rank in others for each in sums])
        sent = lengths * len(sums)
        sent[self._rank] = 0
        self.is_first = True
        yield [self._comms[0].Ialltoallv([out, sent], [self._received, self._arriving])]
        self.is_first = False
        found: dict[Node, np.ndarray] = {}
        start = 0
        for rank, nodes in enumerate(self._nodes):
            for place, node in enumerate(nodes):
                if rank == self._rank:
                    found[node] = sums[place][mine].copy()  # `add_up` uses it up
                else:
                    end = start + mine.stop - mine.start
                    found[node], start = self._received[start:end], end
        self._scaled_sum(add_up(found, self._shards), None, self.total[mine])
        yield [self._comms[1].Iallgatherv(mpi.load().IN_PLACE, [self.total, lengths])]

    def _scaled_sum(self, left: np.ndarray, right: np.ndarray | None, out: np.ndarray) -> None:
        """out = (left + right) · scale"""
        for low in range(0, left.size, BLOCK):
            block = slice(low, low + BLOCK)
            part = left[block] if right is None else np.add(left[block], right[block], out=out[block])
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
