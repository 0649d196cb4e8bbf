"""The exchange of a bucket between several workers in one process, with a fake MPI."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from distributed.test_tree import by_definition
from retrograd.distributed.gradient_bucket import Bucket
from retrograd.distributed.reducer import Exchange, can_halve
from retrograd.distributed.reduction_tree import shard_range


class Request:
    """A request that is done when `take` returns true."""

    def __init__(self, take):
        self.take = take

    def Test(self):  # noqa: N802, MPI's name
        return self.take()


class Comm:
    """A fake communicator of one of several workers in this process; they share the table `posts`. A sent array is read
    only when it is received, as MPI may do."""

    def __init__(self, rank, size, posts):
        self.rank, self.size, self.posts = rank, size, posts

    def Isend(self, data, to, tag):  # noqa: N802
        assert data.flags.c_contiguous
        message = [data]
        self.posts.setdefault((self.rank, to, tag), []).append(message)
        return Request(lambda: not message)

    def Irecv(self, out, source, tag):  # noqa: N802
        assert out.flags.c_contiguous
        state = [False]

        def take():
            waiting = self.posts.get((source, self.rank, tag))
            if not state[0] and waiting and order[0] is state:
                out[...] = waiting.pop(0).pop()
                order.pop(0)
                state[0] = True
            return state[0]

        order = self.posts.setdefault(("receives", source, self.rank, tag), [])
        order.append(state)
        return Request(take)


@settings(deadline=None)
@given(
    workers=st.integers(1, 9),
    more=st.integers(0, 9),
    size=st.integers(1, 40),
    seed=st.integers(0, 99),
    cut=st.booleans(),
)
def test_every_worker_has_the_sum_in_the_order_of_the_tree(workers, more, size, seed, cut):
    shards, rng = workers + more, np.random.default_rng(seed)
    posts, exchanges, kept = {}, [], []
    for rank in range(workers):
        bucket = Bucket(np.dtype(np.float32), shard_range(shards, workers, rank), shards)
        bucket.append(0, size)
        if cut:
            bucket.append(1, size)
        group = SimpleNamespace(size=lambda: workers, rank=lambda rank=rank: rank)
        exchanges.append((bucket, Exchange(group, Comm(rank, workers, posts), shards, bucket)))
    for step in range(2):  # the results of a step must not change in the next one
        numbers = rng.standard_normal((shards, 1 + cut, size)).astype(np.float32)
        if size == 1:
            numbers[:, 0] = np.broadcast_to(numbers[:, 0, :1], numbers[:, 0].shape)
        before = numbers.copy()
        for rank, (bucket, exchange) in enumerate(exchanges):
            bucket.clear()
            for shard in shard_range(shards, workers, rank):
                for position in range(1 + cut):
                    bucket.add(shard, position, numbers[shard, position])
            exchange.begin(0.3, step)
        turns = 0
        while [each for _, each in exchanges if not each.advance()]:
            turns += 1
            assert turns < 20
        expected = (by_definition(list(numbers)) * np.float32(0.3)).reshape(-1)
        kept += [(exchange.take(), expected) for _, exchange in exchanges]
        np.testing.assert_array_equal(numbers, before)  # the inputs have not changed
    for found, expected in kept:
        np.testing.assert_array_equal(found, expected)
    assert not any(posts.values())


def test_a_gradient_without_memory_of_its_own_for_each_number():
    bucket = Bucket(np.dtype(np.float32), range(1), 1)
    bucket.append(0, 6)
    bucket.add(0, 0, np.broadcast_to(np.float32(3), 6))
    (found,) = bucket.sums()
    assert found.flags.c_contiguous and found.tolist() == [3.0] * 6


def test_halving_is_for_powers_of_2_of_workers_with_a_whole_subtree_each():
    found = [
        (workers, shards) for workers in range(1, 9) for shards in range(workers, 17) if can_halve(workers, shards)
    ]
    assert found == [
        *((2, shards) for shards in (2, 4, 8, 16)),
        *((4, shards) for shards in (4, 8, 16)),
        (8, 8),
        (8, 16),
    ]
