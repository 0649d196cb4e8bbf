"""Numbers rounded to those of fewer bits, and the first parameters of quantizers."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["mean_absolute", "round_to_bfloat16", "round_to_grid", "shift_parameters"]


@ieee
def round_to_bfloat16(x: np.ndarray) -> np.ndarray:
    """The nearest numbers of 8 significant bits, of two the even one; infinities and NaN stay, as does x's type."""
    bits = x.astype(np.float32, order="K").view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, rounded.view(np.float32)).astype(x.dtype, copy=False)


@ieee
def round_to_grid(x: np.ndarray, bits: int) -> np.ndarray:
    """The nearest multiples of max |x| / (2**(bits - 1) - 1), of two the even one; x if that is 0 or not finite."""
    step = np.abs(x).max(initial=0) / x.dtype.type(2 ** (bits - 1) - 1)
    return np.asarray(np.rint(x / step) * step, like=x) if 0 < step < np.inf else x.copy()


@ieee
def mean_absolute(x: np.ndarray) -> np.ndarray:
    """The mean of |x| over all elements, in float64; NaN over no elements."""
    return np.asarray(np.abs(x).mean(dtype=np.float64) if x.size else np.nan, like=x)


@ieee
def shift_parameters(x: np.ndarray, shifts: int, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """The shift and the sign from which DeepShiftPS starts, so that the sum of sign 2**shift is near to x.

    The result has the shape of x, with a first axis of ``shifts`` if that is not 1, and its type. The shift is log2 of
    what the shifts before leave, from ``low`` to ``high``; the sign is 1 or -1, or half of it where the term is 0.
    """
    exponents, signs, rest = [], [], x
    for _ in range(shifts):
        size = np.abs(rest)
        exponent = np.log2(np.where(size == 0, 1, size))
        is_zero = (size == 0) | (np.rint(exponent) < low)
        exponent = np.where(size == 0, low, exponent).clip(low, high)
        # the sign of what is too small starts just where it is rounded to 0
        sign = np.where(rest < 0, -1.0, 1.0) * np.where(is_zero, 0.5, 1.0)
        rest = rest - np.exp2(np.rint(exponent)) * np.sign(np.rint(sign))
        exponents.append(exponent)
        signs.append(sign)
    found = [np.asarray(parts[0] if shifts == 1 else np.stack(parts), x.dtype, like=x) for parts in (exponents, signs)]
    return found[0], found[1]
