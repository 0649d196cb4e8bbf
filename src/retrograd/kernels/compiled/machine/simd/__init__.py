"""SIMD values for Numba: a machine vector is a value, so that a kernel reads like arithmetic.

``load(p, i)`` loads a register of elements from ``p[i]`` on; ``+ - * /``, comparisons, ``select``, ``fma`` and the
functions below work lane by lane; scalars are broadcast. The width follows the CPU (``target.vector_bytes``) and the
element type the pointer, so one source serves float32 and float64 on any CPU. This package imports Numba, so it is
imported only to compile a kernel.

``vector.py`` defines the types, ``codegen.py`` holds the LLVM instructions that the other files share.
"""

from .across_lanes import (
    all_lanes,
    any_lane,
    first_lane,
    largest,
    largest_of_each,
    last_lane,
    products,
    products_after,
    products_before,
    smallest,
    smallest_of_each,
    sums_after,
    sums_before,
    total,
    totals,
    transpose,
    transpose_first,
)
from .arithmetic import (
    absolute,
    by_lane,
    ceil,
    copy_sign,
    floor,
    fma,
    maximum,
    minimum,
    nearest,
    quotient,
    sqrt,
    truncate,
)
from .bits import bits_of, double, float_from_bits, rounded, shift_left, shift_right, widen
from .codegen import declare, first_lanes, masked_load, masked_store, splat, suffix
from .creation import counting, full, full_like, positions
from .denormals import with_denormals_as, without_denormals
from .interleave import deinterleave_first, interleave_first
from .masks import bits_of_mask, both, either, exceeds, opposite, select, within
from .memory import (
    address,
    ahead,
    ahead_by,
    buffer,
    lanes,
    load,
    load_first,
    load_first_mask,
    load_first_or,
    load_integers,
    load_mask,
    offset,
    pointer_like,
    store,
    store_bytes,
    store_first,
    store_first_mask,
    store_integers,
    store_shorts,
    until_aligned,
)
from .vector import I32, I64, Vector
from .wide import ONE, PART, WIDE, Access, folded, four_times, load_wide, wide_ahead
