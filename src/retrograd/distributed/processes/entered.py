"""Descriptions of collectives, which the processes exchange before they enter one.

Ranks that call different collectives, or the same one with other shapes, would wait forever or read the wrong memory.
A row of fixed length tells them apart first.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self

import numpy as np

from ...engine.call_site import line_of, user_place

_CALL, _PLACE = 160, 96  # bytes of a row: the call, and the user's line


@dataclass(frozen=True)
class Entered:
    """The `number`-th collective of a group: its `call` with shapes and options, and the user's line."""

    number: int
    call: str
    place: str

    def __str__(self) -> str:
        return f"{self.call} (collective {self.number}, at {self.place})"

    def row(self) -> np.ndarray:
        """The row of bytes for the other ranks."""
        text = f"{self.number}\n{self.call}".encode()[:_CALL].ljust(_CALL, b"\0")
        return np.frombuffer(text + self.place.encode()[-_PLACE:].ljust(_PLACE, b"\0"), np.uint8)

    @classmethod
    def of_row(cls, row: np.ndarray) -> Self:
        number, _, call = _text(row[:_CALL]).partition("\n")
        return cls(int(number), call, _text(row[_CALL:]))


def enter(number: int, call: str) -> Entered:
    """The collective that the user's current line calls."""
    place = user_place()
    return Entered(number, call, f"{os.path.basename(place[0].co_filename)}:{line_of(place)}")


def all_equal(rows: np.ndarray) -> bool:
    """Whether the rows of all ranks are those of the same call."""
    calls = rows[:, :_CALL]
    return bool((calls == calls[0]).all())


def calls(rows: np.ndarray) -> list[str]:
    """The call of each rank."""
    return [Entered.of_row(row).call for row in rows]


def difference(rows: np.ndarray) -> str:
    """Describe each call with the ranks that make it."""
    groups: dict[str, list[int]] = {}
    for rank, row in enumerate(rows):
        groups.setdefault(f"{Entered.of_row(row)}", []).append(rank)
    return "; ".join(f"{ranks_text(ranks)} {call}" for call, ranks in groups.items())


def ranks_text(ranks: list[int]) -> str:
    """ "rank 3", "ranks 0, 2" or "ranks 0 to 5"."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"ranks {', '.join(map(str, ranks))}"


def _text(part: np.ndarray) -> str:
    return part.tobytes().rstrip(b"\0").decode(errors="replace")
