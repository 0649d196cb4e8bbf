"""Codes of floating-point numbers: their signs as bits, or small integers."""

from __future__ import annotations

import numpy as np

from ....specs.low_bit import code_dtype, codes_of
from ..machine.launch import kernel
from ..memory.arrays import CHUNK
from ..memory.channels_last import channels_last, memory_of

__all__ = ["quantize_codes", "sign_bits"]

_SIGNS, _QUANTIZE = kernel("lowbit.codes.signs"), kernel("lowbit.codes.quantize")


def sign_bits(x: np.ndarray, groups: int = 1) -> np.ndarray:
    x = channels_last(x)
    channels = x.shape[1] // groups
    words = codes_of("binary", channels)
    y = np.empty((*memory_of(x.shape)[:-1], groups * words), np.uint32, like=x)
    if y.size:
        rows, per_task = _rows(x, channels)
        _SIGNS[x.dtype.char](-(-rows // per_task), x, y.view(np.int32), rows, channels, words, per_task)
    return y


def quantize_codes(
    x: np.ndarray,
    scale: float,
    zero_point: int = 0,
    low: int = 0,
    high: int = 255,
    element: str = "int8",
    groups: int = 1,
) -> np.ndarray:
    x = channels_last(x)
    channels, dtype = x.shape[1] // groups, code_dtype(element, low)
    codes = codes_of(element, channels)
    y = np.zeros((*memory_of(x.shape)[:-1], groups * codes), dtype, like=x)
    if y.size:
        rows, per_task = _rows(x, channels)
        _QUANTIZE[x.dtype.char](
            -(-rows // per_task),
            x,
            y.view(np.uint8),
            rows,
            channels,
            codes,
            dtype.itemsize,
            scale,
            zero_point,
            low,
            high,
            per_task,
        )
    return y


def _rows(x: np.ndarray, channels: int) -> tuple[int, int]:
    """The groups of channels of all positions, and how many of them a task computes."""
    return x.size // channels, max(1, 2 * CHUNK // channels)
