"""The shards of a batch: which samples are whose, and the random numbers of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...engine.tensor import Tensor
from ...ops.random.random import default_generator


def bounds(samples: int, shards: int) -> list[int]:
    """Where shards of almost equal size begin and end. A half of the samples has the bounds of half of the shards."""
    return [shard * samples // shards for shard in range(shards + 1)]


@contextmanager
def random_numbers(seed: int, step: int, shard: int) -> Iterator[None]:
    """Within the block, the default generator draws numbers of this step and shard, whichever worker has it."""
    state = default_generator.bit_generator.state
    sequence = np.random.SeedSequence(seed, spawn_key=(step, shard))
    default_generator.bit_generator.state = np.random.PCG64(sequence).state
    try:
        yield
    finally:
        default_generator.bit_generator.state = state


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors in nested lists, tuples and dicts."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [tensor for item in value for tensor in tensors_in(item)]


def replaced(value: Any, tensors: Iterator[Any]) -> Any:
    """A copy of nested lists, tuples and dicts with other tensors in the places of its own."""
    if isinstance(value, Tensor):
        return next(tensors)
    if isinstance(value, dict):
        return {key: replaced(item, tensors) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(replaced(item, tensors) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(item, tensors) for item in value)
    return value
