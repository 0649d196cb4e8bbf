"""Parameter records: the words of int64, with names, that a plan passes to a kernel.

The fields of a record are declared once, by name and length, here with 4 + 3 + 1 words followed by a list::

    GATHER = record(source=4, extent=3, size=1, taps=0)

``GATHER.pack(source=..., extent=..., ...)`` makes the array. ``GATHER.extent`` is the index at which a field begins: a
kernel reads ``plan[GATHER.extent + 1]``, a constant index. A last field of length 0 holds any number of words;
``GATHER.words`` counts those before it. A nested record is a field of its length.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np


class Record:
    """The indices of the fields; to Numba a named tuple of constants."""

    __slots__ = ()
    lengths: dict[str, int]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> int: ...

    def pack(self, **values: int | Sequence[int] | np.ndarray) -> np.ndarray:
        """The words of a record. A field of one word is a number, any other a sequence of its length.

        Raises:
            TypeError: a field is missing or unknown.
            ValueError: a field has another length.
        """
        if wrong := values.keys() ^ self.lengths.keys():
            raise TypeError(f"a record needs a value for each of its fields and no other: {', '.join(sorted(wrong))}")
        words: list[Any] = []
        for name, length in self.lengths.items():
            value: Any = values[name]
            if length == 1:
                words.append(value)
                continue
            if length and len(value) != length:
                raise ValueError(f"{name} has {len(value)} words, needs {length}")
            words += [*value]
        return np.array(words, np.int64)


def record(**lengths: int) -> Record:
    """A ``Record`` with fields of these lengths, one after the other.

    Raises:
        ValueError: a field before the last one has no length.
    """
    *before, _ = lengths.values()
    if 0 in before:
        raise ValueError(f"only the last field of a record may be of any length: {lengths}")
    places = [sum(before[:i]) for i in range(len(lengths))]
    fields = namedtuple("Fields", [*lengths, "words"])  # type: ignore[misc]  # mypy wants to read the names
    kind = type("Record", (Record, fields), {"__slots__": (), "lengths": lengths})
    found: Record = kind(*places, sum(lengths.values()))
    return found
