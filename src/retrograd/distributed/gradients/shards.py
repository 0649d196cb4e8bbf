"""The shards of a batch: which samples are whose, and the random numbers of each."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

from ...engine.tensor import Tensor
from ...nn.module import Module
from ...ops.random.random import default_generator


def bounds(samples: int, shards: int) -> list[int]:
    """Return the bounds of shards of almost equal size. Half of the samples has the bounds of half of the shards."""
    return [shard * samples // shards for shard in range(shards + 1)]


@contextmanager
def random_state_kept() -> Iterator[None]:
    """After the block, the default generator is in the state of before."""
    state = default_generator.bit_generator.state
    try:
        yield
    finally:
        default_generator.bit_generator.state = state


def random_state_of(*key: int) -> dict[str, Any]:
    """The state of a generator for a key, such as a seed, a step and a shard, whichever process has it.

    It is a hash of the key. NumPy's SeedSequence would do as well; between two kernels it takes a tenth of a
    millisecond.
    """
    words = blake2b(" ".join(map(str, key)).encode(), digest_size=32).digest()
    state, increment = int.from_bytes(words[:16], "little"), int.from_bytes(words[16:], "little") | 1
    return {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": increment},
        "has_uint32": 0,
        "uinteger": 0,
    }


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors in nested lists, tuples, dicts and dataclasses."""
    if isinstance(value, Tensor):
        return [value]
    return [tensor for item in _items(value) for tensor in tensors_in(item)]


def replaced(value: Any, tensors: Iterator[Any]) -> Any:
    """A copy of nested lists, tuples, dicts and dataclasses with other tensors in the places of its own."""
    if isinstance(value, Tensor):
        return next(tensors)
    if isinstance(value, dict):
        made = {} if type(value) is dict else copy.copy(value)
        for key, item in value.items():
            made[key] = replaced(item, tensors)
        return made
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(replaced(item, tensors) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(item, tensors) for item in value)
    if _is_dataclass(value):
        made = copy.copy(value)
        for field in fields(value):
            object.__setattr__(made, field.name, replaced(getattr(value, field.name), tensors))
        return made
    return value


def hidden(value: Any) -> str:
    """The type of an object in nested containers that holds tensors where ``tensors_in`` does not look; "" for none."""
    if isinstance(value, (Tensor, Module)):
        return ""
    items = _items(value)
    if not items and any(isinstance(each, Tensor) for each in getattr(value, "__dict__", {}).values()):
        return type(value).__name__
    return next((found for item in items if (found := hidden(item))), "")


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.values()]
    if isinstance(value, (list, tuple)):
        return [*value]
    return [getattr(value, field.name) for field in fields(value)] if _is_dataclass(value) else []


def _is_dataclass(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)
