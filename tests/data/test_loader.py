"""DataLoader: order, batches, and taking up an epoch in its middle."""

import json

import numpy as np
import pytest

from retrograd.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, TensorDataset
from retrograd.ops.random import default_generator, manual_seed
from retrograd.utils.data import DataLoader as SameLoader

DATA = TensorDataset(np.arange(10))


def visited(loader) -> list[list[int]]:
    return [batch.data.tolist() for (batch,) in loader]


def test_pytorchs_path_leads_to_the_same_loader():
    assert SameLoader is DataLoader


@pytest.mark.parametrize(("drop_last", "lengths"), [(False, [4, 4, 2]), (True, [4, 4])])
def test_batches_in_order(drop_last, lengths):
    loader = DataLoader(DATA, 4, drop_last=drop_last)
    batches = visited(loader)
    assert [len(batch) for batch in batches] == lengths and len(loader) == len(lengths)
    assert sum(batches, []) == list(range(sum(lengths)))


def test_shuffle_visits_every_sample_once_in_a_new_order_each_epoch():
    loader = DataLoader(DATA, 4, shuffle=True, seed=0)
    first, second = sum(visited(loader), []), sum(visited(loader), [])
    assert sorted(first) == sorted(second) == list(range(10)) and first != second
    assert sum(visited(DataLoader(DATA, 4, shuffle=True, seed=0)), []) == first
    assert sum(visited(DataLoader(DATA, 4, shuffle=True, generator=np.random.default_rng(0))), []) == first


def test_the_common_generator_sets_the_order_by_default():
    loader = DataLoader(DATA, 3, shuffle=True)
    manual_seed(5)
    first = visited(loader)
    assert visited(loader) != first
    manual_seed(5)
    assert visited(loader) == first


def test_single_samples_samplers_and_collate_fn():
    assert [item[0].item() for item in DataLoader(DATA, None)] == list(range(10))
    assert visited(DataLoader(DATA, batch_sampler=[[1, 2], [7]])) == [[1, 2], [7]]
    assert visited(DataLoader(DATA, 2, sampler=[9, 0, 3])) == [[9, 0], [3]]
    assert list(DataLoader([1, 2, 3], 2, collate_fn=sum)) == [3, 3]
    assert [batch.data.tolist() for batch in DataLoader([1.0, 2.0, 3.0], 2)] == [[1, 2], [3]]


class Fetching:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise AssertionError("batches come from __getitems__")

    def __getitems__(self, indices):
        return [10 * index for index in indices]


def test_getitems_is_preferred():
    assert [batch.data.tolist() for batch in DataLoader(Fetching(), 3)] == [[0, 10, 20], [30]]


def test_samplers():
    assert list(SequentialSampler(DATA)) == list(range(10))
    many = RandomSampler(DATA, num_samples=25, generator=np.random.default_rng(0))
    order = list(many)
    assert len(many) == len(order) == 25 and sorted(order[:10]) == sorted(order[10:20]) == list(range(10))
    drawn = list(RandomSampler(DATA, replacement=True, num_samples=50, generator=np.random.default_rng(0)))
    assert len(drawn) == 50 and set(drawn) <= set(range(10))
    assert len(list(RandomSampler(DATA, num_samples=3))) == 3
    with pytest.raises(ValueError, match="num_samples=0"):
        RandomSampler(DATA, num_samples=0)
    with pytest.raises(ValueError, match="batch_size=0"):
        BatchSampler(SequentialSampler(DATA), 0, False)
    with pytest.raises(TypeError, match="generator is int"):
        RandomSampler(DATA, generator=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("stop", range(9))
@pytest.mark.parametrize("own", [True, False])
def test_a_loader_is_taken_up_in_the_middle_of_an_epoch(stop, own):
    """`stop` batches into three epochs of four, in a program that draws from the same generator in between."""

    def start() -> DataLoader:
        manual_seed(3)
        return DataLoader(DATA, 3, shuffle=True, seed=7 if own else None)

    def rest(loader, first_epoch):
        found = []
        for _ in range(first_epoch, 3):
            for (batch,) in loader:
                found.append((batch.data.tolist(), default_generator.integers(1000)))
        return found

    whole = rest(start(), 0)
    loader, seen, saved, epoch = start(), 0, None, 0
    if stop == 0:
        saved = loader.state_dict(), default_generator.bit_generator.state
    while saved is None:
        for _ in loader:
            default_generator.integers(1000)
            seen += 1
            if seen == stop:
                saved = loader.state_dict(), default_generator.bit_generator.state
                break
        else:
            epoch += 1
    state = json.loads(json.dumps(saved[0]))
    fresh = start()
    default_generator.integers(10, size=17)  # whatever the new process drew before
    fresh.load_state_dict(state)
    default_generator.bit_generator.state = saved[1]
    assert rest(fresh, epoch) == whole[stop:]


def test_a_saved_state_must_fit():
    loader = DataLoader(DATA, 3, shuffle=True, seed=1)
    next(iter(loader))
    state = loader.state_dict()
    with pytest.raises(ValueError, match="the saved loader has batch_size=3, this one has batch_size=4"):
        DataLoader(DATA, 4, shuffle=True, seed=1).load_state_dict(state)
    other = DataLoader(DATA, 3, shuffle=True, seed=2)
    before = other.state_dict()
    misplaced = [{**state, "position": position} for position in (99, True, -1)]
    for broken in (*misplaced, {**state, "epoch_start": None}, {"position": 1}):
        with pytest.raises(ValueError, match=r"DataLoader\.load_state_dict"):
            other.load_state_dict(broken)
    with pytest.raises(ValueError, match="not a state of its random generator"):
        other.load_state_dict({**state, "generator": {"bit_generator": "PCG64"}})
    with pytest.raises(ValueError, match="missing or was not its own"):
        DataLoader(DATA, 3, shuffle=True).load_state_dict(state)
    assert other.state_dict() == before
    with pytest.raises(RuntimeError, match="sampler of your own"):
        DataLoader(DATA, 2, sampler=[1, 2]).state_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": 2}, "num_workers=2 is not supported"),
        ({"pin_memory": True}, "pin_memory=True is not supported"),
        ({"timeout": 3}, "timeout=3 is not supported"),
        ({"batch_size": 0}, "batch_size=0 must be a positive int"),
        ({"batch_size": 2.0}, "batch_size=2.0 must be a positive int"),
        ({"generator": np.random.default_rng(), "seed": 1}, "generator or seed, not both"),
        ({"sampler": [1], "shuffle": True}, "leave out shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 4}, "batch_sampler excludes"),
        ({"batch_size": None, "drop_last": True}, "drop_last has no meaning"),
    ],
)
def test_options_are_never_silently_ignored(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(DATA, **options)


def test_the_dataset_is_checked():
    with pytest.raises(TypeError, match="dataset is int"):
        DataLoader(3)
    with pytest.raises(TypeError, match="generator is int"):
        DataLoader(DATA, generator=3)  # type: ignore[arg-type]


def test_an_empty_dataset_has_no_batches():
    assert visited(DataLoader(TensorDataset(np.zeros((0, 2))), 3, shuffle=True)) == []
