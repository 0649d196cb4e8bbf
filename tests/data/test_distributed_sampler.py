"""DistributedSampler: disjoint, complete and equally long shares of an order."""

import re

import pytest

import retrograd
from retrograd import distributed
from retrograd.data import DataLoader, DistributedSampler, TensorDataset

SIZES = [(10, 1), (10, 3), (7, 7), (2, 5), (1, 4), (0, 3), (12, 4)]


def shares(size, replicas, epoch=0, **options):
    samplers = [DistributedSampler(range(size), replicas, rank, **options) for rank in range(replicas)]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    found = [list(sampler) for sampler in samplers]
    assert [len(sampler) for sampler in samplers] == [len(share) for share in found]
    assert {sampler.total_size for sampler in samplers} == {sum(map(len, found))}
    return found


@pytest.mark.parametrize(("size", "replicas"), SIZES)
def test_order_is_dealt_out_and_filled_up_with_its_beginning(size, replicas):
    count = -(-size // replicas)
    dealt = [[] for _ in range(replicas)]
    for place in range(count * replicas):
        dealt[place % replicas].append(place % size)
    assert shares(size, replicas, shuffle=False) == dealt


@pytest.mark.parametrize(("size", "replicas"), SIZES)
def test_drop_last_leaves_out_the_rest(size, replicas):
    dealt = [list(range(rank, size - size % replicas, replicas)) for rank in range(replicas)]
    assert shares(size, replicas, shuffle=False, drop_last=True) == dealt


@pytest.mark.parametrize(("size", "replicas"), SIZES)
def test_shuffled_shares_hold_every_index(size, replicas):
    found = sum(shares(size, replicas), [])
    assert set(found) == set(range(size))
    dropped = sum(shares(size, replicas, drop_last=True), [])
    assert len(set(dropped)) == len(dropped) == size - size % replicas


def test_order_depends_on_seed_and_epoch_alone():
    retrograd.manual_seed(1)
    first = shares(50, 2)
    retrograd.manual_seed(2)
    assert shares(50, 2) == first
    assert shares(50, 2, epoch=1) != first
    assert shares(50, 2, seed=1) == shares(50, 2, epoch=1)


def test_loader_visits_the_share():
    data = TensorDataset(retrograd.arange(9))
    sampler = DistributedSampler(data, num_replicas=2, rank=1, shuffle=False)
    batches = [batch.tolist() for (batch,) in DataLoader(data, batch_size=2, sampler=sampler)]
    assert batches == [[1, 3], [5, 7], [0]]


def test_the_process_group_says_which_share():
    distributed.init_process_group()
    try:
        sampler = DistributedSampler(range(3), shuffle=False)
    finally:
        distributed.destroy_process_group()
    assert (sampler.num_replicas, sampler.rank, [*sampler]) == (1, 0, [0, 1, 2])


def test_is_under_pytorchs_paths():
    from retrograd.utils.data import distributed as path

    assert path.DistributedSampler is retrograd.utils.data.DistributedSampler is DistributedSampler


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, RuntimeError, "there is no process group; call distributed.init_process_group() first"),
        ({"num_replicas": 2}, RuntimeError, "or pass num_replicas and rank"),
        ({"num_replicas": 0, "rank": 0}, ValueError, "num_replicas=0 must be a positive int"),
        ({"num_replicas": 2.0, "rank": 0}, ValueError, "num_replicas=2.0 must be a positive int"),
        ({"num_replicas": 2, "rank": 2}, ValueError, "rank=2 must be an int from 0 to 1"),
        ({"num_replicas": 2, "rank": -1}, ValueError, "rank=-1 must be an int from 0 to 1"),
        ({"num_replicas": 2, "rank": 0, "seed": -1}, ValueError, "seed=-1 must be an int of at least 0"),
        ({"num_replicas": 2, "rank": 0, "shuffle": 2}, TypeError, "shuffle"),
        ({"num_replicas": 2, "rank": 0, "drop_last": None}, TypeError, "drop_last"),
    ],
)
def test_refused(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        DistributedSampler(range(4), **options)


@pytest.mark.parametrize("epoch", [-1, 1.5, True])
def test_epoch_is_refused(epoch):
    with pytest.raises(ValueError, match="epoch=.* must be an int of at least 0"):
        DistributedSampler(range(4), 1, 0).set_epoch(epoch)
