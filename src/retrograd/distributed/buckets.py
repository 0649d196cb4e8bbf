"""Buckets: gradients of a few megabytes of parameters in one piece of memory, added up over this worker's shards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .tree import merges, subtrees

_Shape = tuple[int, ...]


class Bucket:
    """Neighbouring gradients of one dtype.

    places: position of each gradient in the list of parameters -> its part of the memory.

    `sums` holds the sums of the whole subtrees of the worker's shards once all shards have been added, see tree.py.
    """

    def __init__(self, dtype: np.dtype, own: range, shards: int) -> None:
        self.dtype, self.size = dtype, 0
        self.places: dict[int, slice] = {}
        self._merges = {shard: merges(shard, own, shards) for shard in own}
        self.nodes = subtrees(own, shards)
        self._stack: list[np.ndarray] = []
        self._high = 0  # how much of the stack is in use
        self._missing: set[int] = set()

    def append(self, position: int, size: int) -> None:
        """Make room for one more gradient."""
        self.places[position] = slice(self.size, self.size + size)
        self.size += size

    @property
    def sums(self) -> list[np.ndarray]:
        """The sum of each of `nodes`."""
        return self._stack[: self._high]

    def clear(self) -> None:
        """Begin a new step."""
        self._high = 0

    def begin(self, shard: int) -> None:
        """Begin the gradients of one shard."""
        self._missing = set(self.places)
        if not self._merges[shard]:
            if len(self._stack) == self._high:
                self._stack.append(np.empty(self.size, self.dtype))
            self._high += 1

    def add(self, shard: int, position: int, gradient: np.ndarray) -> bool:
        """Add the gradient of one parameter; returns whether it was the last of the bucket."""
        self._missing.discard(position)
        self._add(shard, self.places[position], gradient.reshape(-1))
        if self._missing:
            return False
        self._merge(shard)
        return True

    def end(self, shard: int) -> bool:
        """Take what is missing as zeros; returns whether anything was."""
        if not self._missing:
            return False
        if not self._merges[shard]:
            for position in self._missing:
                self._stack[self._high - 1][self.places[position]] = 0
        self._missing.clear()
        self._merge(shard)
        return True

    def _add(self, shard: int, place: slice, gradient: np.ndarray) -> None:
        top = self._stack[self._high - 1][place]
        if self._merges[shard]:
            top += gradient
        else:
            top[...] = gradient

    def _merge(self, shard: int) -> None:
        for _ in range(self._merges[shard] - 1):
            self._high -= 1
            self._stack[self._high - 1] += self._stack[self._high]


def in_buckets(
    shapes: Sequence[_Shape], dtypes: Sequence[np.dtype], own: range, shards: int, most: int
) -> list[Bucket]:
    """Buckets of at most `most` bytes, the last parameters first: their gradients are complete first."""
    found: list[Bucket] = []
    for position in range(len(shapes) - 1, -1, -1):
        dtype, size = dtypes[position], int(np.prod(shapes[position]))
        last = found[-1] if found else None
        if last is None or last.dtype != dtype or (last.size and (last.size + size) * dtype.itemsize > most):
            last = Bucket(dtype, own, shards)
            found.append(last)
        last.append(position, size)
    return found
