"""DataLoader: order, batches, and resuming in the middle of an epoch."""

import json

import numpy as np
import pytest

from retrograd import Tensor
from retrograd.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from retrograd.ops.random.random import default_generator, manual_seed
from retrograd.utils.data import DataLoader as SameLoader

DATA = TensorDataset(np.arange(10))


def visited(loader) -> list[list[int]]:
    return [batch.array.tolist() for (batch,) in loader]


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
    assert [batch.array.tolist() for batch in DataLoader([1.0, 2.0, 3.0], 2)] == [[1, 2], [3]]


class Fetching:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise AssertionError("batches come from __getitems__")

    def __getitems__(self, indices):
        return [10 * index for index in indices]


def test_getitems_is_preferred():
    assert [batch.array.tolist() for batch in DataLoader(Fetching(), 3)] == [[0, 10, 20], [30]]


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
    with pytest.raises(TypeError, match="generator must be a numpy.random.Generator"):
        RandomSampler(DATA, generator=3)  # type: ignore[arg-type]


def test_subset_and_weighted_samplers():
    subset = SubsetRandomSampler([3, 5, 7, 9], np.random.default_rng(0))
    assert len(subset) == 4 and sorted(subset) == [3, 5, 7, 9] and len({tuple(subset) for _ in range(20)}) > 5
    weighted = WeightedRandomSampler([1, 0, 3], 4000, generator=np.random.default_rng(0))
    drawn = np.bincount(list(weighted), minlength=3)
    assert len(weighted) == 4000 and drawn[1] == 0 and abs(drawn[2] / 4000 - 0.75) < 0.04
    assert sorted(WeightedRandomSampler(np.array([1.0, 0, 3]), 2, replacement=False)) == [0, 2]
    for weights, count, message in (
        ([1, -1], 1, "1-d, finite and at least 0"),
        ([1, float("nan")], 1, "1-d, finite"),
        ([[1.0]], 1, "weights must be 1-d"),
        ([0, 0], 1, "0 weights are greater than 0"),
        ([1, 1], 0, "num_samples=0 must be a positive int"),
        ([1, 1], True, "num_samples=True"),
    ):
        with pytest.raises(ValueError, match=message):
            WeightedRandomSampler(weights, count)
    with pytest.raises(ValueError, match="2 weights are greater than 0, too few for num_samples=3"):
        WeightedRandomSampler([1, 0, 1], 3, replacement=False)


@pytest.mark.parametrize("stop", range(9))
@pytest.mark.parametrize("own", [True, False])
def test_a_loader_is_taken_up_in_the_middle_of_an_epoch(stop, own):
    """Resume after ``stop`` of the 12 batches of three epochs, in a program that also draws from the generator."""

    def start() -> DataLoader:
        manual_seed(3)
        return DataLoader(DATA, 3, shuffle=True, seed=7 if own else None)

    def rest(loader, first_epoch):
        found = []
        for _ in range(first_epoch, 3):
            for (batch,) in loader:
                found.append((batch.array.tolist(), default_generator.integers(1000)))
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
        other.load_state_dict({**state, "generators": [{"bit_generator": "PCG64"}]})
    with pytest.raises(ValueError, match="missing or of another generator"):
        DataLoader(DATA, 3, shuffle=True).load_state_dict(state)
    assert other.state_dict() == before
    with pytest.raises(RuntimeError, match="custom sampler"):
        DataLoader(DATA, 2, sampler=iter([1, 2])).state_dict()


@pytest.mark.parametrize(
    "options",
    [
        lambda: {"sampler": RandomSampler(DATA, generator=np.random.default_rng(3))},
        lambda: {"sampler": WeightedRandomSampler(np.arange(10), 8)},
        lambda: {"batch_sampler": BatchSampler(SubsetRandomSampler([3, 5, 7, 9], np.random.default_rng(1)), 2, False)},
        lambda: {"batch_sampler": [[1, 2], [7], [0]]},
        lambda: {"sampler": range(5, 9)},
    ],
)
def test_samplers_of_this_package_are_taken_up_too(options):
    def start() -> DataLoader:
        manual_seed(3)
        return DataLoader(DATA, **options())

    loader = start()
    whole = visited(loader) + visited(loader)
    loader = start()
    next(batches := iter(loader))
    state = json.loads(json.dumps(loader.state_dict())), default_generator.bit_generator.state
    del batches
    fresh = start()
    fresh.load_state_dict(state[0])
    default_generator.bit_generator.state = state[1]
    assert visited(fresh) + visited(fresh) == whole[1:]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "num_workers=-1 must be an int of at least 0"),
        ({"num_workers": 1.0}, "num_workers=1.0 must be"),
        ({"timeout": -1}, "timeout=-1 must be a number of seconds"),
        ({"timeout": 3}, "timeout=3 is for worker processes; set num_workers too"),
        ({"prefetch_factor": 2}, "prefetch_factor=2 is for worker processes"),
        ({"persistent_workers": True}, "persistent_workers=True is for worker processes"),
        ({"multiprocessing_context": "spawn"}, "multiprocessing_context='spawn' is for worker processes"),
        ({"num_workers": 1, "prefetch_factor": 0}, "prefetch_factor=0 must be a positive int"),
        ({"num_workers": 1, "multiprocessing_context": 3}, "is neither a start method nor a context"),
        ({"num_workers": 1, "multiprocessing_context": "thread"}, "is not available here"),
        ({"batch_size": 0}, "batch_size=0 must be a positive int"),
        ({"batch_size": 2.0}, "batch_size=2.0 must be a positive int"),
        ({"generator": np.random.default_rng(), "seed": 1}, "generator or seed, not both"),
        ({"seed": -1}, "seed=-1 is negative; use 0 or more"),
        ({"sampler": [1], "shuffle": True}, "leave out shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 4}, "batch_sampler excludes"),
        ({"batch_size": None, "drop_last": True}, "leave drop_last out"),
    ],
)
def test_options_are_never_silently_ignored(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(DATA, **options)


def test_the_dataset_is_checked():
    with pytest.raises(TypeError, match="dataset is int"):
        DataLoader(3)
    with pytest.raises(TypeError, match="generator must be a numpy.random.Generator"):
        DataLoader(DATA, generator=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"seed=1\.5 is float, needs an int"):
        DataLoader(DATA, seed=1.5)  # type: ignore[arg-type]


def test_an_empty_dataset_has_no_batches():
    assert visited(DataLoader(TensorDataset(np.zeros((0, 2))), 3, shuffle=True)) == []


# ---- datasets without positions -------------------------------------------------------------------------------------


class Numbers(IterableDataset):
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self):
        for number in range(self.count):
            yield number, float(default_generator.random())


class CountedNumbers(Numbers):
    def __len__(self):
        return self.count


def test_an_iterable_dataset_is_batched_to_its_end():
    assert [len(numbers) for numbers, _ in DataLoader(Numbers(7), 3)] == [3, 3, 1]
    loader = DataLoader(CountedNumbers(7), 3, drop_last=True)
    assert [numbers.tolist() for numbers, _ in loader] == [[0, 1, 2], [3, 4, 5]] and len(loader) == 2
    assert len(DataLoader(CountedNumbers(7), 3)) == 3
    assert [number for number, _ in DataLoader(Numbers(3), None)] == [0, 1, 2]
    chain = Numbers(2) + Numbers(1)
    assert isinstance(chain, ChainDataset) and [number for number, _ in chain] == [0, 1, 0]
    with pytest.raises(TypeError, match="has no len"):
        len(DataLoader(Numbers(7), 3))
    with pytest.raises(NotImplementedError, match="must define __iter__"):
        list(DataLoader(IterableDataset()))
    with pytest.raises(TypeError, match="use ChainDataset"):
        ConcatDataset([Numbers(2)])
    with pytest.raises(TypeError, match=r"datasets\[0\] must be an IterableDataset"):
        ChainDataset([DATA])
    for options in ({"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}):
        with pytest.raises(ValueError, match="sets its order itself"):
            DataLoader(Numbers(3), **options)
    with pytest.raises(ValueError, match="batch_size=0"):
        DataLoader(Numbers(3), 0)


def drawn(loader) -> list[list[float]]:
    return [noise.tolist() for _, noise in loader]


def test_every_batch_has_random_numbers_of_its_own_which_an_epoch_repeats_only_after_a_seed():
    loader = DataLoader(CountedNumbers(6), 2)
    manual_seed(1)
    first = drawn(loader)
    assert drawn(loader) != first and len({value for row in first for value in row}) == 6
    manual_seed(1)
    again = []
    for _, noise in loader:
        again.append(noise.tolist())
        default_generator.random()  # what else draws makes no difference
    assert again == first
    manual_seed(1)
    before = default_generator.bit_generator.state
    list(DataLoader(DATA, 3))
    assert default_generator.bit_generator.state == before  # evaluating does not change what is trained


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_an_iterable_dataset_is_taken_up_in_its_middle(stop):
    manual_seed(2)
    loader = DataLoader(Numbers(6), 2)
    whole = drawn(loader) + drawn(loader)
    manual_seed(2)
    loader = DataLoader(Numbers(6), 2)
    batches = iter(loader)
    for _ in range(stop):
        next(batches)
    state = json.loads(json.dumps(loader.state_dict())), default_generator.bit_generator.state
    fresh = DataLoader(Numbers(6), 2)
    default_generator.random(5)
    fresh.load_state_dict(state[0])
    default_generator.bit_generator.state = state[1]
    assert drawn(fresh) + drawn(fresh) == whole[stop:]


@pytest.mark.parametrize(
    "make",
    [
        lambda count, seed: RandomSampler(DATA, True, count, np.random.default_rng(seed)),
        lambda count, seed: RandomSampler(DATA, False, count, np.random.default_rng(seed)),
        lambda count, seed: WeightedRandomSampler([1, 0, 2], count, True, np.random.default_rng(seed)),
    ],
    ids=["replacement", "rounds", "weighted"],
)
def test_more_draws_than_memory(make, monkeypatch):
    """Indices are drawn on demand, and other draws from the same generator do not change them."""
    monkeypatch.setattr("retrograd.data.sampler._MAX_DRAW", 1000)
    sampler = make(10**14, 3)
    assert len(sampler) == 10**14
    once = [index for index, _ in zip(sampler, range(5000), strict=False)]
    again = []
    other = make(10**14, 3)
    for index, _ in zip(other, range(5000), strict=False):
        again.append(index)
        other.generator.random()
    assert once == again and once[:1000] == list(make(1000, 3)) and once[:1000] != once[1000:2000]
    whole = list(make(2500, 3))
    assert len(whole) == 2500 and whole[:2000] == once[:2000]
    assert max(np.bincount(whole, minlength=3)) < 2500


def test_rounds_that_are_longer_than_a_piece(monkeypatch):
    monkeypatch.setattr("retrograd.data.sampler._MAX_DRAW", 7)
    drawn = list(RandomSampler(DATA, num_samples=25, generator=np.random.default_rng(0)))
    assert sorted(drawn[:10]) == sorted(drawn[10:20]) == list(range(10)) and len(set(drawn[20:])) == 5


def test_a_batch_of_tuples_is_a_list():
    """As in PyTorch: for a TensorDataset, whose batches come from ``take``, and for any other dataset."""
    pairs = [(np.float32(1), 2), (np.float32(3), 4)]
    dataset = TensorDataset(np.ones((2, 3), np.float32), np.zeros(2, np.int64))
    for loader in (DataLoader(pairs, 2), DataLoader(dataset, 2), DataLoader(dataset, 2, num_workers=1)):
        (batch,) = loader
        assert type(batch) is list and len(batch) == 2 and all(len(part) == 2 for part in batch)


@pytest.mark.parametrize("make", [Tensor, np.asarray, list])
def test_arrays_and_tensors_are_datasets_of_rows(make):
    """Their own method ``take`` reads other elements."""
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    for dataset in (make(rows), Subset(make(rows), range(4))):
        batches = list(DataLoader(dataset, batch_size=2))
        assert [batch.tolist() for batch in batches] == [rows[:2].tolist(), rows[2:].tolist()]
