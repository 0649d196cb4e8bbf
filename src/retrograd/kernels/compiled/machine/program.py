"""Programs: launches that run again and again, those next to each other by one call of machine code."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import chain
from math import isfinite
from operator import index
from typing import Any

import numpy as np

from .launch import natives, pool

Call = tuple[Callable[..., Any], tuple[Any, ...], np.ndarray | None]
_MOST = 64  # launches that one call runs; between two calls, Python handles signals such as Ctrl-C
_HEADER, _LAUNCH = 4, 3  # words of the program, and of each launch; see threads_jit.py


class Program:
    """Calls in their order: function, arguments, and None or an array of one number, which skips it if it is finite.

    Where calls that launch kernels follow each other, their arguments are packed now, into the records that the kernels
    read, and one call of machine code runs them. From Python, each launch would take 0.3 to 0.6 us longer.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = [*calls]
        self._runs: list[Call] = []
        self._records: dict[int, tuple[np.ndarray, int]] = {}  # by the place of a call: its words, where they begin
        self._places: dict[int, int] = {}  # of the other calls among the runs, by the place of a call
        begin = 0
        while begin < len(self.calls):
            records = self._packed_from(begin)
            if len(records) > 1:
                self._join(begin, records)
            else:
                self._places[begin] = len(self._runs)
                self._runs.append(self.calls[begin])
            begin += max(1, len(records))

    def run(self) -> None:
        """Run all calls."""
        for function, arguments, check in self._runs:
            if check is None or not isfinite(check.item()):
                function(*arguments)

    def replace(self, place: int, argument: int, array: np.ndarray) -> None:
        """Replace an array among the arguments of a call by one of the same layout."""
        function, arguments, check = self.calls[place]
        self.calls[place] = call = function, (*arguments[:argument], array, *arguments[argument + 1 :]), check
        if place in self._records:
            words, begin = self._records[place]
            words[begin + argument - 1] = array.ctypes.data
        else:
            self._runs[self._places[place]] = call

    def _packed_from(self, begin: int) -> list[list[int]]:
        """The records of the launches from a place on, at most ``_MOST``."""
        found: list[list[int]] = []
        for function, arguments, check in self.calls[begin : begin + _MOST]:
            record = None if check is not None else _record(function, arguments)
            if record is None:
                break
            found.append(record)
        return found

    def _join(self, begin: int, records: list[list[int]]) -> None:
        first = _HEADER + _LAUNCH * len(records)
        words = np.zeros(first + sum(map(len, records)), np.int64)
        words[first:] = [*chain.from_iterable(records)]
        words[:_HEADER] = pool.address, id(_START), id(None), len(records)
        address = words.ctypes.data
        for at, record in enumerate(records):
            function, (tasks, *_), _ = self.calls[begin + at]
            own = _HEADER + _LAUNCH * at
            words[own : own + _LAUNCH] = natives[function].entry, tasks, address + words.itemsize * first
            self._records[begin + at] = words, first
            first += len(record)
        self._runs.append((pool.replay, (words,), None))


_START = pool.start  # one object, whose address programs hold


def _record(function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[int] | None:
    """The parameter record of a launch; None for another function."""
    native = natives.get(function)
    if native is None or len(arguments) != len(native.kinds) + 1:
        return None
    words: list[int] = []
    for kind, value in zip(native.kinds, arguments[1:], strict=True):
        if kind == "int":
            words.append(index(value))
        elif kind == "float":
            words += struct.unpack("q", struct.pack("d", value))
        elif type(value) is np.ndarray:
            words.append(value.ctypes.data)
        else:
            return None
    return words
