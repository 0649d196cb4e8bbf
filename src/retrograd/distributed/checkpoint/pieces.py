"""Division of writes: large tensors are cut by rows among the ranks that have them, small ones dealt out by size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .errors import CheckpointException
from .structure import Kind

_SPLIT = 2**20  # bytes; what is smaller stays in one piece


@dataclass(frozen=True)
class Piece:
    """The rows from ``first`` to the one before ``end`` of a tensor. A number counts as one row."""

    name: str
    first: int
    end: int

    def __str__(self) -> str:
        return f"{self.name}[{self.first}:{self.end}]"


def rows_of(shape: tuple[int, ...]) -> int:
    """The number of rows of a tensor."""
    return shape[0] if shape else 1


def with_rows(array: np.ndarray) -> np.ndarray:
    """The array, a single number as one row."""
    return array if array.ndim else array.reshape(1)


def deal(tensors: Mapping[str, tuple[Kind, Sequence[int]]], ranks: int, split: int = _SPLIT) -> list[list[Piece]]:
    """The pieces that each rank writes. tensors: name -> (dtype and shape, the ranks that have it).

    It depends on the arguments alone, so all ranks find the same.
    """
    found: list[list[Piece]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    whole = []
    for name, ((dtype, shape), holders) in tensors.items():
        rows, size = rows_of(shape), math.prod(shape) * np.dtype(dtype).itemsize
        parts = min(len(holders), rows, -(-size // split))
        if parts < 2:
            whole.append((size, name, rows, holders))
            continue
        lightest = sorted(sorted(holders, key=lambda rank: (loads[rank], rank))[:parts])
        for part, rank in enumerate(lightest):
            piece = Piece(name, part * rows // parts, (part + 1) * rows // parts)
            found[rank].append(piece)
            loads[rank] += size * (piece.end - piece.first) // rows
    for size, name, rows, holders in sorted(whole, key=lambda entry: (-entry[0], entry[1])):
        rank = min(holders, key=lambda rank: (loads[rank], rank))
        found[rank].append(Piece(name, 0, rows))
        loads[rank] += size
    return found


def holders_of(kinds: Sequence[Mapping[str, Kind]]) -> dict[str, tuple[Kind, list[int]]]:
    """Every tensor that a rank has, with the ranks that have it.

    Raises:
        CheckpointException: two ranks have tensors of other shapes or dtypes under one name.
    """
    found: dict[str, tuple[Kind, list[int]]] = {}
    for rank, own in enumerate(kinds):
        for name, kind in own.items():
            first, holders = found.setdefault(name, (kind, []))
            if first != kind:
                raise CheckpointException(
                    f"checkpoint.save: {name} is {first[0]} {first[1]} in rank {holders[0]} and {kind[0]} {kind[1]} in "
                    f"rank {rank}; a tensor that ranks have parts of needs a name of its own in each"
                )
            holders.append(rank)
    return found
