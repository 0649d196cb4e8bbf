"""Weights in their bits: integers of few values as codes of b bits, one after another.

The order is the same on every machine: of a weight (Co, Ci, *R), or (Ci, Co, *R) of a transposed convolution, the axis
of the Ci channels that are summed comes last, so that the codes of an output and a tap are together. The lowest bit of
a code comes first, and takes the lowest bit of a byte that is free. The last byte is filled up with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

__all__: list[str] = []


@dataclass(frozen=True)
class Uniform:
    """Integers low, low + stride, ..., high; the code is their number, from 0 on."""

    low: int
    high: int
    stride: int = 1

    @property
    def count(self) -> int:
        """How many values there are."""
        return (self.high - self.low) // self.stride + 1

    @property
    def bits(self) -> int:
        """Of a code."""
        return (self.count - 1).bit_length()

    @property
    def shifts(self) -> int:
        """Codes of a weight."""
        return 1

    def codes(self, integers: np.ndarray) -> np.ndarray:
        """(1, *shape) of integers (1, *shape)."""
        return ((integers - self.low) // self.stride).astype(np.uint32)

    def integers(self, codes: np.ndarray) -> np.ndarray:
        """(1, *shape) int64 of codes (1, *shape).

        Raises:
            ValueError: there is no such code.
        """
        if codes.size and int(codes.max()) >= self.count:
            raise ValueError(f"a code is {int(codes.max())}, the largest is {self.count - 1}")
        return self.low + self.stride * codes.astype(np.int64)


@dataclass(frozen=True)
class Shifts:
    """Sums of ``shifts`` numbers, each a power of two with a sign, or 0 if ``has_zero``.

    A code has the exponent in its lower ``bits - 1`` bits, counted from the smallest one, which is 0 here, and the sign
    in the highest: 1 is minus. If ``has_zero``, exponents count from 1, and 0 is the number 0.
    """

    bits: int
    shifts: int
    has_zero: bool

    def codes(self, terms: np.ndarray) -> np.ndarray:
        """(shifts, *shape) of integers (shifts, *shape), each 0 or a power of two with a sign."""
        size = np.abs(terms)
        exponents = np.log2(np.where(size > 0, size, 1)).astype(np.uint32) + np.uint32(self.has_zero)
        return np.where(size > 0, exponents, 0) | (np.uint32(terms < 0) << (self.bits - 1))

    def integers(self, codes: np.ndarray) -> np.ndarray:
        """(shifts, *shape) int64 of codes (shifts, *shape).

        Raises:
            ValueError: there is no such code: 0 has no sign.
        """
        exponents = (codes & ((1 << (self.bits - 1)) - 1)).astype(np.int64) - self.has_zero
        is_negative = codes >> (self.bits - 1) == 1
        if self.has_zero and (is_negative & (exponents < 0)).any():
            raise ValueError(f"a code is {1 << (self.bits - 1)}, a zero with a sign")
        size = np.where(exponents < 0, 0, np.int64(1) << exponents.clip(0))
        return np.where(is_negative, -size, size)


@dataclass(frozen=True)
class Listed:
    """Any numbers, at most ``count`` different ones in a filter; the code is the place in the filter's list."""

    count: int

    @property
    def bits(self) -> int:
        """Of a code."""
        return max(1, (self.count - 1).bit_length())

    @property
    def shifts(self) -> int:
        """Codes of a weight."""
        return 1

    def codes(self, places: np.ndarray) -> np.ndarray:
        """(1, *shape) of places (1, *shape)."""
        return places.astype(np.uint32)

    def integers(self, codes: np.ndarray) -> np.ndarray:
        """(1, *shape) int64 of codes (1, *shape): the places in the lists.

        Raises:
            ValueError: there is no such code.
        """
        if codes.size and int(codes.max()) >= self.count:
            raise ValueError(f"a code is {int(codes.max())}, the largest is {self.count - 1}")
        return codes.astype(np.int64)


Format = Uniform | Shifts | Listed


@dataclass(frozen=True, eq=False)
class Weight:
    """One weight of a packed layer: codes, and a step for each output channel.

    stream: uint8, the codes. shape: of the weight as the layer has it.
    summed: the axis summed over, 1, or 0 of a transposed convolution.
    step (Co,) or (1,): floating-point; what the integers of an output channel are multiplied by. Of ``Listed`` it is
        (Co, count) or (1, count): the numbers themselves.
    """

    format: Format
    stream: np.ndarray
    shape: tuple[int, ...]
    summed: int
    step: np.ndarray

    def integers(self) -> np.ndarray:
        """int64 in the shape of the weight: the weight is step times these, or has the numbers of these places.

        Raises:
            ValueError: a code is out of range.
        """
        shape, summed = self.shape, self.summed
        order = (self.format.shifts, *shape[:summed], *shape[summed + 1 :], shape[summed])
        codes = unpacked(self.stream, prod(order), self.format.bits).reshape(order)
        return np.moveaxis(self.format.integers(codes).sum(0), -1, summed)

    @property
    def nbytes(self) -> int:
        """Of codes and steps."""
        return self.stream.nbytes + self.step.nbytes


def stored(format: Format, parts: np.ndarray, summed: int, step: np.ndarray) -> Weight:
    """The weight whose integers are the sum of ``parts`` (format.shifts, *shape)."""
    codes = np.moveaxis(format.codes(parts), summed + 1, -1)
    return Weight(format, packed(codes, format.bits), parts.shape[1:], summed, step)


def bytes_of(format: Format, shape: tuple[int, ...]) -> int:
    """The length of the stream of a weight."""
    return -(-format.shifts * prod(shape) * format.bits // 8)


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """The stream, uint8, of codes in C order; bits: 1 to 16."""
    form = "u1" if bits <= 8 else "<u2"
    each = np.unpackbits(np.ascontiguousarray(codes, form).reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")
    return np.packbits(each[:, :bits], bitorder="little")


def unpacked(stream: np.ndarray, count: int, bits: int) -> np.ndarray:
    """(count,) codes, uint8 or uint16, of a stream."""
    filled = np.zeros((count, 8 if bits <= 8 else 16), np.uint8)
    filled[:, :bits] = np.unpackbits(stream, count=count * bits, bitorder="little").reshape(count, bits)
    codes = np.packbits(filled, axis=1, bitorder="little")
    return codes[:, 0] if bits <= 8 else codes.view("<u2")[:, 0].astype(np.uint16)
