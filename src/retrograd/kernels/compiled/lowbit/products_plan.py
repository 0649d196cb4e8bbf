"""Plans that divide products of low-bit operands into tasks: integers only, made once per shape.

The walk over pixels, phases and taps is that of ``convolution/gather_plan.py``. What is added is the border: pixels
whose taps are not all inside the input start from another row of numbers, see products.py. Along an axis the first
``low`` positions and those from ``high`` on each have a class of their own, all between share one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ..convolution.gather_plan import PHASE, WALK, Phase, phases
from ..convolution.plan import Axis
from ..machine.integer import BYTES, WORD, integer_micro, integer_tile
from ..machine.microkernel import ROW_SLOTS
from ..machine.product import MOST_TASKS, TASK_WORK, even_product
from ..machine.record import record

PRODUCTS = record(
    walk=WALK.words,
    depth=1,
    columns=1,  # of a group: words read at a position, channels written
    width=1,
    panels=1,  # columns of a panel; panels of a group
    panel_step=1,
    group_step=1,  # bytes of the filters from panel to panel, and from group to group
    start_group=1,
    start_row=1,  # numbers from group to group in a row that sums start from, and from row to row
    target_row=1,
    step=1,  # of the tensor written: bytes of a pixel, bits of a channel
    scale=1,
    bias=1,  # bytes of a number of each; 0: the same for all channels
    in_tile=1,  # 1: the sums become bits outside of the micro-kernel
    tasks=1,
    phases=0,  # each followed by its BORDER, and then the tasks
)
BORDER = record(low=3, high=3, classes=3, first=1)  # the first class among all phases
TASK = record(phase=1, border=1, part_first=1, part_last=1, tile_first=1, tile_last=1)

_NEAR = 256 << 10  # bytes of filters that stay in L2 while pixels stream by


@dataclass(frozen=True, slots=True)
class Products:
    """A plan of products."""

    words: np.ndarray
    tasks: int
    scratch: int  # words per thread
    taps: tuple[int, ...]  # of the filters, in the order of the phases
    inside: np.ndarray  # (classes, taps) float64: 1 where a tap is inside of the input for pixels of the class
    outside: np.ndarray  # likewise; the other taps are those of other phases


def products_plan(
    axes: list[Axis],
    transposed: bool,
    batch: int,
    groups: int,
    columns: int,
    element: str,
    words: int,
    source: Sequence[int],
    target: Sequence[int],
    target_row: int,
    result: str,
) -> Products:
    """``columns`` channels of a group are written, ``words`` are read; ``source`` and ``target``: strides N, D, H, W in
    bytes; ``target_row``: bytes of a pixel; ``result`` as in integer.py.
    """
    shape = integer_tile(columns)
    kernel, bits = [axis.kernel for axis in axes], result == "t"
    # whole vectors of bits need no other channel's byte, except behind the last channel
    in_tile = bits and (shape.lanes % 8 > 0 or (groups > 1 and columns % shape.lanes > 0))
    found, order, _ = phases(
        axes,
        transposed,
        batch,
        target,
        (kernel[1] * kernel[2], kernel[2], 1),
        lambda pixels: even_product("i" if in_tile else result, element, shape, pixels, of=integer_micro),
        most=2**62,
    )
    extents = [axis.output if transposed else axis.input for axis in axes]
    shared = in_tile and (columns % 8 if groups > 1 else shape.panels > 1 and shape.width % 8)
    parts, row = groups * shape.panels, len(order) * words * WORD
    pieces, tasks, start, classes = [], [], PRODUCTS.words, 0
    masks: list[tuple[np.ndarray, np.ndarray]] = []
    for phase in found:
        border, inside, outside = _border(phase, extents, classes, len(order))
        wanted = max(1, min(MOST_TASKS, phase.pixels * max(1, phase.taps) * words * columns * groups // TASK_WORK))
        near = -(-groups * row * shape.columns // _NEAR)
        part_cuts = 1 if shared else min(parts, max(near, -(-wanted // phase.tiles)))
        tile_cuts = min(phase.tiles, -(-wanted // part_cuts))
        for p, t in product(range(part_cuts), range(tile_cuts)):
            task = TASK.pack(
                phase=start,
                border=start + len(phase.words),
                part_first=p * parts // part_cuts,
                part_last=(p + 1) * parts // part_cuts,
                tile_first=t * phase.tiles // tile_cuts,
                tile_last=(t + 1) * phase.tiles // tile_cuts,
            )
            tasks.append(task)
        pieces += [phase.words, border]
        masks.append((inside, outside))
        start += len(phase.words) + len(border)
        classes += len(inside)
    number = 8 if result[0] == "d" else 4
    plan = PRODUCTS.pack(
        walk=WALK.pack(source=source, extent=extents, target=target[0]),
        depth=words,
        columns=columns,
        width=shape.width,
        panels=shape.panels,
        panel_step=row * shape.width,
        group_step=row * shape.columns,
        start_group=shape.columns,
        start_row=groups * shape.columns,
        target_row=target_row,
        step=1 if bits else 8 * BYTES[result[0]],
        scale=number,
        bias=0 if result in "bh" else number,
        in_tile=in_tile,
        tasks=start,
        phases=np.concatenate([*pieces, *tasks]) if tasks else (),
    )
    longest = max([1, *(phase.taps for phase in found)])
    scratch = (8 + longest) * ROW_SLOTS + ROW_SLOTS * shape.width * WORD // 8 + 16  # to align it, and to read past it
    both = (np.concatenate(each) for each in zip(*masks, strict=True)) if masks else (np.zeros((0, 0)),) * 2
    return Products(plan, len(tasks), scratch, tuple(order), *both)


def _border(phase: Phase, extents: list[int], first: int, taps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The BORDER of a phase, and which of all taps are inside and outside of the input, for each of its classes."""
    words, lows, highs, each = phase.words, [], [], []
    moves = PHASE.moves
    for axis, extent in enumerate(extents):
        positions, step = int(words[PHASE.positions + axis]), int(words[PHASE.source_step + axis])
        count = int(words[PHASE.taps + axis])
        reads = words[moves : moves + count]
        moves += count
        low, high = 0, positions
        if count:
            low = min(positions, max(0, -(int(reads.min()) // step)))
            high = max(0, min(positions, -(-(extent - int(reads.max())) // step)))
        if high < low:  # nowhere are all taps inside
            low = high = positions
        one_of_each = [*range(low), *([low] if low < high else []), *range(high, positions)]
        reads = reads + step * np.array(one_of_each)[:, np.newaxis]
        lows.append(low)
        highs.append(high)
        each.append((reads >= 0) & (reads < extent))
    inside = np.einsum("ad,be,cf->abcdef", *(one.astype(np.float64) for one in each))
    classes = [len(one) for one in each]
    begin = int(words[PHASE.first_tap])
    rows, others = np.zeros((2, int(np.prod(classes)), taps))
    rows[:, begin : begin + phase.taps] = inside.reshape(len(rows), phase.taps)
    others[:, begin : begin + phase.taps] = 1 - rows[:, begin : begin + phase.taps]
    return BORDER.pack(low=lows, high=highs, classes=classes, first=first), rows, others
