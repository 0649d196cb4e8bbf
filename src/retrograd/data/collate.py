"""Collating samples into a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..engine.arguments import as_list
from ..engine.tensor import Tensor
from ..ops.creation.creation import tensor
from .image_checks import is_pillow

__all__ = ["default_collate"]

_KINDS: tuple[tuple[type, ...], ...] = (  # of samples that can be collated with each other
    (Tensor, np.ndarray, np.generic, int, float),
    (str, bytes),
    (Mapping,),
    (tuple, list),
)


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples of the same structure -> that structure with stacked Tensors, which have a leading batch axis.

    Tensors, arrays and numbers are stacked (float -> float32, int -> int64); dicts, lists and tuples are collated
    recursively, tuples into lists, as in PyTorch; strings are returned as a list.

    Raises:
        ValueError: the batch is empty, or samples differ in shape, length or keys.
        TypeError: a sample is None, is of another kind than the first, or cannot be stacked; pass the loader a
            collate_fn.
    """
    batch = as_list("default_collate", "batch", batch, "a list of samples")
    if not batch:
        raise ValueError("default_collate: the batch is empty")
    return _collated(batch, "")


def _collated(batch: Sequence[Any], place: str) -> Any:
    """``default_collate`` of the entries at ``place``, such as "[1]" or "['x']", of the samples."""
    first = batch[0]
    kinds = next((kinds for kinds in _KINDS if isinstance(first, kinds)), object)
    for n, item in enumerate(batch):
        if item is None or not isinstance(item, kinds):
            kind = "None" if item is None else type(item).__name__
            than = "" if first is None else f", sample[0]{place} is {type(first).__name__}"
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
