# mypy: ignore-errors
"""Copying weights into the order that the micro-kernel reads; see packing.py."""

from __future__ import annotations

from ..machine.compiler import Array, Table, helper
from ..machine.simd import full, lanes, load, load_first, offset, store, transpose


@helper
def pack_block(w, source, depth_step, column_step, depth, count, packed, target, width):  # type: ignore[no-untyped-def]
    """``packed[target + k*width + j] = w[source + k*depth_step + j*column_step]``, zeros for j from ``count`` on."""
    if count < width:
        zero = full(packed, 0.0)
        for i in range(0, depth * width, lanes(packed)):
            store(packed, target + i, zero)
    if column_step == 1:
        for _ in range(depth):
            for j in range(0, count, lanes(packed)):
                if count - j >= lanes(packed):
                    store(packed, target + j, load(w, source + j))
                else:
                    store(packed, target + j, load_first(w, source + j, count - j))
            source += depth_step
            target += width
        return
    whole_k, whole_j = 0, 0
    if depth_step == 1:
        whole_k, whole_j = depth // lanes(packed) * lanes(packed), count // lanes(packed) * lanes(packed)
        for k in range(0, whole_k, lanes(packed)):
            for j in range(0, whole_j, lanes(packed)):
                transpose(
                    offset(w, source + j * column_step + k), column_step, offset(packed, target + k * width + j), width
                )
    for k in range(depth):
        for j in range(whole_j if k < whole_k else 0, count):
            packed[target + k * width + j] = w[source + j * column_step + k * depth_step]


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
) -> None:
    """One panel of the weights as the micro-kernel reads them: [tap][depth][width], padded with zeros.

    Steps are in elements; ``taps`` holds the offset of each tap, in the order of the phases.
    """
    group, panel = task // panels, task % panels
    origin = group * group_step + panel * width * column_step
    count = min(width, columns - panel * width)
    for tap in range(tap_count):
        pack_block(
            w,
            origin + taps[tap],
            depth_step,
            column_step,
            depth,
            count,
            packed,
            (task * tap_count + tap) * depth * width,
            width,
        )
