"""Bit packing of weights: integers with few distinct values, stored as a stream of b-bit codes.

The order is the same on every machine. In a weight (Co, Ci, *R), or (Ci, Co, *R) of a transposed convolution, the axis
of the Ci channels that are summed is moved last, so that the codes of one output channel and one tap are adjacent. Bits
are packed least significant first, into the lowest free bit of each byte. The last byte is padded with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ..arrays import any_true, from_host, moveaxis, number
from ..kernel_set import exact, kernels

__all__: list[str] = []


@dataclass(frozen=True)
class Uniform:
    """Integers low, low + stride, ..., high; the code is the index, from 0."""

    low: int
    high: int
    stride: int = 1

    @property
    def count(self) -> int:
        """The number of values."""
        return (self.high - self.low) // self.stride + 1

    @property
    def bits(self) -> int:
        """The number of bits of a code."""
        return (self.count - 1).bit_length()

    @property
    def shifts(self) -> int:
        """The number of codes per weight."""
        return 1

    def codes(self, integers: np.ndarray) -> np.ndarray:
        """Return the codes (1, *shape) of integers (1, *shape)."""
        found: np.ndarray = kernels.uniform_codes(integers, self.low, self.stride)
        return found

    def integers(self, codes: np.ndarray) -> np.ndarray:
        """Return the integers (1, *shape), int64, of codes (1, *shape).

        Raises:
            ValueError: a code is out of range.
        """
        _check(codes, self.count)
        found: np.ndarray = kernels.uniform_values(codes, self.low, self.stride)
        return found


@dataclass(frozen=True)
class Shifts:
    """Sums of ``shifts`` numbers, each a signed power of two, or 0 if ``has_zero``.

    The lower ``bits - 1`` bits of a code store the exponent, where 0 stands for the smallest exponent. The highest bit
    is the sign: 1 is minus. If ``has_zero``, 1 stands for the smallest exponent, and the code 0 for the number 0.
    """

    bits: int
    shifts: int
    has_zero: bool

    def codes(self, terms: np.ndarray) -> np.ndarray:
        """Return the codes (shifts, *shape) of integers (shifts, *shape), each 0 or a power of two with a sign."""
        found: np.ndarray = kernels.shift_codes(terms, self.bits, self.has_zero)
        return found

    def integers(self, codes: np.ndarray) -> np.ndarray:
        """Return the integers (shifts, *shape), int64, of codes (shifts, *shape).

        Raises:
            ValueError: a code is a zero with a sign bit.
        """
        signed_zero = 1 << (self.bits - 1)
        if self.has_zero:
            is_one = exact("eq")(codes, from_host(signed_zero, codes.dtype))
            if any_true(is_one, "whether a code is a zero with a sign"):
                raise ValueError(f"a code is {signed_zero}, a zero with a sign")
        found: np.ndarray = kernels.shift_values(codes, self.bits, self.has_zero)
        return found


@dataclass(frozen=True)
class Listed:
    """Arbitrary numbers, at most ``count`` distinct ones in a filter; the code is an index into the filter's list."""

    count: int

    @property
    def bits(self) -> int:
        """The number of bits of a code."""
        return max(1, (self.count - 1).bit_length())

    @property
    def shifts(self) -> int:
        """The number of codes per weight."""
        return 1

    def codes(self, places: np.ndarray) -> np.ndarray:
        """Return the codes (1, *shape) of list indices (1, *shape)."""
        found: np.ndarray = exact("cast")(places, np.dtype(np.uint32))
        return found

    def integers(self, codes: np.ndarray) -> np.ndarray:
        """Return the list indices (1, *shape), int64, of codes (1, *shape).

        Raises:
            ValueError: a code is out of range.
        """
        _check(codes, self.count)
        found: np.ndarray = exact("cast")(codes, np.dtype(np.int64))
        return found


Format = Uniform | Shifts | Listed


def _check(codes: np.ndarray, count: int) -> None:
    if codes.size:
        largest = number(exact("amax")(codes, tuple(range(codes.ndim)), False), "whether codes are in range")
        if largest >= count:
            raise ValueError(f"a code is {largest}, the largest is {count - 1}")


@dataclass(frozen=True, eq=False)
class Weight:
    """One weight of a packed layer: codes, and a step for each output channel.

    stream: uint8, the codes. shape: the shape of the layer's weight.
    summed: the axis that the layer sums over: 1, or 0 in a transposed convolution.
    step (Co,) or (1,): floating-point; the multiplier of the integers of an output channel. For ``Listed`` it is
        (Co, count) or (1, count): the numbers themselves.
    """

    format: Format
    stream: np.ndarray
    shape: tuple[int, ...]
    summed: int
    step: np.ndarray

    def integers(self) -> np.ndarray:
        """int64 in the shape of the weight: the integers that step multiplies, or the indices into the lists.

        Raises:
            ValueError: a code is out of range.
        """
        shape, summed = self.shape, self.summed
        order = (self.format.shifts, *shape[:summed], *shape[summed + 1 :], shape[summed])
        codes = unpacked(self.stream, prod(order), self.format.bits).reshape(order)
        return moveaxis(exact("sum")(self.format.integers(codes), (0,), False), -1, summed)

    @property
    def nbytes(self) -> int:
        """The number of bytes of codes and steps."""
        return self.stream.nbytes + self.step.nbytes


def stored(format: Format, parts: np.ndarray, summed: int, step: np.ndarray) -> Weight:
    """Pack the weight whose integers are the sum of ``parts`` (format.shifts, *shape)."""
    codes = moveaxis(format.codes(parts), summed + 1, -1)
    return Weight(format, packed(codes, format.bits), parts.shape[1:], summed, step)


def bytes_of(format: Format, shape: tuple[int, ...]) -> int:
    """Return the length of a weight's stream in bytes."""
    return -(-format.shifts * prod(shape) * format.bits // 8)


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Pack codes in C order into a stream, uint8; bits: 1 to 16."""
    found: np.ndarray = kernels.pack_bits(codes, bits)
    return found


def unpacked(stream: np.ndarray, count: int, bits: int) -> np.ndarray:
    """Unpack (count,) codes, uint8 or uint16, from a stream."""
    found: np.ndarray = kernels.unpack_bits(stream, count, bits)
    return found
