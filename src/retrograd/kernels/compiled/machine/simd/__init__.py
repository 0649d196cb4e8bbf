"""SIMD values for Numba: a machine vector is a value, so that a kernel reads like arithmetic.

``load(p, i)`` loads a register of elements from ``p[i]`` on; ``+ - * /``, comparisons, ``select``, ``fma`` and the
functions below work lane by lane; scalars are broadcast. The width follows the CPU (``target.vector_bytes``) and the
element type the pointer, so one source serves float32 and float64 on any CPU. This package imports Numba, so it is
imported only to compile a kernel.

``vector.py`` defines the types and holds the LLVM instructions that the other files share.
"""

from .across_lanes import (
    all_lanes,
    any_lane,
    deinterleave_first,
    first_lane,
    interleave_first,
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
    bits_of,
    bits_of_mask,
    both,
    by_lane,
    ceil,
    copy_sign,
    double,
    either,
    exceeds,
    float_from_bits,
    floor,
    fma,
    maximum,
    minimum,
    nearest,
    opposite,
    quotient,
    rounded,
    select,
    shift_left,
    shift_right,
    sqrt,
    truncate,
    widen,
    with_denormals_as,
    within,
    without_denormals,
)
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
from .vector import (
    I32,
    I64,
    Vector,
    counting,
    declare,
    first_lanes,
    full,
    full_like,
    masked_load,
    masked_store,
    positions,
    splat,
    suffix,
)
from .wide_vector import ONE, PART, WIDE, Access, folded, four_times, load_wide, wide_ahead
