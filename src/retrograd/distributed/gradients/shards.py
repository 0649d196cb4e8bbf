"""The shards of a batch: which samples are whose, and the random numbers of each."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...engine.tensor import Tensor
from ...nn.module import Module
from ...ops.random.random import default_generator


def bounds(samples: int, shards: int) -> list[int]:
    """Where shards of almost equal size begin and end. A half of the samples has the bounds of half of the shards."""
    return [shard * samples // shards for shard in range(shards + 1)]


@contextmanager
def random_numbers(seed: int, *key: int) -> Iterator[None]:
    """Within the block, the default generator draws the numbers of a key, such as a step and a shard, whichever worker
    has it."""
    state = default_generator.bit_generator.state
    sequence = np.random.SeedSequence(seed, spawn_key=key)
    default_generator.bit_generator.state = np.random.PCG64(sequence).state
    try:
        yield
    finally:
        default_generator.bit_generator.state = state


def tensors_in(value: Any, all_of_them: bool = False) -> list[Tensor]:
    """The tensors in nested lists, tuples, dicts and dataclasses. all_of_them: nothing else may have any but modules.

    Raises:
        TypeError: something else has.
    """
    if isinstance(value, Tensor):
        return [value]
    if all_of_them:
        _check_kind(value)
    return [tensor for _, item in _items(value) for tensor in tensors_in(item, all_of_them)]


def replaced(value: Any, tensors: Iterator[Any]) -> Any:
    """A copy of nested lists, tuples, dicts and dataclasses with other tensors in the places of its own."""
    if isinstance(value, Tensor):
        return next(tensors)
    items = [(key, replaced(item, tensors)) for key, item in _items(value)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(item for _, item in items))
    if isinstance(value, (list, tuple)):
        return type(value)(item for _, item in items)
    if isinstance(value, dict) or items:
        made = copy.copy(value)
        for key, item in items:
            if isinstance(value, dict):
                made[key] = item
            else:
                object.__setattr__(made, key, item)  # a dataclass may be frozen
        return made
    return value


def _items(value: Any) -> list[tuple[Any, Any]]:
    """What a list, tuple, dict or dataclass holds, by index, key or name; nothing for anything else."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return []


def _check_kind(value: Any) -> None:
    """Check that what is no container has no tensors."""
    if isinstance(value, (type, Module, dict, list, tuple)) or dataclasses.is_dataclass(value):
        return
    held = [name for name, item in getattr(value, "__dict__", {}).items() if isinstance(item, Tensor)]
    if held:
        raise TypeError(
            f"DistributedDataParallel: the module takes or returns a {type(value).__name__}, whose tensors "
            f"({', '.join(held)}) cannot be cut into shards; use tuples, lists, dicts or dataclasses, or pass "
            "reproducible=False"
        )
