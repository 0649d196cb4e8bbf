"""The names of element types, as in PyTorch.

No other module of this package imports this one, because its names shadow Python's built-ins.
"""

from __future__ import annotations

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
float, double, half = float32, float64, float16
long, int, short, bool = int64, int32, int16, bool_
bfloat16 = Unavailable("bfloat16", "use retrograd.float32, or float16 for storage")
uint16, uint32, uint64 = (Unavailable(f"uint{n}", "use retrograd.int64") for n in (16, 32, 64))
_PAIRS = (
    "there are no complex numbers; store real and imaginary parts in a last axis of length 2, as retrograd.fft does"
)
complex32, complex64, complex128 = (Unavailable(f"complex{n}", _PAIRS) for n in (32, 64, 128))
chalf, cfloat, cdouble = complex32, complex64, complex128
