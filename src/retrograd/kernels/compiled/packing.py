"""Copying weights into the order in which the micro-kernel reads them; see ../packing.py."""

from __future__ import annotations

from ..simd import full, lanes, load, load_first, offset, store, transpose


def pack(
    task: int, worker: int, w: Array, packed: Array, taps: Table, tap_count: int, depth: int, columns: int,
    tile_columns: int,
    depth_step: int, column_step: int, group_step: int, panels: int,
) -> None:  # fmt: skip
    """One panel of the weights as the micro-kernel reads them: [tap][depth][tile_columns], filled up with zeros.

    Steps are in elements; ``taps`` holds the offset of each tap, in the order of the phases.
    """
    group, panel = task // panels, task % panels
    first = panel * tile_columns
    count = min(tile_columns, columns - first)
    origin = group * group_step + first * column_step
    zero = full(packed, 0.0)
    vectors = tile_columns // lanes(packed)
    for tap in range(tap_count):
        source = origin + taps[tap]
        target = (task * tap_count + tap) * depth * tile_columns
        if count < tile_columns:
            for i in range(0, depth * tile_columns, lanes(packed)):
                store(packed, target + i, zero)
        if column_step == 1:
            for _ in range(depth):
                for v in range(vectors):
                    left = count - v * lanes(packed)
                    if left >= lanes(packed):
                        store(packed, target + v * lanes(packed), load(w, source + v * lanes(packed)))
                    elif left > 0:
                        store(packed, target + v * lanes(packed), load_first(w, source + v * lanes(packed), left))
                source += depth_step
                target += tile_columns
        elif depth_step == 1:
            whole_k = depth // lanes(packed) * lanes(packed)
            whole_j = count // lanes(packed) * lanes(packed)
            for k in range(0, whole_k, lanes(packed)):
                for j in range(0, whole_j, lanes(packed)):
                    transpose(
                        offset(w, source + j * column_step + k), column_step,
                        offset(packed, target + k * tile_columns + j), tile_columns,
                    )  # fmt: skip
            for k in range(depth):
                start = whole_j if k < whole_k else 0
                for j in range(start, count):
                    packed[target + k * tile_columns + j] = w[source + j * column_step + k]
        else:
            for k in range(depth):
                for j in range(count):
                    packed[target + k * tile_columns + j] = w[source + j * column_step + k * depth_step]
