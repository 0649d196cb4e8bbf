"""The fixed tree: every addition has the same operands with any number of workers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograd.distributed.buckets import Bucket, in_buckets
from retrograd.distributed.tree import add_up, merges, middle, path, share, subtrees


def by_definition(numbers):
    """The sum of a list: its first part, of the largest power of 2 below its length, plus the rest, both like this."""
    if len(numbers) == 1:
        return numbers[0]
    half = 1
    while half * 2 < len(numbers):
        half *= 2
    return by_definition(numbers[:half]) + by_definition(numbers[half:])


@given(shards=st.integers(1, 40), workers=st.integers(1, 40), seed=st.integers(0, 99))
def test_same_bits_with_any_number_of_workers(shards, workers, seed):
    workers = min(workers, shards)
    numbers = np.random.default_rng(seed).standard_normal((shards, 3)).astype(np.float32)
    parts, places = {}, []
    for rank in range(workers):
        own = share(shards, workers, rank)
        bucket = Bucket(np.dtype(np.float32), own, shards)
        bucket.append(0, 2)
        bucket.append(1, 1)
        for shard in own:
            bucket.begin(shard)
            assert not bucket.add(shard, 1, numbers[shard, 2:])
            assert bucket.add(shard, 0, numbers[shard, :2])
            assert not bucket.end(shard)
        places += bucket.nodes
        parts |= {node: each.copy() for node, each in zip(bucket.nodes, bucket.sums, strict=True)}
    assert [first for first, _ in places[1:]] == [end for _, end in places[:-1]]
    np.testing.assert_array_equal(add_up(parts, shards), by_definition(list(numbers)))


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_a_power_of_two_sends_one_sum_each(workers):
    for rank in range(workers):
        own = share(8, workers, rank)
        assert len(own) == 8 // workers
        assert subtrees(own, 8) == [(own.start, own.stop)]


def test_the_tree():
    assert [middle(node) for node in ((0, 8), (0, 2), (0, 5), (4, 7))] == [4, 1, 4, 6]
    assert path(2, 5) == [(2, 3), (2, 4), (0, 4), (0, 5)]
    assert [merges(shard, range(8), 8) for shard in range(8)] == [0, 1, 0, 2, 0, 1, 0, 3]
    assert [merges(shard, range(2, 5), 8) for shard in range(2, 5)] == [0, 1, 0]
    assert subtrees(range(1, 7), 8) == [(1, 2), (2, 4), (4, 6), (6, 7)]


def test_shares_are_neighbours_and_almost_equal():
    for shards in range(1, 30):
        for workers in range(1, shards + 1):
            shares = [share(shards, workers, rank) for rank in range(workers)]
            assert [shard for own in shares for shard in own] == list(range(shards))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_what_a_shard_does_not_use_counts_as_zeros():
    bucket = Bucket(np.dtype(np.float64), range(4), 4)
    bucket.append(0, 2)
    bucket.append(7, 1)
    used = {0: [7], 1: [0, 7], 2: [], 3: [0]}
    for shard in range(4):
        bucket.begin(shard)
        for position in used[shard]:
            bucket.add(shard, position, np.full(1 + (position == 0), 10.0**shard))
        assert bucket.end(shard) == (len(used[shard]) < 2)
    (total,) = bucket.sums
    np.testing.assert_array_equal(total, [1010, 1010, 11])


def test_buckets_go_from_the_last_parameter_to_the_first():
    f4, f8 = np.dtype(np.float32), np.dtype(np.float64)
    shapes = [(10,), (2, 3), (), (5,), (100,), (3,)]
    found = in_buckets(shapes, [f4, f4, f8, f4, f4, f4], range(1), 1, 48)
    assert [list(bucket.places) for bucket in found] == [[5], [4], [3], [2], [1], [0]]
    found = in_buckets(shapes, [f4] * 6, range(1), 1, 64)
    assert [list(bucket.places) for bucket in found] == [[5], [4], [3, 2, 1], [0]]
    assert [bucket.size for bucket in found] == [3, 100, 12, 10]
    assert found[2].places == {3: slice(0, 5), 2: slice(5, 6), 1: slice(6, 12)}


def test_the_mean_of_equal_numbers_is_exact_for_a_power_of_two():
    third = Fraction(1, 3)
    numbers = [np.array([float(third)], np.float32) for _ in range(8)]
    assert by_definition(numbers)[0] / 8 == numbers[0][0]
