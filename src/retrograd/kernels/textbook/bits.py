"""Codes of a few bits: packed into a stream of bytes, and the integers that they stand for.

The lowest bit of a code comes first, and takes the lowest bit of a byte that is free. The last byte is filled up with
zeros.
"""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = [
    "distinct_numbers",
    "integer_levels",
    "pack_bits",
    "scaled_integers",
    "shift_codes",
    "shift_values",
    "trailing_zeros",
    "uniform_codes",
    "uniform_values",
    "unpack_bits",
]


def pack_bits(codes: np.ndarray, bits: int) -> np.ndarray:
    """The stream, uint8, of n codes in C order, in n bits / 8 bytes, rounded up; bits: 1 to 16."""
    form = "u1" if bits <= 8 else "<u2"
    whole = np.ascontiguousarray(codes, form, like=codes).reshape(-1, 1)
    each = np.unpackbits(whole.view(np.uint8), axis=1, bitorder="little")
    return np.packbits(each[:, :bits], bitorder="little")


def unpack_bits(stream: np.ndarray, count: int, bits: int) -> np.ndarray:
    """The (count,) codes of a stream: uint8, or uint16 for more than 8 bits."""
    filled = np.zeros((count, 8 if bits <= 8 else 16), np.uint8, like=stream)
    filled[:, :bits] = np.unpackbits(stream, count=count * bits, bitorder="little").reshape(count, bits)
    codes = np.packbits(filled, axis=1, bitorder="little")
    return codes[:, 0] if bits <= 8 else codes.view("<u2")[:, 0].astype(np.uint16)


def uniform_codes(integers: np.ndarray, low: int, stride: int) -> np.ndarray:
    """(integers - low) / stride as uint32"""
    return ((integers - low) // stride).astype(np.uint32)


def uniform_values(codes: np.ndarray, low: int, stride: int) -> np.ndarray:
    """low + stride codes as int64"""
    return np.asarray(low + stride * codes.astype(np.int64), like=codes)


def shift_codes(terms: np.ndarray, bits: int, has_zero: bool) -> np.ndarray:
    """uint32 codes of integers that are powers of two with a sign, or 0 if ``has_zero``.

    The exponent is in the lower ``bits - 1`` bits, from 1 on if ``has_zero``, and the sign in the highest: 1 is minus.
    """
    size = np.abs(terms)
    exponents = np.log2(np.where(size > 0, size, 1)).astype(np.uint32) + np.uint32(has_zero)
    return np.where(size > 0, exponents, 0) | ((terms < 0).astype(np.uint32) << (bits - 1))


def shift_values(codes: np.ndarray, bits: int, has_zero: bool) -> np.ndarray:
    """The int64 integers of ``shift_codes``."""
    exponents = (codes & ((1 << (bits - 1)) - 1)).astype(np.int64) - has_zero
    size = np.where(exponents < 0, 0, np.int64(1) << exponents.clip(0))
    return np.where(codes >> (bits - 1) == 1, -size, size)


def trailing_zeros(filters: np.ndarray) -> np.ndarray:
    """(Co,) int64: how many binary zeros all integers of a row of (Co, n) end with; 0 for a row of zeros."""
    used = np.bitwise_or.reduce(np.abs(filters), axis=1)
    return np.where(used > 0, np.log2(np.maximum(used & -used, 1)), 0).astype(np.int64)


@ieee
def integer_levels(x: np.ndarray, step: np.ndarray, high: int) -> np.ndarray:
    """The int64 integers next to x / step, and ``high`` where the step is 0."""
    whole = step.astype(np.float64)
    ratio = np.where(whole > 0, x / np.where(whole > 0, whole, 1), high)
    return np.rint(ratio).astype(np.int64)


@ieee
def scaled_integers(integers: np.ndarray, step: np.ndarray) -> np.ndarray:
    """integers times step, multiplied in float64, in the type of step"""
    return np.asarray(integers * step.astype(np.float64), like=integers).astype(step.dtype)


def distinct_numbers(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The different numbers of each row of x (R, n), told apart by their bits, so that 0 and -0 are two.

    Returns them, (R, most), in the order of their bits as integers, with zeros behind the shorter rows; how many each
    row has, (R,) int64; and the place of each element in the list of its row, (R, n) int64.
    """
    bits = np.ascontiguousarray(x, like=x).view(f"u{x.itemsize}")
    found = [np.unique(row, return_inverse=True) for row in bits]
    counts = np.array([len(numbers) for numbers, _ in found], np.int64, like=x)
    lists = np.zeros((len(found), max(counts, default=0)), bits.dtype, like=x)
    places = np.empty(x.shape, np.int64, like=x)
    for row, line, (numbers, inverse) in zip(lists, places, found, strict=True):
        row[: len(numbers)], line[:] = numbers, inverse.reshape(-1)
    return lists.view(x.dtype), counts, places
