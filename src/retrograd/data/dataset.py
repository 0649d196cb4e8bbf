"""Dataset classes: map-style and iterable datasets, and their combinations."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays import to_host
from ..engine.arguments import kind_name
from ..engine.tensor import Tensor
from ..ops.argument_checks import as_counts, as_list, as_real
from ..ops.random.random import as_generator
from ..ops.signatures import advised

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]


class Dataset:
    """A collection of samples indexed by position. A subclass defines ``__getitem__(index)`` and ``__len__()``.

    It may also define ``__getitems__(indices)``, which returns a list of samples, or ``take(indices)``, which returns a
    collated batch; DataLoader prefers these.
    """

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__(index)")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__()")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


def takes_batches(dataset: Any) -> bool:
    """Return whether ``take(indices)`` of a dataset returns a batch; that of arrays and Tensors does something else."""
    return isinstance(dataset, Dataset) and hasattr(dataset, "take")


class IterableDataset:
    """A stream of samples without positions. A subclass defines ``__iter__()``.

    Each worker process iterates over its own copy. Use ``get_worker_info()`` in ``__iter__`` to divide the samples;
    otherwise every worker returns all of them. Workers draw different random numbers in ``__iter__``. To divide a
    random order among them, draw it from a generator that has the same seed in every worker.
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__()")

    def __add__(self, other: IterableDataset) -> ChainDataset:
        return ChainDataset([self, other])


class ChainDataset(IterableDataset):
    """The samples of several IterableDatasets, one dataset after the other.

    Raises:
        TypeError: one of datasets is not an IterableDataset.
    """

    def __init__(self, datasets: Iterable[IterableDataset]) -> None:
        self.datasets: list[Any] = as_list("ChainDataset", "datasets", datasets, "a list of datasets")
        for position, dataset in enumerate(self.datasets):
            if not isinstance(dataset, IterableDataset):
                raise TypeError(
                    f"ChainDataset: datasets[{position}] must be an IterableDataset, got {kind_name(dataset)}; "
                    "for other datasets use ConcatDataset"
                )

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            yield from dataset


class TensorDataset(Dataset):
    """A dataset of tensors with the same first extent. Sample i is ``(tensors[0][i], tensors[1][i], ...)``.

    tensors: Tensors (or arrays, which are wrapped) of shapes (N, ...) with the same N.

    Raises:
        TypeError: an argument is neither Tensor nor array.
        ValueError: there is no argument, one has no axes, or their first extents differ.
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor | np.ndarray) -> None:
        if not tensors:
            raise ValueError("TensorDataset: pass at least one tensor")
        for position, tensor in enumerate(tensors):
            if not isinstance(tensor, (Tensor, np.ndarray)):
                raise TypeError(f"TensorDataset: tensors[{position}] must be a Tensor, got {kind_name(tensor)}")
        self.tensors = tuple(Tensor(t) if isinstance(t, np.ndarray) else t.detach() for t in tensors)
        shapes = [tensor.array.shape for tensor in self.tensors]
        if any(not shape or shape[0] != (shapes[0] or (0,))[0] for shape in shapes):
            raise ValueError(f"TensorDataset: the first extents must be equal, one per sample; shapes are {shapes}")

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        """Return a sample; for a slice, a list, an array or a Tensor of ints or bools, a batch of them."""
        several = _several(index, len(self), "TensorDataset")
        if several is not None:
            return self.take(several)
        position = _checked_index(index, len(self), "TensorDataset")
        return tuple(Tensor(np.asarray(tensor.array[position])) for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def take(self, indices: Sequence[int] | np.ndarray) -> tuple[Tensor, ...]:
        """Return the batch of these samples, copied: one Tensor of shape (len(indices), ...) per tensor.

        Raises:
            IndexError: an index is out of range.
        """
        order = np.asarray(indices, dtype=np.int64)
        try:
            return tuple(Tensor(tensor.array[order]) for tensor in self.tensors)
        except IndexError:
            for index in order:
                _checked_index(int(index), len(self), "TensorDataset")
            raise


class Subset(Dataset):
    """The samples of ``dataset`` at ``indices``, in the order of ``indices``.

    Raises:
        IndexError: an index is outside the dataset.
    """

    def __init__(self, dataset: Dataset, indices: Sequence[int] | np.ndarray) -> None:
        self.dataset = dataset
        require_length("Subset", "dataset", dataset)
        self.indices: np.ndarray = as_counts("Subset", "indices", indices)
        out_of_range = (self.indices < -len(dataset)) | (self.indices >= len(dataset))
        if out_of_range.any():
            raise IndexError(
                f"Subset: index {self.indices[out_of_range][0]} is outside a dataset of {len(dataset)} samples"
            )
        if takes_batches(dataset):  # Fetcher tests for this attribute
            self.take: Callable[[Sequence[int] | np.ndarray], Any] = self._take

    def _take(self, indices: Sequence[int] | np.ndarray) -> Any:
        return self.dataset.take(self.indices[np.asarray(indices, dtype=np.int64)])  # type: ignore[attr-defined]

    def __getitem__(self, index: Any) -> Any:
        """Return a sample; for several indices, what the dataset returns for a list of ints."""
        several = _several(index, len(self), "Subset")
        if several is not None:
            return self.dataset[self.indices[several].tolist()]  # such as a TensorDataset
        return self.dataset[int(self.indices[_checked_index(index, len(self), "Subset")])]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """The samples of several datasets, one after the other.

    Raises:
        ValueError: datasets is empty.
        TypeError: one of datasets is an IterableDataset.
    """

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        self.datasets: list[Any] = as_list("ConcatDataset", "datasets", datasets, "a list of datasets")
        if not self.datasets:
            raise ValueError("ConcatDataset: pass at least one dataset")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise TypeError("ConcatDataset: an IterableDataset has no positions; use ChainDataset")
        lengths = [require_length("ConcatDataset", f"datasets[{n}]", each) for n, each in enumerate(self.datasets)]
        self.cumulative_sizes: list[int] = [int(end) for end in np.cumsum(lengths)]

    def __getitem__(self, index: int) -> Any:
        position = _checked_index(index, len(self), "ConcatDataset")
        number = int(np.searchsorted(self.cumulative_sizes, position, side="right"))
        return self.datasets[number][position - (self.cumulative_sizes[number - 1] if number else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


@advised
def random_split(
    dataset: Dataset, lengths: Sequence[float], generator: np.random.Generator | None = None
) -> list[Subset]:
    """Split a dataset into random parts that do not overlap.

    lengths: the sizes of the parts, which must add up to len(dataset); or fractions that add up to 1. Each fraction is
        rounded down, and the remaining samples go one each to the first parts.
    generator: source of the random order; None means the generator seeded by ``retrograd.manual_seed``.

    Raises:
        ValueError: the lengths are negative or do not add up.
    """
    total = require_length("random_split", "dataset", dataset)
    lengths = [*lengths] if isinstance(lengths, Iterable) else [lengths]
    for place, length in enumerate(lengths):
        as_real("random_split", f"lengths[{place}]", length)
    if not all(0 <= length < math.inf for length in lengths):
        raise ValueError(f"random_split: lengths={list(lengths)} must be finite and must not be negative")
    if math.isclose(sum(lengths), 1.0) and any(length != int(length) for length in lengths):
        sizes = [int(math.floor(total * fraction)) for fraction in lengths]
        for part in range(total - sum(sizes)):
            sizes[part % len(sizes)] += 1
    elif all(length == int(length) for length in lengths) and sum(lengths) == total:
        sizes = [int(length) for length in lengths]
    else:
        raise ValueError(
            f"random_split: lengths={list(lengths)} must add up to the {total} samples of the dataset, or be fractions "
            "that add up to 1"
        )
    order = as_generator("random_split", generator).permutation(total)
    ends = np.cumsum(sizes)
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def require_length(name: str, label: str, dataset: Any) -> int:
    """Return len(dataset). Raises TypeError if it has no length."""
    if not hasattr(dataset, "__len__"):
        raise TypeError(f"{name}: {label} is {kind_name(dataset)}, needs a dataset with a length, len({label})")
    return len(dataset)


def _checked_index(index: Any, length: int, name: str) -> int:
    try:
        position = operator.index(index)
    except TypeError:
        raise TypeError(f"{name}: index is {kind_name(index)}, needs an int") from None
    if not -length <= position < length:
        raise IndexError(f"{name}: index {position} is out of range for {length} samples")
    return position % length if length else position


def _several(index: Any, length: int, name: str) -> np.ndarray | None:
    """Return the positions that an index for several samples selects; None for another one.

    Raises:
        IndexError: one is out of range, or there is not one bool for each sample.
        TypeError: an element is neither an int nor a bool.
    """
    if isinstance(index, slice):
        return np.arange(length)[index]
    if not isinstance(index, (list, range, np.ndarray, Tensor)) or getattr(index, "shape", (0,)) == ():
        return None
    flags = np.asarray(to_host(index.array, "an index") if isinstance(index, Tensor) else index)
    if flags.dtype == np.bool_:
        if flags.shape != (length,):
            raise IndexError(f"{name}: the shape of the bools is {flags.shape}, needs ({length},), one for each sample")
        return np.flatnonzero(flags)
    found = as_counts(name, "index", index)
    for each in found[(found < -length) | (found >= length)]:
        _checked_index(int(each), length, name)
    return found
