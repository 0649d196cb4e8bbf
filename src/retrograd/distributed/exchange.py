"""The exchange of a bucket: from the sums of each worker to the sum of all, while the workers compute on.

In the fixed tree, each worker receives one part of every worker's sums, adds them in the order of the tree, and sends
the total of its part to all: as much traffic as a ring. Otherwise MPI adds, in its own order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import mpi
from .buckets import Bucket
from .entered import Entered
from .process_group import ProcessGroup
from .tree import Node, add_up, share, subtrees
from .waiting import wait


class Exchange:
    """The sum of one bucket over all workers, times `scale`; `total` holds it at the end, until the bucket gets the
    gradients of the next step.

    comms: communicators of the first and the second half. `begin` may be called when the bucket's sums are complete, in
    the same order on all workers.
    """

    def __init__(self, group: ProcessGroup, comms: tuple[Any, Any], shards: int, bucket: Bucket, tree: bool) -> None:
        self._group, self._comms, self._shards, self._bucket = group, comms, shards, bucket
        workers = group.size()
        self._tree = tree and workers > 1
        self.total = np.empty(bucket.size if self._tree else 0, bucket.dtype)
        self._bounds = [rank * bucket.size // workers for rank in range(workers + 1)]
        self._lengths = np.diff(self._bounds)
        self._nodes: list[list[Node]] = [subtrees(share(shards, workers, rank), shards) for rank in range(workers)]
        counts = np.array([len(nodes) for nodes in self._nodes])
        self._mine = int(self._lengths[group.rank()])
        self._sent, self._arriving = self._lengths * len(bucket.nodes), counts * self._mine
        self._received = np.empty(int(self._arriving.sum()) if self._tree else 0, bucket.dtype)
        self._request: Any = None
        self._phase = 0
        self._scale = 1.0

    def begin(self, scale: float) -> None:
        """Send this worker's sums."""
        bucket, comm = self._bucket, self._comms[0]
        self._scale, self._phase = scale, 1
        sums = bucket.sums
        if not self._tree:
            self.total, self._phase = sums[0], 2  # MPI adds in place
            if comm is not None and self._group.size() > 1:
                self._request = comm.Iallreduce(mpi.load().IN_PLACE, self.total)
            return
        out = sums[0]
        if len(sums) > 1:
            parts = zip(self._bounds, self._bounds[1:], strict=False)
            out = np.concatenate([each[low:high] for low, high in parts for each in sums])
        self._request = comm.Ialltoallv([out, self._sent], [self._received, self._arriving])

    def advance(self) -> bool:
        """Go on as far as possible without waiting; returns whether it is done."""
        while self._phase < 3:
            if self._request is not None and not self._request.Test():
                return False
            self._next()
        return True

    @property
    def receives(self) -> bool:
        """Whether the sums of the others are still on their way."""
        return self._phase == 1

    def wait(self, entered: Entered) -> float:
        """Wait for the end; returns the seconds that it took."""
        seconds = 0.0
        while self._phase < 3:
            if self._request is not None:
                seconds += wait(self._group, [self._request], entered)
            self._next()
        return seconds

    def _next(self) -> None:
        """What follows on a request that is done."""
        self._request = None
        self._phase += 1
        if self._phase == 3:
            if not self._tree and self._scale != 1:
                self.total *= self.total.dtype.type(self._scale)
            return
        rank = self._group.rank()
        parts: dict[Node, np.ndarray] = {}
        start = 0
        for nodes in self._nodes:
            for node in nodes:
                parts[node] = self._received[start : start + self._mine]
                start += self._mine
        own = self.total[self._bounds[rank] : self._bounds[rank + 1]]
        np.multiply(add_up(parts, self._shards), own.dtype.type(self._scale), out=own)
        self._request = self._comms[1].Iallgatherv(mpi.load().IN_PLACE, [self.total, self._lengths])
