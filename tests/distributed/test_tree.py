"""The fixed tree: every addition has the same operands with any number of workers."""

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograd.distributed.gradient_bucket import BLOCK, Bucket, make_buckets
from retrograd.distributed.reduction_tree import merge_count, path_to_root, shard_range, split_point, subtrees, tree_sum


def by_definition(numbers):
    """The recursive sum of a list: the largest power of 2 below its length is the size of the first part."""
    if len(numbers) == 1:
        return numbers[0]
    half = 1
    while half * 2 < len(numbers):
        half *= 2
    return by_definition(numbers[:half]) + by_definition(numbers[half:])


@given(shards=st.integers(1, 40), workers=st.integers(1, 40), seed=st.integers(0, 99), shuffled=st.booleans())
def test_same_bits_with_any_number_of_workers(shards, workers, seed, shuffled):
    workers = min(workers, shards)
    numbers = np.random.default_rng(seed).standard_normal((shards, 3)).astype(np.float32)
    parts, places = {}, []
    for rank in range(workers):
        own = shard_range(shards, workers, rank)
        bucket = Bucket(np.dtype(np.float32), own, shards)
        bucket.append(0, 2)
        bucket.append(1, 1)
        coming = [(shard, position) for shard in own for position in (1, 0)]
        if shuffled:
            random.Random(seed).shuffle(coming)
        before = numbers.copy()
        done = [
            bucket.add(shard, position, numbers[shard, 2:] if position else numbers[shard, :2])
            for shard, position in coming
        ]
        assert done == [False] * (len(done) - 1) + [True]
        assert not any(bucket.end(shard) for shard in own)
        places += bucket.nodes
        parts |= {node: each.copy() for node, each in zip(bucket.nodes, bucket.sums(), strict=True)}
        np.testing.assert_array_equal(numbers, before)  # the inputs have not changed
    assert [first for first, _ in places[1:]] == [end for _, end in places[:-1]]
    np.testing.assert_array_equal(tree_sum(parts, shards), by_definition(list(numbers)))


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_a_power_of_two_sends_one_sum_each(workers):
    for rank in range(workers):
        own = shard_range(8, workers, rank)
        assert len(own) == 8 // workers
        assert subtrees(own, 8) == [(own.start, own.stop)]


def test_the_tree():
    assert [split_point(node) for node in ((0, 8), (0, 2), (0, 5), (4, 7))] == [4, 1, 4, 6]
    assert path_to_root(2, 5) == [(2, 3), (2, 4), (0, 4), (0, 5)]
    assert [merge_count(shard, range(8), 8) for shard in range(8)] == [0, 1, 0, 2, 0, 1, 0, 3]
    assert [merge_count(shard, range(2, 5), 8) for shard in range(2, 5)] == [0, 1, 0]
    assert subtrees(range(1, 7), 8) == [(1, 2), (2, 4), (4, 6), (6, 7)]


def test_shares_are_neighbors_and_almost_equal():
    for shards in range(1, 30):
        for workers in range(1, shards + 1):
            shares = [shard_range(shards, workers, rank) for rank in range(workers)]
            assert [shard for own in shares for shard in own] == list(range(shards))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("early", [False, True])
def test_what_a_shard_does_not_use_counts_as_zeros(early):
    bucket = Bucket(np.dtype(np.float64), range(4), 4)
    bucket.append(0, 2)
    bucket.append(7, 1)
    used = {0: [7], 1: [0, 7], 2: [], 3: [0]}
    for shard in (2, 0, 1, 3) if early else range(4):
        for position in used[shard]:
            assert not bucket.add(shard, position, np.full(1 + (position == 0), 10.0**shard))
        assert bucket.end(shard) == (shard == 3)
    (total,) = bucket.sums()
    np.testing.assert_array_equal(total, [1010, 1010, 11])


def test_a_negative_zero_has_one_sign_wherever_the_shards_are():
    # -0.0 + 0.0 is 0.0: a shard that does not use the parameter counts as zeros, in its own process or in another one
    numbers = [None, np.array([-0.0]), None, None]
    for workers in (1, 2, 4):
        parts = {}
        for rank in range(workers):
            own = shard_range(4, workers, rank)
            bucket = Bucket(np.dtype(np.float64), own, 4)
            bucket.append(0, 1)
            for shard in own:
                if numbers[shard] is not None:
                    bucket.add(shard, 0, numbers[shard])
                bucket.end(shard)
            parts |= {node: each.copy() for node, each in zip(bucket.nodes, bucket.sums(), strict=True)}
        assert np.signbit(tree_sum(parts, 4)).tolist() == [False]


def test_the_only_gradient_of_a_bucket_is_not_copied():
    given = np.arange(3.0)
    for places in (1, 2):
        bucket = Bucket(np.dtype(np.float64), range(1), 1)
        for position in range(places):
            bucket.append(position, 3)
        for position in range(places):
            bucket.add(0, position, given)
        assert np.shares_memory(bucket.sums()[0], given) == (places == 1)
        assert not np.shares_memory(bucket.sums(writable=True)[0], given)


def test_large_sums_are_added_block_by_block():
    numbers = np.random.default_rng(0).standard_normal((8, 2 * BLOCK + 5)).astype(np.float32)
    bucket = Bucket(np.dtype(np.float32), range(8), 8)
    bucket.append(0, 2 * BLOCK + 5)
    for _ in range(2):
        for shard in range(8):
            bucket.add(shard, 0, numbers[shard])
        np.testing.assert_array_equal(bucket.sums()[0], by_definition(list(numbers)))
        bucket.clear()


def test_buckets_go_from_the_last_parameter_to_the_first():
    f4, f8 = np.dtype(np.float32), np.dtype(np.float64)
    shapes = [(3,), (2, 2), (), (4,), (100,), (3,)]
    found = make_buckets(shapes, [f4, f4, f8, f4, f4, f4], range(1), 1, 64)
    assert [list(bucket.slices) for bucket in found] == [[4], [2], [5, 3, 1, 0]]  # the large one alone
    found = make_buckets(shapes, [f4] * 6, range(1), 1, 64)
    assert [list(bucket.slices) for bucket in found] == [[4], [5, 3, 2, 1, 0]]
    assert [bucket.size for bucket in found] == [100, 15]
    assert found[1].slices[3] == slice(3, 7) and found[1].slices[0] == slice(12, 15)
    found = make_buckets([(3,)] * 5, [f4] * 5, range(1), 1, 48)
    assert [list(bucket.slices) for bucket in found] == [[4, 3, 2, 1], [0]]


def test_the_mean_of_equal_numbers_is_exact_for_a_power_of_two():
    third = Fraction(1, 3)
    numbers = [np.array([float(third)], np.float32) for _ in range(8)]
    assert by_definition(numbers)[0] / 8 == numbers[0][0]
