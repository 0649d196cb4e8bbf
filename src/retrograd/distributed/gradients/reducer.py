"""The reducer: gradients of shards go in, the sums over all workers come out.

Buckets leave in a fixed order, each as soon as all shards of this worker have completed it; between the backwards of
operators `advance` looks after those that are under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..processes import mpi
from ..processes.entered import enter
from ..processes.process_group import ProcessGroup
from ..processes.waiting import wait
from .buckets import Bucket, in_buckets
from .exchange import Exchange
from .grad_bucket import Hooked
from .tree import share

_WHAT = "the exchange of gradients"


class Reducer:
    """Sums of the gradients of some parameters over all shards of all workers.

    parameters: their arrays. shards: how many there are in all. most: bytes of a bucket.
    hooked: makes the exchange of each bucket, with its number and how many there are, in place of ours.

    `waited`: seconds that this worker has waited for the others since the reducer was made.
    """

    def __init__(
        self,
        group: ProcessGroup,
        parameters: Sequence[np.ndarray],
        shards: int,
        most: int,
        hooked: Callable[[Bucket, int, int], Hooked] | None = None,
    ) -> None:
        self._group, self._comms = group, (group.duplicate(), group.duplicate())
        self.own = share(shards, group.size(), group.rank())
        self._shapes = [each.shape for each in parameters]
        # a hook sees each gradient in the order of its shape
        plain = [tuple(range(each.ndim)) for each in parameters]
        self._orders = orders_in_memory(group, parameters) if hooked is None else plain
        self._layouts = [  # the shape in which a gradient lies in its bucket, and the order of its axes from there
            ([shape[axis] for axis in order], np.argsort(order).tolist())
            for shape, order in zip(self._shapes, self._orders, strict=True)
        ]
        self._buckets = in_buckets(self._shapes, [each.dtype for each in parameters], self.own, shards, most)
        self._home = {position: k for k, bucket in enumerate(self._buckets) for position in bucket.places}
        self._hooked = hooked is not None
        self._exchanges: list[Any] = [
            Exchange(group, self._comms, shards, bucket, index)
            if hooked is None
            else hooked(bucket, index, len(self._buckets))
            for index, bucket in enumerate(self._buckets)
        ]
        self._used = np.zeros(len(parameters), np.uint8)
        self._complete: list[bool] = []
        self._begun = 0
        self._scale = 1.0
        self.waited = 0.0

    def start(self, scale: float) -> None:
        """Begin a step; the sums will be multiplied by `scale`."""
        self._scale, self._begun = scale, 0
        self._used[:] = 0
        self._complete = [False] * len(self._buckets)
        for bucket in self._buckets:
            bucket.clear()

    def add(self, shard: int, position: int, gradient: np.ndarray) -> None:
        """The gradient of one parameter for one of this worker's shards. It is kept until it is sent: it must not
        change, and is not changed. Nothing is sent here."""
        home = self._home[position]
        self._used[position] = 1
        flat = gradient.transpose(self._orders[position]).reshape(-1)
        self._complete[home] |= self._buckets[home].add(shard, position, flat)

    def end(self, shard: int) -> None:
        """A shard has no further gradients."""
        for home, bucket in enumerate(self._buckets):
            self._complete[home] |= bucket.end(shard)

    def advance(self) -> None:
        """Send the buckets that are complete, in order, and look after those under way."""
        begun = self._begun
        if not begun and not self._complete[0]:
            return
        with mpi.errors(_WHAT):
            while begun < len(self._buckets) and self._complete[begun]:
                self._exchanges[begun].begin(self._scale)
                begun += 1
            self._begun = begun
            for exchange in self._exchanges[:begun]:
                # the second half of each begins in order as well
                if not exchange.advance() and exchange.is_first:
                    return

    def finish(self) -> list[np.ndarray | None]:
        """Wait for the others: the sum for each parameter; None for what no shard of any worker has used.

        Raises:
            DistNetworkError: a worker did not come in time. WorkerLostError: one has died.
        """
        self.advance()
        group, used = self._group, self._used
        entered = enter(group.count, f"the gradients of {len(self._shapes)} parameters")
        if group.comm is not None:
            with mpi.errors(_WHAT):
                request = self._comms[0].Iallreduce(mpi.load().IN_PLACE, used, mpi.load().MAX)
                for exchange in self._exchanges:
                    self.waited += exchange.wait(entered)
            self.waited += wait(group, [request], entered)
        else:
            for exchange in self._exchanges:
                exchange.wait(entered)
        found: list[np.ndarray | None] = [None] * len(self._shapes)
        for bucket, exchange in zip(self._buckets, self._exchanges, strict=True):
            total = exchange.take()
            for position, place in bucket.places.items():
                # a hook may add what it has not sent before
                if used[position] or (self._hooked and total[place].any()):
                    shape, back = self._layouts[position]
                    found[position] = total[place].reshape(shape).transpose(back)
            bucket.clear()
        return found


def orders_in_memory(group: ProcessGroup, parameters: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
    """The axes of each parameter in the order in which they lie in memory, in which a gradient is copied fast.

    They are those of the first process: another one may have read its weights from elsewhere.
    """
    table = np.array([axis for each in parameters for axis in np.argsort(each.strides, kind="stable")[::-1]], np.int64)
    if group.comm is not None:
        with mpi.errors(_WHAT):
            group.comm.Bcast(table)
    ends = np.cumsum([each.ndim for each in parameters])[:-1]
    return [tuple(part.tolist()) for part in np.split(table, ends)]
