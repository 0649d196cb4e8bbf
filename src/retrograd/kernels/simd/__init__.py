"""SIMD values for Numba: a machine vector is a value, so that a kernel reads like arithmetic.

``load(p, i)`` takes as many elements from ``p[i]`` on as one register holds; ``+ - * /``, comparisons, ``select``,
``fma`` and the functions below work lane by lane; scalars are broadcast. The width follows the CPU
(``target.vector_bytes``) and the element type follows the pointer, so one text serves float32 and float64 on any CPU.
This package imports Numba: only code that is about to compile a kernel imports it.

``vector.py`` says what such a value is, ``codegen.py`` holds the LLVM instructions that the other files share.
"""

from .across_lanes import (
    all_lanes,
    any_lane,
    first_lane,
    largest,
    last_lane,
    product,
    products_before,
    products_behind,
    smallest,
    sums_before,
    sums_behind,
    total,
    transpose,
    transpose_first,
)
from .arithmetic import absolute, copy_sign, fma, maximum, minimum, sqrt
from .bits import bits_of, float_from_bits, shift_left, shift_right, widen
from .codegen import declare, first_lanes, masked_load, masked_store, splat, suffix
from .creation import counting, full, full_like
from .interleave import deinterleave_first, interleave_first
from .masks import both, either, exceeds, select, within
from .memory import (
    address,
    ahead,
    ahead_by,
    buffer,
    lanes,
    load,
    load_first,
    load_first_or,
    load_integers,
    offset,
    pointer_like,
    store,
    store_first,
    store_integers,
    until_aligned,
)
from .vector import I32, I64, Vector

__all__ = [
    "I32",
    "I64",
    "Vector",
    "absolute",
    "address",
    "ahead",
    "ahead_by",
    "all_lanes",
    "any_lane",
    "bits_of",
    "both",
    "buffer",
    "copy_sign",
    "counting",
    "declare",
    "deinterleave_first",
    "either",
    "exceeds",
    "first_lane",
    "first_lanes",
    "float_from_bits",
    "fma",
    "full",
    "full_like",
    "interleave_first",
    "lanes",
    "largest",
    "last_lane",
    "load",
    "load_first",
    "load_first_or",
    "load_integers",
    "masked_load",
    "masked_store",
    "maximum",
    "minimum",
    "offset",
    "pointer_like",
    "product",
    "products_before",
    "products_behind",
    "select",
    "shift_left",
    "shift_right",
    "smallest",
    "splat",
    "sqrt",
    "store",
    "store_first",
    "store_integers",
    "suffix",
    "sums_before",
    "sums_behind",
    "total",
    "transpose",
    "transpose_first",
    "until_aligned",
    "widen",
    "within",
]
