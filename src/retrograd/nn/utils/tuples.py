"""Tuples of extents: the helpers that scripts of layers import from torch.nn.modules.utils."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

__all__: list[str] = []


def _ntuple(n: int) -> Callable[[Any], tuple[Any, ...]]:
    """A function that repeats a value n times, and makes a tuple of an iterable as it is."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    return parse


_single, _pair, _triple = _ntuple(1), _ntuple(2), _ntuple(3)
