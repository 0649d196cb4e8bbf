# mypy: ignore-errors
"""Copying weights into the order that the micro-kernel reads; see packing.py."""

from __future__ import annotations

from ..machine.compiler import Array, Table, helper
from ..machine.microkernel import registers
from ..machine.simd import (
    ahead_by,
    any_lane,
    fma,
    full,
    interleave_first,
    lanes,
    load,
    load_first,
    offset,
    store,
    transpose,
    transpose_padded,
)

_soon = ahead_by(256)  # lines of a transposed matrix: more rows are read at a time than the CPU prefetches
# rows of a matrix in C order: their pieces for a narrow panel are too short for the CPU to prefetch them
_piece_soon, _ROWS_AHEAD = ahead_by(0), 16 if registers() == 16 else 0
_WHOLE = registers() == 16
_PADDED = 4  # lines of a square of registers from which transposing all of it is faster than element by element


@helper
def is_finite(x, count):  # type: ignore[no-untyped-def]
    """Whether none of ``count`` contiguous elements is infinite or NaN."""
    L, s = lanes(x), full(x, 0.0)
    t, u, v, i = s, s, s, 0
    while i + 4 * L <= count:
        s, t = fma(load(x, i), 0.0, s), fma(load(x, i + L), 0.0, t)
        u, v = fma(load(x, i + 2 * L), 0.0, u), fma(load(x, i + 3 * L), 0.0, v)
        i += 4 * L
    while i + L <= count:
        s = fma(load(x, i), 0.0, s)
        i += L
    if i < count:
        t = fma(load_first(x, i, count - i), 0.0, t)
    s = (s + t) + (u + v)
    return not any_lane(s != s)


@helper
def are_finite(x, rows, step, count):  # type: ignore[no-untyped-def]
    """Whether no element of some rows is infinite or NaN, each of ``count`` elements, ``step`` apart."""
    if step == count:
        return is_finite(x, rows * count)
    row = 0
    while row < rows and is_finite(offset(x, row * step), count):
        row += 1
    return row >= rows


@helper
def _pack_row(x, y, further):  # type: ignore[no-untyped-def]
    """Copy two vectors, and prefetch those ``further`` on."""
    L = lanes(x)
    _piece_soon(x, further)
    _piece_soon(x, further + 2 * L - 1)
    first, second = load(x, 0), load(x, L)
    store(y, 0, first)
    store(y, L, second)


@helper
def _pack_columns(w, source, depth_step, column_step, depth, count, packed, target, width):  # type: ignore[no-untyped-def]
    """As ``pack_block``, for columns that are not adjacent."""
    L, zero = lanes(packed), full(packed, 0.0)
    step = L if depth_step == 1 else 1
    for k in range(0, depth, step):
        terms = min(step, depth - k)
        for j in range(0, count, L):
            columns = min(L, count - j)
            x = offset(w, source + j * column_step + k * depth_step)
            y = offset(packed, target + k * width + j)
            if terms == L and columns == L:
                for i in range(L):
                    _soon(x, i * column_step)
                transpose(x, column_step, y, width)
            elif terms * columns >= _PADDED * L:
                transpose_padded(x, column_step, y, width, columns, terms)
            else:
                for i in range(terms):
                    if columns < L:
                        store(y, i * width, zero)
                    for column in range(columns):
                        y[i * width + column] = x[column * column_step + i * depth_step]


@helper
def pack_block(w, source, depth_step, column_step, depth, count, packed, target, width):  # type: ignore[no-untyped-def]
    """``packed[target + k*width + j] = w[source + k*depth_step + j*column_step]``, zeros for j from ``count`` on."""
    L, zero = lanes(packed), full(packed, 0.0)
    whole = (count + L - 1) // L * L
    if whole < width:
        at = target
        for _ in range(depth):
            for j in range(whole, width, L):
                store(packed, at + j, zero)
            at += width
    if column_step == 1:
        if _WHOLE and count == 2 * L:
            x, y, further = offset(w, source), offset(packed, target), _ROWS_AHEAD * depth_step
            for _ in range(depth // 4):
                for _ in range(4):
                    _pack_row(x, y, further)
                    x, y = offset(x, depth_step), offset(y, width)
            for _ in range(depth % 4):
                _pack_row(x, y, further)
                x, y = offset(x, depth_step), offset(y, width)
            return
        for _ in range(depth):
            for j in range(0, count, L):
                if _ROWS_AHEAD > 0:
                    _piece_soon(w, source + _ROWS_AHEAD * depth_step + j)
                if count - j >= L:
                    store(packed, target + j, load(w, source + j))
                else:
                    store(packed, target + j, load_first(w, source + j, count - j))
            source += depth_step
            target += width
        return
    turned = depth - depth % (2 * L) if _WHOLE and depth_step == 1 else 0
    for j in range(0, count - L + 1 if turned > 0 else 0, L):  # whole vectors along a few columns
        x, y = offset(w, source + j * column_step), offset(packed, target + j)
        for _ in range(0, turned, 2 * L):
            for i in range(L):
                _soon(x, i * column_step)
            transpose(x, column_step, y, width)
            transpose(offset(x, L), column_step, offset(y, L * width), width)
            x, y = offset(x, 2 * L), offset(y, 2 * L * width)
    for part in range(2):  # the other columns, then the other terms
        k, j, terms = (0, count - count % L, turned) if part == 0 else (turned, 0, depth - turned)
        begin = source + k * depth_step + j * column_step
        _pack_columns(w, begin, depth_step, column_step, terms, count - j, packed, target + k * width + j, width)


@helper
def _pack_pairs(w, source, depth_step, column_step, depth, count, packed, target, width):  # type: ignore[no-untyped-def]
    """``packed[target + k*width + 2*j + i] = w[source + (k + i)*depth_step + j*column_step]`` for even k and i < 2."""
    zero, whole = full(packed, 0.0), depth // 2 * 2
    for k in range(0, depth, 2):
        store(packed, target + k * width, zero)
        if column_step == 1 and k < whole:
            interleave_first(offset(w, source), depth_step, offset(packed, target + k * width), 2, count)
        else:
            for j in range(count):
                for i in range(min(2, depth - k)):
                    packed[target + k * width + 2 * j + i] = w[source + i * depth_step + j * column_step]
        source += 2 * depth_step


def pack(
    task: int,
    worker: int,
    w: Array,
    packed: Array,
    taps: Table,
    tap_count: int,
    depth: int,
    columns: int,
    width: int,
    depth_step: int,
    column_step: int,
    group_step: int,
    panels: int,
    paired: int,
    looked: int,
) -> None:
    """One panel of the weights as the micro-kernel reads them: [tap][depth][width], padded with zeros.

    Steps are in elements; ``taps`` holds the offset of each tap, in the order of the phases. ``looked``: where to write
    whether all are finite, or 0.
    """
    group, panel = task // panels, task % panels
    origin = group * group_step + panel * width * column_step
    count, finite, pairs = min(width, columns - panel * width), True, paired != 0 and panel == panels - 1
    for tap in range(tap_count):
        source, target = origin + taps[tap], (task * tap_count + tap) * depth * width
        if pairs:
            _pack_pairs(w, source, depth_step, column_step, depth, count, packed, target, width)
        else:
            pack_block(w, source, depth_step, column_step, depth, count, packed, target, width)
        if looked > 0:  # what was packed is in L1
            block = offset(packed, target)
            if pairs:
                finite = finite and are_finite(block, (depth + 1) // 2, 2 * width, lanes(packed))
            else:
                finite = finite and is_finite(block, depth * width)
    if looked > 0:
        packed[looked + task] = 0.0 if finite else float("nan")
