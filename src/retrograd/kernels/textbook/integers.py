"""Bits, divisors and powers of integers. Operands broadcast and have one type, which the result has; it wraps."""

from __future__ import annotations

import numpy as np

__all__ = [
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "gcd",
    "integer_powers",
    "lcm",
]


def bitwise_and(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The bits that both have; of truth values: both."""
    return np.asarray(np.bitwise_and(x, y), like=x)


def bitwise_or(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The bits that at least one has; of truth values: at least one."""
    return np.asarray(np.bitwise_or(x, y), like=x)


def bitwise_xor(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The bits that exactly one has; of truth values: exactly one."""
    return np.asarray(np.bitwise_xor(x, y), like=x)


def bitwise_not(x: np.ndarray) -> np.ndarray:
    """The inverted bits: -x - 1 for signed integers, not x for truth values."""
    return np.asarray(np.invert(x), like=x)


def bitwise_left_shift(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x 2**y, without the bits beyond the type"""
    return np.asarray(np.left_shift(x, y), like=x)


def bitwise_right_shift(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / 2**y, rounded down"""
    return np.asarray(np.right_shift(x, y), like=x)


def gcd(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The greatest common divisor, at least 0."""
    return np.asarray(np.gcd(x, y), like=x)


def lcm(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The least common multiple, at least 0."""
    return np.asarray(np.lcm(x, y), like=x)


def integer_powers(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x**y, truncated for y < 0: then 1 or -1 for x = 1 and x = -1, and 0 for all other x"""
    powers = np.power(x, np.maximum(y, 0))
    odd = np.where(y & 1, x, 1)  # of 1 and -1
    return np.where(y < 0, np.where(np.abs(x) == 1, odd, 0), powers)
