"""The names of element types, as in PyTorch.

No other module of this package imports this one, because its names shadow Python's built-ins.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .dtype import Unavailable, bool_, float16, float32, float64, int8, int16, int32, int64, uint8

__all__ = [
    "bfloat16",
    "bool",
    "cdouble",
    "cfloat",
    "chalf",
    "complex32",
    "complex64",
    "complex128",
    "double",
    "dtype",
    "float",
    "float16",
    "float32",
    "float64",
    "half",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "long",
    "short",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

dtype = np.dtype
float: Final = float32
double: Final = float64
half: Final = float16
long: Final = int64
int: Final = int32
short: Final = int16
bool: Final = bool_
_WIDER = "use retrograd.int64"
bfloat16: Final = Unavailable("bfloat16", "use retrograd.float32, or float16 for storage")
uint16: Final = Unavailable("uint16", _WIDER)
uint32: Final = Unavailable("uint32", _WIDER)
uint64: Final = Unavailable("uint64", _WIDER)
_PAIRS = (
    "there are no complex numbers; store real and imaginary parts in a last axis of length 2, as retrograd.fft does"
)
complex32: Final = Unavailable("complex32", _PAIRS)
complex64: Final = Unavailable("complex64", _PAIRS)
complex128: Final = Unavailable("complex128", _PAIRS)
chalf: Final = complex32
cfloat: Final = complex64
cdouble: Final = complex128
