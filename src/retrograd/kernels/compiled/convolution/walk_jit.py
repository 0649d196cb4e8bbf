# mypy: ignore-errors
"""The pixels of a tile: what each of them reads and writes. The plan begins with a WALK, see gather_plan.py."""

from __future__ import annotations

from ..machine.compiler import helper
from ..machine.microkernel import ROW_SLOTS
from ..machine.simd import both, counting, full, lanes, load, select, store, within
from .gather_plan import PHASE, WALK


@helper
def read_and_written(source, target, plan, phase, position, count, scratch, coordinates, rows_of_c):  # type: ignore[no-untyped-def]
    """The read and write addresses of the ``count`` pixels from ``position`` on; returns the position after them.

    Read: the coordinates and the address for a tap at offset 0.
    """
    n, d, h, w = position
    extent_d, extent_h, extent_w = (
        plan[phase + PHASE.positions],
        plan[phase + PHASE.positions + 1],
        plan[phase + PHASE.positions + 2],
    )
    if w + count <= extent_w:  # one line: equally spaced pixels
        at_d, at_h = d * plan[phase + PHASE.source_step], h * plan[phase + PHASE.source_step + 1]
        line = source + n * plan[WALK.source] + at_d * plan[WALK.source + 1] + at_h * plan[WALK.source + 2]
        target += n * plan[WALK.target]
        target += d * plan[phase + PHASE.target_step] + h * plan[phase + PHASE.target_step + 1]
        for i in range(0, ROW_SLOTS, lanes(scratch)):
            at = counting(scratch) + (w + i)
            at_w = at * plan[phase + PHASE.source_step + 2]
            store(scratch, coordinates + i, full(scratch, at_d))
            store(scratch, coordinates + ROW_SLOTS + i, full(scratch, at_h))
            store(scratch, coordinates + 2 * ROW_SLOTS + i, at_w)
            store(scratch, coordinates + 3 * ROW_SLOTS + i, at_w * plan[WALK.source + 3] + line)
            store(scratch, rows_of_c + i, at * plan[phase + PHASE.target_step + 2] + target)
        w += count
        if w < extent_w:
            return n, d, h, w
        h += 1
        if h < extent_h:
            return n, d, h, 0
        d += 1
        if d < extent_d:
            return n, d, 0, 0
        return n + 1, 0, 0, 0
    for i in range(count):
        at_d = d * plan[phase + PHASE.source_step]
        at_h = h * plan[phase + PHASE.source_step + 1]
        at_w = w * plan[phase + PHASE.source_step + 2]
        scratch[coordinates + i] = at_d
        scratch[coordinates + ROW_SLOTS + i] = at_h
        scratch[coordinates + 2 * ROW_SLOTS + i] = at_w
        scratch[coordinates + 3 * ROW_SLOTS + i] = (
            source
            + n * plan[WALK.source]
            + at_d * plan[WALK.source + 1]
            + at_h * plan[WALK.source + 2]
            + at_w * plan[WALK.source + 3]
        )
        scratch[rows_of_c + i] = (
            target
            + n * plan[WALK.target]
            + d * plan[phase + PHASE.target_step]
            + h * plan[phase + PHASE.target_step + 1]
            + w * plan[phase + PHASE.target_step + 2]
        )
        w += 1
        if w == extent_w:
            w = 0
            h += 1
            if h == extent_h:
                h = 0
                d += 1
                if d == extent_d:
                    d = 0
                    n += 1
    return n, d, h, w


@helper
def entries_of_tile(plan, phase, scratch, coordinates, table, nothing, first, last):  # type: ignore[no-untyped-def]
    """The address table of a tile: per tap, the address that each pixel reads; the row of zeros for padding."""
    taps_d, taps_h, taps_w = plan[phase + PHASE.taps], plan[phase + PHASE.taps + 1], plan[phase + PHASE.taps + 2]
    moves_d = phase + PHASE.moves
    moves_h = moves_d + taps_d
    moves_w = moves_h + taps_h
    zero = full(scratch, nothing)
    for i in range(0, ROW_SLOTS, lanes(scratch)):
        at_d, at_h = load(scratch, coordinates + i), load(scratch, coordinates + ROW_SLOTS + i)
        at_w, line = load(scratch, coordinates + 2 * ROW_SLOTS + i), load(scratch, coordinates + 3 * ROW_SLOTS + i)
        a, b, c = 0, 0, 0
        if first > 0:  # divisions are slow
            a, b, c = first // (taps_w * taps_h), first // taps_w % taps_h, first % taps_w
        for tap in range(first, last):
            move_d, move_h, move_w = plan[moves_d + a], plan[moves_h + b], plan[moves_w + c]
            step = move_d * plan[WALK.source + 1] + move_h * plan[WALK.source + 2] + move_w * plan[WALK.source + 3]
            inside_d = within(at_d + move_d, plan[WALK.extent])
            inside_h = within(at_h + move_h, plan[WALK.extent + 1])
            inside_w = within(at_w + move_w, plan[WALK.extent + 2])
            at = table + (tap - first) * ROW_SLOTS + i
            store(scratch, at, select(both(both(inside_d, inside_h), inside_w), line + step, zero))
            c += 1
            if c == taps_w:
                c = 0
                b += 1
                if b == taps_h:
                    b = 0
                    a += 1


@helper
def position_of(plan, phase, pixel):  # type: ignore[no-untyped-def]
    """The coordinates (n, d, h, w) of a pixel of the phase."""
    w = pixel % plan[phase + PHASE.positions + 2]
    rest = pixel // plan[phase + PHASE.positions + 2]
    h = rest % plan[phase + PHASE.positions + 1]
    rest //= plan[phase + PHASE.positions + 1]
    return rest // plan[phase + PHASE.positions], rest % plan[phase + PHASE.positions], h, w
