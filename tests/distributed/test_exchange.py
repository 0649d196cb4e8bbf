"""The exchange of a bucket between any number of workers, with messages that are kept in a table."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributed.test_tree import by_definition
from retrograd.distributed.gradients.buckets import Bucket
from retrograd.distributed.gradients.exchange import Exchange, halves
from retrograd.distributed.gradients.tree import share
from retrograd.distributed.processes import mpi

IN_PLACE = object()


class Request:
    """Is done when `take` says so."""

    def __init__(self, take):
        self.take = take

    def Test(self):  # noqa: N802, MPI's name
        return self.take()


class Comm:
    """MPI's part for one of several workers in this process; `posts` is the table that they share."""

    def __init__(self, rank, size, posts):
        self.rank, self.size, self.posts = rank, size, posts

    def Isend(self, data, to, tag):  # noqa: N802
        self.posts.setdefault((self.rank, to, tag), []).append(data.copy())
        return Request(lambda: True)

    def Irecv(self, out, source, tag):  # noqa: N802
        def take():
            waiting = self.posts.get((source, self.rank, tag))
            if not waiting:
                return False
            out[...] = waiting.pop(0)
            return True

        return Request(take)

    def Ialltoallv(self, sent, received):  # noqa: N802
        data, counts = sent
        for to, part in enumerate(np.split(data, np.cumsum(counts)[:-1])):
            self.Isend(part, to, "all to all")
        parts = np.split(received[0], np.cumsum(received[1])[:-1])
        return self._all([self.Irecv(part, rank, "all to all") for rank, part in enumerate(parts)])

    def Iallgatherv(self, in_place, total):  # noqa: N802
        assert in_place is IN_PLACE
        data, counts = total
        parts = np.split(data, np.cumsum(counts)[:-1])
        for to in range(self.size):
            self.Isend(parts[self.rank], to, "all gather")
        return self._all([self.Irecv(part, rank, "all gather") for rank, part in enumerate(parts)])

    @staticmethod
    def _all(requests):
        def take():
            requests[:] = [each for each in requests if not each.Test()]
            return not requests

        return Request(take)


@settings(deadline=None)
@given(workers=st.integers(1, 9), more=st.integers(0, 9), size=st.integers(1, 40), seed=st.integers(0, 99))
def test_every_worker_has_the_sum_in_the_order_of_the_tree(workers, more, size, seed):
    shards, rng = workers + more, np.random.default_rng(seed)
    numbers = rng.standard_normal((shards, size)).astype(np.float32)
    posts, exchanges, before = {}, [], numbers.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mpi, "load", lambda: SimpleNamespace(IN_PLACE=IN_PLACE))
        for rank in range(workers):
            own = share(shards, workers, rank)
            bucket = Bucket(np.dtype(np.float32), own, shards)
            bucket.append(0, size)
            for shard in own:
                bucket.add(shard, 0, numbers[shard])
            group = SimpleNamespace(size=lambda: workers, rank=lambda rank=rank: rank)
            comm = Comm(rank, workers, posts)
            exchanges.append(Exchange(group, (comm, comm), shards, bucket, 7))
            exchanges[-1].begin(0.3)
        turns = 0
        while [each for each in exchanges if not each.advance()]:
            turns += 1
            assert turns < 20
    expected = by_definition(list(numbers)) * np.float32(0.3)
    for exchange in exchanges:
        np.testing.assert_array_equal(exchange.take(), expected)
    np.testing.assert_array_equal(numbers, before)  # what was given has not changed
    assert not any(posts.values())


def test_halving_is_for_powers_of_2_of_workers_with_a_whole_subtree_each():
    found = [(workers, shards) for workers in range(1, 9) for shards in range(workers, 17) if halves(workers, shards)]
    assert found == [
        *((2, shards) for shards in (2, 4, 8, 16)),
        *((4, shards) for shards in (4, 8, 16)),
        (8, 8), (8, 16),
    ]  # fmt: skip
