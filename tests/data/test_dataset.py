"""Datasets, and the collation of samples into a batch."""

import numpy as np
import pytest

from retrograd.data import ConcatDataset, Dataset, Subset, TensorDataset, default_collate, random_split
from retrograd.engine.tensor import Tensor


def squares(count: int) -> TensorDataset:
    return TensorDataset(Tensor(np.arange(count) ** 2), Tensor(np.arange(count, dtype=np.float32).reshape(-1, 1)))


def test_samples_are_tuples_of_tensors():
    number, column = squares(5)[3]
    assert (number.item(), column.shape, len(squares(5))) == (9, (1,), 5)
    assert squares(5)[-1][0].item() == 16


def test_a_tensor_dataset_takes_batches_as_copies():
    data = squares(5)
    numbers, columns = data.take([4, 0])
    assert numbers.array.tolist() == [16, 0] and columns.shape == (2, 1)
    numbers.array[:] = -1
    assert data[4][0].item() == 16


@pytest.mark.parametrize("index", [5, -6])
def test_an_index_outside_is_an_error(index):
    with pytest.raises(IndexError, match=f"index {index} is out of range for 5 samples"):
        squares(5)[index]


@pytest.mark.parametrize(
    ("index", "chosen"),
    [
        (slice(1, 4), [1, 2, 3]),
        (slice(None, None, -2), [4, 2, 0]),
        ([3, -5], [3, 0]),
        (range(2), [0, 1]),
        (np.array([4, 4], np.int8), [4, 4]),
        (Tensor(np.array([2])), [2]),
        (Tensor(np.arange(5) > 3), [4]),
        ([], []),
    ],
)
def test_several_samples(index, chosen):
    numbers, columns = squares(5)[index]
    assert numbers.array.tolist() == [n * n for n in chosen] and columns.shape == (len(chosen), 1)
    part = Subset(squares(7), [6, 5, 4, 3, 2])
    assert part[index][0].array.tolist() == [(6 - n) ** 2 for n in chosen]
    assert Subset(part, range(5))[index][0].array.tolist() == [(6 - n) ** 2 for n in chosen]


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (1.7, TypeError, "index is float, needs an int"),
        ("3", TypeError, "index is str, needs an int"),
        ([0, 5], IndexError, "index 5 is out of range for 5 samples"),
        ([0.5], TypeError, r"index\[0\]"),
        (np.array([True, False]), IndexError, r"the shape of the bools is \(2,\), needs \(5,\), one for each"),
    ],
)
def test_wrong_indices(index, error, message):
    for data in (squares(5), Subset(squares(6), range(5))):
        with pytest.raises(error, match=message):
            data[index]


def test_tensor_dataset_arguments_are_checked():
    with pytest.raises(ValueError, match="at least one tensor"):
        TensorDataset()
    with pytest.raises(TypeError, match=r"tensors\[1\] must be a Tensor, got list"):
        TensorDataset(np.zeros(3), [1, 2, 3])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"shapes are \[\(3,\), \(4,\)\]"):
        TensorDataset(np.zeros(3), np.zeros(4))
    with pytest.raises(ValueError, match="first extents"):
        TensorDataset(np.zeros(()))


def test_a_dataset_without_methods_says_what_is_missing():
    with pytest.raises(NotImplementedError, match="__getitem__"):
        Dataset()[0]
    with pytest.raises(NotImplementedError, match="__len__"):
        len(Dataset())


def test_subset_and_concat():
    data = squares(6)
    part = Subset(data, [5, -6, 2])
    assert [part[i][0].item() for i in range(3)] == [25, 0, 4]
    assert part.take([2, 0])[0].array.tolist() == [4, 25]
    both = part + data
    assert isinstance(both, ConcatDataset) and len(both) == 9
    assert [both[i][0].item() for i in (2, 3, 8, -9)] == [4, 0, 25, 25]
    with pytest.raises(IndexError, match="index 6 is outside a dataset of 6"):
        Subset(data, [0, 6])


def test_random_split_by_sizes_and_by_fractions():
    data = squares(10)
    first, second = random_split(data, [7, 3], np.random.default_rng(1))
    assert sorted([*first.indices, *second.indices]) == list(range(10)) and len(first) == 7
    again, _ = random_split(data, [7, 3], np.random.default_rng(1))
    assert again.indices.tolist() == first.indices.tolist()
    assert [len(part) for part in random_split(data, [0.55, 0.25, 0.2])] == [6, 2, 2]
    with pytest.raises(ValueError, match="add up to the 10 samples"):
        random_split(data, [5, 4])
    with pytest.raises(ValueError, match="negative"):
        random_split(data, [11, -1])


def test_collate_stacks_every_structure():
    samples = [{"x": (np.zeros(2), 1), "name": "a", "f": 0.5}, {"x": (np.ones(2), 2), "name": "b", "f": 1.5}]
    batch = default_collate(samples)
    assert batch["x"][0].array.tolist() == [[0, 0], [1, 1]] and batch["x"][1].dtype == np.int64
    assert batch["name"] == ["a", "b"] and batch["f"].dtype == np.float32


def test_collate_refuses_what_cannot_be_stacked():
    with pytest.raises(ValueError, match="different shapes"):
        default_collate([np.zeros(2), np.zeros(3)])
    with pytest.raises(ValueError, match="different lengths"):
        default_collate([(1,), (1, 2)])
    with pytest.raises(ValueError, match="different keys"):
        default_collate([{"a": 1}, {"b": 1}])
    for batch, message in (
        ([1, None, 2], r"sample\[1\] of the batch is None, sample\[0\] is int; .*leaves such samples out"),
        ([None, 1], r"sample\[0\] of the batch is None; make the dataset return"),
        ([(np.zeros(2), 1), (None, 2)], r"sample\[1\]\[0\] of the batch is None, sample\[0\]\[0\] is ndarray"),
        ([{"x": [1]}, {"x": None}], r"sample\[1\]\['x'\] of the batch is None"),
        ([{"x": 1}, {"x": "a"}], r"sample\[1\]\['x'\] of the batch is str, sample\[0\]\['x'\] is int"),
        ([{"x": 1}, (1,)], r"sample\[1\] of the batch is tuple, sample\[0\] is dict"),
    ):
        with pytest.raises(TypeError, match=f"default_collate: {message}"):
            default_collate(batch)
    with pytest.raises(TypeError, match="cannot stack object.*collate_fn"):
        default_collate([object()])
    with pytest.raises(ValueError, match="empty"):
        default_collate([])
