"""Building of batches from samples, with random numbers that do not depend on the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any

import numpy as np

from ..engine.arguments import as_list, kind_name
from ..engine.tensor import Tensor
from ..ops.creation import tensor
from ..ops.random.random import default_generator
from .dataset import IterableDataset, takes_batches
from .image_transform import is_pillow

__all__ = ["END", "Fetcher", "default_collate", "next_seed"]


# ---- Collation of samples into a batch ------------------------------------------------------------------------------

_KINDS: tuple[tuple[type, ...], ...] = (  # sample types that can be collated with each other
    (Tensor, np.ndarray, np.generic, int, float),
    (str, bytes),
    (Mapping,),
    (tuple, list),
)


def default_collate(batch: Sequence[Any]) -> Any:
    """Collate samples of the same structure into a batch of that structure, stacked along a new first axis.

    Tensors, arrays and numbers are stacked (float -> float32, int -> int64). Dicts, lists and tuples are collated
    recursively; as in PyTorch, tuples become lists. Strings are returned as a list.

    Raises:
        ValueError: the batch is empty, or samples differ in shape, length or keys.
        TypeError: a sample is None, is of another kind than the first, or cannot be stacked; pass a collate_fn for
            such samples.
    """
    batch = as_list("default_collate", "batch", batch, "a list of samples")
    if not batch:
        raise ValueError("default_collate: the batch is empty")
    return _collated(batch, "")


def _collated(batch: Sequence[Any], place: str) -> Any:
    """Apply ``default_collate`` to the samples' entries at ``place``, such as "[1]" or "['x']"."""
    first = batch[0]
    kinds = next((kinds for kinds in _KINDS if isinstance(first, kinds)), object)
    for n, item in enumerate(batch):
        if item is None or not isinstance(item, kinds):
            kind = "None" if item is None else type(item).__name__
            than = "" if first is None else f", sample[0]{place} is {kind_name(first)}"
            raise TypeError(
                f"default_collate: sample[{n}]{place} of the batch is {kind}{than}; make the dataset return samples of "
                "one kind, or pass DataLoader a collate_fn that leaves such samples out"
            )
    if isinstance(first, (Tensor, np.ndarray, np.generic)):
        arrays = [np.asarray(item.array if isinstance(item, Tensor) else item) for item in batch]
        shapes = {array.shape for array in arrays}
        if len(shapes) > 1:
            raise ValueError(
                f"default_collate: samples of different shapes cannot be stacked: {sorted(shapes)}; make them equal in "
                "the dataset, or pass DataLoader a collate_fn that pads"
            )
        return Tensor(np.stack(arrays))
    if isinstance(first, (bool, int, float)):
        return tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        if any(item.keys() != first.keys() for item in batch):
            raise ValueError(f"default_collate: samples have different keys; the first has {sorted(first)}")
        return {key: _collated([item[key] for item in batch], f"{place}[{key!r}]") for key in first}
    if isinstance(first, (tuple, list)):
        if any(len(item) != len(first) for item in batch):
            lengths = sorted({len(item) for item in batch})
            raise ValueError(f"default_collate: samples have different lengths: {lengths}")
        columns = [_collated(column, f"{place}[{k}]") for k, column in enumerate(zip(*batch, strict=True))]
        if hasattr(first, "_fields"):  # a named tuple
            return type(first)(*columns)
        return columns
    if is_pillow(first):
        raise TypeError(
            "default_collate: cannot stack Pillow images; give the dataset a transform that ends with "
            "retrograd.data.transforms.ToTensor()"
        )
    raise TypeError(
        f"default_collate: cannot stack {type(first).__name__}; samples must be Tensors, arrays, numbers, strings, "
        "tuples, lists or dicts; for others pass DataLoader a collate_fn"
    )


# ---- Batches of a dataset, with random numbers that do not depend on the process ------------------------------------


class END:
    """Returned by ``fetch`` when an IterableDataset has no more samples."""


class Fetcher:
    """Builds the batches of a DataLoader.

    batch_size: samples per batch; None returns single samples.
    drop_last: drop a shorter last batch of an IterableDataset, whose end is not known in advance.
    """

    dataset: Any
    batch_size: int | None
    drop_last: bool
    collate_fn: Callable[[list[Any]], Any] | None

    def __init__(
        self, dataset: Any, collate_fn: Callable[[list[Any]], Any] | None, batch_size: int | None, drop_last: bool
    ) -> None:
        self.dataset, self.collate_fn = dataset, collate_fn
        self.batch_size, self.drop_last = batch_size, drop_last
        self._samples: Iterator[Any] = iter(())
        self._drew = False  # whether the dataset's __iter__ drew random numbers

    def start(self, seed: int, in_worker: bool = False) -> None:
        """Start an epoch whose random numbers come from ``seed``.

        in_worker: this process has its own seed, from which an IterableDataset's ``__iter__`` draws. Otherwise
            ``__iter__`` draws from ``seed`` too, and the global generator's state is restored afterwards.
        """
        self._seed, self._drew = seed, False
        if not isinstance(self.dataset, IterableDataset):
            return
        generator = default_generator.bit_generator
        before = generator.state
        start = before if in_worker else np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(0,))).state
        generator.state = start
        try:
            self._samples = iter(self.dataset)
            self._drew = generator.state != start
        finally:
            if not in_worker:
                generator.state = before

    def fetch(self, number: int, indices: Any) -> tuple[Any, bool]:
        """Return batch ``number`` of the epoch, and whether it or the dataset's ``__iter__`` drew random numbers.

        During the call, the state of the global generator depends only on the seed and the number, not on the number of
        workers or on other draws. It is restored afterwards.
        """
        generator = default_generator.bit_generator
        before = generator.state
        generator.state = start = _state(self._seed, number)
        try:
            batch = self._batch(indices)
            return batch, self._drew or generator.state != start
        finally:
            generator.state = before

    def _batch(self, indices: Any) -> Any:
        dataset, collate = self.dataset, self.collate_fn or default_collate
        if isinstance(dataset, IterableDataset):
            if self.batch_size is None:
                return next(self._samples, END)
            items = list(islice(self._samples, self.batch_size))
            return collate(items) if items and not (self.drop_last and len(items) < self.batch_size) else END
        if self.batch_size is None:
            return dataset[indices]
        if self.collate_fn is None and takes_batches(dataset):
            batch = dataset.take(indices)
            return list(batch) if type(batch) is tuple else batch  # as default_collate does
        if hasattr(dataset, "__getitems__"):
            return collate(dataset.__getitems__(indices))
        return collate([dataset[index] for index in indices])


def next_seed(generator: np.random.Generator) -> int:
    """Return the number that the generator would draw next, without advancing it."""
    return int(deepcopy(generator).integers(2**63))


def _state(seed: int, number: int) -> dict[str, Any]:
    return dict(np.random.PCG64(np.random.SeedSequence((seed, number))).state)
