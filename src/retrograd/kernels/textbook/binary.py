"""The binary form of floating-point numbers: mantissa and exponent, and neighbors."""

from __future__ import annotations

import numpy as np

__all__ = ["frexp", "ldexp", "nextafter"]


def frexp(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mantissa, with a size from 1/2 to 1, and the exponent (int32): x = mantissa 2**exponent"""
    mantissa, exponent = np.frexp(x)
    return np.asarray(mantissa, like=x), np.array(exponent, np.int32, like=x)


def ldexp(x: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """x 2**exponent for integers ``exponent``; both broadcast"""
    return np.asarray(np.ldexp(x, exponent), like=x)


def nextafter(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The next number after x towards y; both broadcast"""
    return np.asarray(np.nextafter(x, y), like=x)
