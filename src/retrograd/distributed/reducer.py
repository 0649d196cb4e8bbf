"""The Reducer: all-reduces gradient buckets while the backward pass runs.

Buckets are sent in a fixed order, each as soon as all shards of this worker have completed it. Between the backwards of
operators, `advance` makes progress on the exchanges that have begun.

The exchange is a recursive-halving reduce-scatter followed by a recursive-doubling all-gather. Neighbors exchange
halves of their sums and add, then exchange quarters with the next neighbors, and so on; then the totals travel back
along the same path. With p workers this takes log₂ p rounds in each direction, and the additions are those of the fixed
tree. The number of workers must be a power of 2, and each must have one whole subtree.

In all other cases, each worker receives its part of every worker's sums, adds these in the order of the tree, and sends
the total of its part to all.

Source: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from . import mpi
from .errors import DistError
from .gradient_bucket import BLOCK, Bucket, HookExchange, make_buckets
from .process_group import ProcessGroup, describe_call, ranks_text, wait_until
from .reduction_tree import Node, shard_range, subtrees, tree_sum

# ---- The exchange of a bucket, concurrent with the workers' computations --------------------------------------------


class Exchange:
    """The exchange of one bucket: the sum over all workers, times `scale`.

    `begin` may be called once the bucket's sums are complete.
    """

    def __init__(self, group: ProcessGroup, comm: Any, shards: int, bucket: Bucket) -> None:
        self._comm, self._shards, self._bucket = comm, shards, bucket
        self._workers, self._rank = group.size(), group.rank()
        self._nodes: list[list[Node]] = [
            subtrees(shard_range(shards, self._workers, rank), shards) for rank in range(self._workers)
        ]
        self._can_halve = can_halve(self._workers, shards)
        bounds = [rank * bucket.size // self._workers for rank in range(self._workers + 1)]
        self._parts = [slice(low, high) for low, high in pairwise(bounds)]  # the part that each worker adds up
        self._received = np.empty((bucket.size + 1) // 2 if self._can_halve else 0, bucket.dtype)
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
        elif self._can_halve:
            self._rounds = self._halving()
        else:
            self._rounds = self._all_to_all()
        self._next()

    def advance(self) -> bool:
        """Advance as far as possible without waiting. Returns whether the exchange is done."""
        while self._requests is not None:
            self._requests = [request for request in self._requests if not request.Test()]
            if self._requests:
                return False
            self._next()
        return True

    def take(self) -> np.ndarray:
        """Return the result and drop the reference to it; may be called once."""
        total, self._total = self._total, self._total[:0].copy()
        return total

    def _next(self) -> None:
        """Process the received data, and begin the next round."""
        self._requests = next(self._rounds, None)

    # ---- Algorithms: generators that yield the requests of each round ------------------------------------------------

    def _alone(self) -> Iterator[list[Any]]:
        (own,) = self._bucket.sums()
        if self._scale == 1 and self._bucket.is_single:
            self._bucket.release_memory()
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
        self._scaled_sum(tree_sum(found, self._shards), None, total[mine])
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


def can_halve(workers: int, shards: int) -> bool:
    """Return whether recursive halving adds in the order of the fixed tree."""
    if workers == 1 or workers & (workers - 1):
        return False
    owners = [shard_range(shards, workers, rank) for rank in range(workers)]
    together = 1
    while together <= workers:
        for first in range(0, workers, together):
            if len(subtrees(range(owners[first].start, owners[first + together - 1].stop), shards)) != 1:
                return False
        together *= 2
    return True


# ---- The reducer: sums gradients over all shards of all workers -----------------------------------------------------

_TAGS = 32_768  # every MPI supports at least this many tags


class Channel:
    """A communicator for consecutive exchanges. what: a description of the exchanged data, for messages.

    ``starts``: number of exchanges so far. ``unfinished``: abandoned exchanges, kept because messages may still arrive
    in their memory.
    """

    group: ProcessGroup
    what: str

    def __init__(self, group: ProcessGroup, what: str) -> None:
        self.group, self.what = group, what
        self.comm: Any = group.duplicate()
        self.starts = 0
        self.unfinished: list[Any] = []


class Reducer:
    """Adds the gradients of some parameters over all shards of all workers.

    parameters: the parameters' arrays.
    shards: the total number of shards.
    max_bytes: the size of a bucket.
    make_exchange: returns the exchange for a bucket, its index and the number of buckets. None: an Exchange.
    previous: the reducer that this one replaces.

    ``waited``: seconds that this worker has waited for others, in this reducer and those that it replaces.
    """

    channel: Channel

    def __init__(
        self,
        channel: Channel,
        parameters: Sequence[np.ndarray],
        shards: int,
        max_bytes: int,
        make_exchange: Callable[[Bucket, int, int], HookExchange] | None = None,
        previous: Reducer | None = None,
    ) -> None:
        self.channel, self._shards, self._make_exchange = channel, shards, make_exchange
        group = channel.group
        self.own: range = shard_range(shards, group.size(), group.rank())
        self.specs: list[tuple[tuple[int, ...], np.dtype[Any]]] = [(each.shape, each.dtype) for each in parameters]
        shapes, dtypes = zip(*self.specs, strict=True)
        # a hook gets each gradient in C order
        orders = memory_orders(channel, parameters) if make_exchange is None else [None] * len(shapes)
        self._permutations = [_Permutation.of(shape, order) for shape, order in zip(shapes, orders, strict=True)]
        self._buckets = make_buckets(shapes, dtypes, self.own, shards, max_bytes)
        self._bucket_of = {position: k for k, bucket in enumerate(self._buckets) for position in bucket.slices}
        self._exchanges: list[Any] = []
        # whether each parameter is used, then step and exchange number, each also negated
        self._used = np.zeros(len(parameters) + 4, np.int32)
        self._complete: list[bool] = []
        self._begun = self._number = 0
        self._finished = True
        self._scale = 1.0
        self.waited: float = 0.0 if previous is None else previous.waited
        if previous is not None:
            previous.abandon()

    def start(self, scale: float, number: int) -> None:
        """Begin step `number`, the same in all workers; the sums will be multiplied by `scale`."""
        self.abandon()
        if not self._exchanges:
            self._exchanges = [self._exchange(index, bucket) for index, bucket in enumerate(self._buckets)]
        self.channel.starts += 1
        self._scale, self._number, self._begun, self._finished = scale, number, 0, False
        self._used[:] = 0
        self._complete = [False] * len(self._buckets)
        for bucket in self._buckets:
            bucket.clear()

    def abandon(self) -> None:
        """Abandon a step that has failed. Messages may still arrive, so the memory for them is kept."""
        if self._begun and not self._finished:
            self.channel.unfinished += self._exchanges
            self._exchanges = []

    def add(self, shard: int, position: int, gradient: np.ndarray, owned: bool = True) -> None:
        """Add the gradient of one parameter for one of this worker's shards. Nothing is sent here.

        owned: the gradient's memory is not shared, so the gradient can be kept without a copy until it is sent.
        """
        index, permutation = self._bucket_of[position], self._permutations[position]
        self._used[position] = 1
        permuted = gradient if permutation is None else gradient.transpose(permutation.order)
        flat = permuted.reshape(-1) if owned else permuted.flatten()
        self._complete[index] |= self._buckets[index].add(shard, position, flat)

    def end(self, shard: int) -> None:
        """Record that a shard has no further gradients."""
        for index, bucket in enumerate(self._buckets):
            self._complete[index] |= bucket.end(shard)

    def advance(self) -> None:
        """Begin the exchanges of complete buckets, in order, and advance those that have begun."""
        begun = self._begun
        if not begun and not self._complete[0]:
            return
        with mpi.errors(self.channel.what):
            while begun < len(self._buckets) and self._complete[begun]:
                tag = (self.channel.starts * len(self._buckets) + begun) % _TAGS
                self._exchanges[begun].begin(self._scale, tag)
                begun += 1
            self._begun = begun
            for exchange in self._exchanges[:begun]:
                # advance hooks in order, so that their collectives have the same order in all workers
                if not exchange.advance() and self._make_exchange is not None:
                    return

    def finish(self) -> list[np.ndarray | None]:
        """Wait for the others, and return the sum for each parameter; None for a parameter that no shard has used.

        Raises:
            DistError: the workers are not at the same step. DistNetworkError: a worker did not come in time.
            WorkerLostError: a worker has died.
        """
        self.advance()
        channel, used = self.channel, self._used
        group = channel.group
        if group.comm is not None:
            used[-4:] = self._number, -self._number, channel.starts, -channel.starts
            with mpi.errors(channel.what):
                request = channel.comm.Iallreduce(mpi.load().IN_PLACE, used, mpi.load().MAX)

            def all_are_here() -> bool:
                self.advance()
                return bool(request.Test())

            self._wait(all_are_here)
            if used[-4] != -used[-3] or used[-2] != -used[-1]:
                raise self._out_of_step()
        if self._make_exchange is None:
            self._wait(self._all_done)
        else:
            with mpi.errors(channel.what):
                self.waited += sum(exchange.wait() for exchange in self._exchanges)
        found: list[np.ndarray | None] = [None] * len(self.specs)
        for bucket, exchange in zip(self._buckets, self._exchanges, strict=True):
            total = exchange.take()
            for position, place in bucket.slices.items():
                # topk_hook may deliver entries of earlier steps
                if used[position] or (self._make_exchange is not None and total[place].any()):
                    found[position] = self._shaped(position, total[place])
            bucket.clear()
        self._finished = True
        return found

    def _shaped(self, position: int, flat: np.ndarray) -> np.ndarray:
        """Return a flat gradient from a bucket in the shape of its parameter."""
        permutation = self._permutations[position]
        if permutation is None:
            return flat.reshape(self.specs[position][0])
        return flat.reshape(permutation.shape).transpose(permutation.inverse)

    def _wait(self, done: Callable[[], bool]) -> None:
        """Wait until done() is true; return at once if it already is."""
        channel = self.channel
        with mpi.errors(channel.what):
            if done():
                return
        self.waited += wait_until(channel.group, done, describe_call(channel.group.count, channel.what))

    def _all_done(self) -> bool:
        done = [exchange.advance() for exchange in self._exchanges]  # no short circuit: advance every one
        return all(done)

    def _exchange(self, index: int, bucket: Bucket) -> Any:
        if self._make_exchange is not None:
            return self._make_exchange(bucket, index, len(self._buckets))
        return Exchange(self.channel.group, self.channel.comm, self._shards, bucket)

    def _out_of_step(self) -> DistError:
        """Return an error that says which worker is at which step. All workers must call this method."""
        group = self.channel.group
        own = np.array([self._number, self.channel.starts], np.int64)
        table = np.empty((group.size(), 2), np.int64)
        with mpi.errors(self.channel.what):
            self.channel.comm.Allgather(own, table)
        steps: dict[tuple[int, ...], list[int]] = {}
        for rank, row in enumerate(table):
            steps.setdefault(tuple(row.tolist()), []).append(rank)
        each = [f"{ranks_text(ranks)} at number {n}, exchange {k}" for (n, k), ranks in steps.items()]
        return DistError(
            f"{self.channel.what}: the processes are not at the same step: {'; '.join(each)}; one of them has left out "
            "a forward or a backward that the others have done: all must call the model, and backward, equally often"
        )


class _Permutation(NamedTuple):
    """The axis order of a gradient in its bucket, its shape in that order, and the inverse permutation."""

    order: tuple[int, ...]
    shape: tuple[int, ...]
    inverse: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], order: tuple[int, ...] | None) -> _Permutation | None:
        """Return the permutation for this axis order; None if it is the identity."""
        if order is None or order == tuple(range(len(order))):
            return None
        return cls(order, tuple(shape[axis] for axis in order), tuple(np.argsort(order).tolist()))


def memory_orders(channel: Channel, parameters: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
    """Return the axes of each parameter in memory order, because gradients are copied fastest in that order.

    All processes use the order of the first one, since memory layouts may differ, for example after loading weights.
    """
    table = np.array([axis for each in parameters for axis in np.argsort(each.strides, kind="stable")[::-1]], np.int64)
    if channel.comm is not None:
        with mpi.errors(channel.what):
            channel.comm.Bcast(table)
    ends = np.cumsum([each.ndim for each in parameters])[:-1]
    return [tuple(part.tolist()) for part in np.split(table, ends)]
