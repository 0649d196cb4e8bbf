"""The numbers of a case: random ones by a rule that any program can follow, all of which float32 holds.

Two bytes of SHAKE-256 of the text "case/input", the lower one first, are a number w from 0 to 65535. Entries follow the
order of C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import shake_256
from math import prod

import numpy as np

Shape = Sequence[int]


@dataclass(frozen=True)
class Uniform:
    """low + (high - low) (2 w + 1) / 2^17 for each entry."""

    shape: Shape
    low: float = -2.0
    high: float = 2.0

    def drawn(self, text: str) -> np.ndarray:
        fractions = (2.0 * _words(text, prod(self.shape)) + 1) / 2**17
        return (self.low + (self.high - self.low) * fractions).reshape(self.shape)


@dataclass(frozen=True)
class Apart:
    """Entries of which no two are equal or near, and none is near 0: maxima and kinks are not in doubt.

    Of n entries, the one whose w has the rank r from 0 on, the earlier first of equal ones, is (2 r + 3/2 - n) s, where
    s is the power of two with n s from 2 on and below 4.
    """

    shape: Shape

    def drawn(self, text: str) -> np.ndarray:
        count = prod(self.shape)
        ranks = np.argsort(np.argsort(_words(text, count), kind="stable"), kind="stable")
        step = 2.0 ** (2 - count.bit_length())
        return ((2 * ranks + 1.5 - count) * step).reshape(self.shape)


@dataclass(frozen=True)
class Fixed:
    """Numbers to which no gradient is asked for, such as a running mean."""

    numbers: Uniform | Apart

    def drawn(self, text: str) -> np.ndarray:
        return self.numbers.drawn(text)


@dataclass(frozen=True, eq=False)
class Given:
    """An array that is written out: indices, lengths, masks, limits. No gradient is asked for."""

    array: np.ndarray

    def drawn(self, text: str) -> np.ndarray:
        return self.array


def whole(*values: int) -> Given:
    """Whole numbers in int64."""
    return Given(np.array(values, np.int64))


def _words(text: str, count: int) -> np.ndarray:
    return np.frombuffer(shake_256(text.encode()).digest(2 * count), "<u2").astype(np.int64)
