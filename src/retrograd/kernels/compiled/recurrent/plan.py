"""The plans of a recurrent layer's kernels: parameter records, which hold int64 numbers by name.

Values per gate (pre-activations, gates, their gradients) have the layout [direction][panel][t][n][slot][unit]: a panel
is ``units_per_panel`` adjacent hidden units, the last one padded with zeros, and a slot is a gate: i, f, g, o of an
LSTM (f, g, o if coupled), n, r, z and m = W_hn h' + b_hn of a GRU. So one micro-kernel writes a row of a panel, W_ih
adds to the first slots of a GRU and W_hh to the last ones, and the values that a step reads are contiguous. Cells are
padded, too: [direction][t][n][unit].
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, gcd
from typing import NamedTuple

import numpy as np

from ....specs.recurrence import Recurrence
from ..machine.microkernel import MOST_TASKS, ROW_SLOTS, TASK_WORK, micro, registers, tile
from ..machine.record import record
from ..machine.scratch import page_of

RNN_TANH, RNN_RELU, GRU, LSTM = range(4)
MODES = {"rnn_tanh": RNN_TANH, "rnn_relu": RNN_RELU, "gru": GRU, "lstm": LSTM}
MOST_COLUMN_BLOCKS = 8
CACHE_LINE = 8  # words

PRODUCT = record(  # of rows and a panel of B with all its columns, which are cut into sub-panels
    tallest=1,  # rows of a tile
    width=1,
    sub_panels=1,  # bytes of a row of a sub-panel, and how many there are
    tail=1,
    full_tail=1,  # columns of the last vector of the last sub-panel, and of the others
    near=1,  # whether rows are few, each found by its address
    group=1,  # entries of the sum that all rows process before the next ones
    micro=32,
    last_micro=32,  # by the rows of a tile; the second for the last sub-panel
)
LAYER = record(
    steps=1,
    rows=1,
    inputs=1,
    units=1,
    output=1,
    directions=1,
    mode=1,
    projected=1,
    peephole=1,
    coupled=1,  # flags of the layer
    clip=1,  # of the cell state: 0 none, 1 the range, 2 and NaN becomes the upper end
    units_per_panel=1,
    panels=1,
    slots=1,
    spacing=1,  # elements from slot to slot in the last panel: half a register of units, or units_per_panel
    row=1,  # row: elements of a row of a panel, all its slots
    padded=1,
    output_padded=1,  # units of all panels; the width of the gradient of h, in whole registers
    gates=1,  # slots that W_ih adds to, from 0 on, and W_hh, from h_slot on
    h_slot=1,
    x_gates=4,
    h_gates=4,  # which gate, in the order of the weights, each slot of W_ih and of W_hh is
    reverse=2,  # of each direction
    row_blocks=1,
    column_blocks=1,
    forward_block=1,
    backward_block=1,  # units of a column block; the last one may have fewer
    chunk=1,  # steps whose x W_ih^T the chain computes at a time, just before it; 0: all were computed before
    packed_x=1,
    packed_h=1,
    packed_output=1,
    packed_gates=1,
    packed_from_output=1,  # elements of a direction
    from_x=PRODUCT.words,
    from_h=PRODUCT.words,
    last_from_x=PRODUCT.words,  # of the last panel
    last_from_h=PRODUCT.words,
    to_output=PRODUCT.words,
    from_gates=PRODUCT.words,
    from_output=PRODUCT.words,
    to_x=PRODUCT.words,
)
WEIGHT = record(  # the gradient of a weight matrix: sums over the rows of all steps of a product of a and b
    a_direction=1,
    a_panel=1,
    a_step=1,
    a_begin=1,  # elements from one to the next; where they begin
    a_panels=1,
    a_units=1,  # a_units: of a panel
    gates=1,
    units=1,  # of the matrix; a slot of a panel for each gate
    a_gates=4,  # the gate of the matrix of each slot
    columns=1,
    b_direction=1,
    b_step=1,
    b_begin=2,  # of each direction
    all_rows=1,
    chunk=1,  # rows of all steps; rows that are copied at a time
    copied=1,  # sub-panels of b copied together
    groups=1,
    tasks=1,  # of panels; of this matrix, followed by those of the next
    dense=PRODUCT.words,  # its rows are the units of the slots
)

MOST_ENTRIES, _ENTRIES_BYTES = 16, 64 << 10
_FEW = 4  # rows up to which the operands are in L1 and are not prefetched
_LOW = 6  # rows of a tile with four vectors
_COPY_BYTES = 512 << 10
_CHUNK, _LEAST_PANELS = 512, 8  # rows; panels for which a copy pays
_SPLIT_COLUMNS = 512 << 10  # bytes of W_hh, half of L2: then columns are cut even if rows or directions could be
_LEAST_WORK = 60_000  # multiply-adds of a column block in a step, and of two halves
_FIT_BYTES = 256 << 10  # of h of a block, if every thread has one: it stays in L2
_CHUNK_BYTES, _ROWS_OF_CHUNK = 384 << 10, 48  # of pre-activations, at most, unless they have fewer rows
_LEAST_ROWS, _ROWS_OF_BLOCK = 6, 12  # of a block; fewer than a block's only to have two of them
_ROWS_OF_PIECE, _BYTES_OF_PIECE = 192, 384 << 10


class Packed(NamedTuple):
    """A weight matrix as a product reads it."""

    elements: int  # of all directions
    step: int  # from direction to direction
    tasks: int  # of the kernel that packs a direction
    arguments: tuple[int, ...]  # of that kernel: pack_columns from depth to last, pack_rows from columns to sub_step


class Plan(NamedTuple):
    """The plan of a layer."""

    words: np.ndarray  # of LAYER
    tasks: int  # of the chain of steps
    state: int  # words that its tasks share
    from_x_tasks: tuple[int, int, int]  # of the product with x: tasks, rows of a piece, groups of panels
    to_x_tasks: tuple[int, int]  # of the gradient of x: tasks, rows of a piece
    slots: int
    panels: int
    units_per_panel: int
    padded: int
    output_padded: int
    scratch: int  # words of scratch for each thread
    x: Packed  # for products with x, with h, and with the input of the projection
    h: Packed
    output: Packed
    from_gates: Packed  # for the gradients of h, of the input of the projection, and of x
    from_output: Packed
    to_x: Packed
    columns: int  # column blocks of a step
    chunk: int  # steps, as in LAYER


class _Product(NamedTuple):
    width: int  # elements of a row of a sub-panel
    sub_panels: int
    words: np.ndarray  # of PRODUCT

    @property
    def padded(self) -> int:
        """Columns of all sub-panels."""
        return self.sub_panels * self.width


def lanes_of(dtype: str) -> int:
    return tile(dtype, "line", 1).lanes


def _vectors(total: int, rows: int, pieces: int = 1) -> int:
    """Vectors of a sub-panel, of ``total`` in the panel, for ``rows`` rows: two with the tallest tiles, which read it
    least often, and more for few rows, which need the independent sums. Fewer if that cuts ``pieces`` more evenly."""
    widest = 2 if registers() != 32 or rows > _LOW else 4 if rows > 2 else 8
    if pieces == 1 or total <= 2:
        return min(widest, total)
    sizes = [size for size in (8, 4, 2) if size <= min(widest, total)]
    return min(sizes, key=lambda size: ceil(ceil(total / size) / pieces) * size)


def _product(dtype: str, counts: set[int], rows: int, columns: int, depth: int, pieces: int = 1) -> _Product:
    """The product of rows and a panel of ``columns``, for all ``counts`` of rows; a step has ``rows``. ``pieces``: of
    the columns, for different tasks; the bits are the same."""
    total = ceil(columns / lanes_of(dtype))
    width = _vectors(total, rows, pieces) * lanes_of(dtype)
    form, tallest = "line", tile(dtype, "line", width).rows
    if max(counts) <= _FEW:
        form, tallest = "near_rows", min(max(counts), tile(dtype, "near_rows", width).rows)
    bytes_of_entry = depth * _vectors(total, rows) * lanes_of(dtype) * _size(dtype)  # the groups decide the bits
    group = max(1, min(MOST_ENTRIES, _ENTRIES_BYTES // bytes_of_entry))
    return _with_micros(dtype, form, counts, tallest, width, columns, group)


def _with_micros(
    dtype: str, form: str, counts: set[int], tallest: int, width: int, columns: int, group: int
) -> _Product:
    lanes, subs = lanes_of(dtype), ceil(columns / width)
    last = ceil((columns - (subs - 1) * width) / lanes)
    full, end = [0] * 32, [0] * 32
    for count in counts:
        tiles = ceil(count / tallest)
        for rows in {count // tiles, -(-count // tiles)}:
            end[rows] = micro(dtype, form, rows, last)
            if subs > 1:
                full[rows] = micro(dtype, form, rows, width // lanes)
    words = PRODUCT.pack(
        tallest=tallest,
        width=width * _size(dtype),
        sub_panels=subs,
        tail=(columns - 1) % lanes + 1,
        full_tail=lanes,
        near=form == "near_rows",
        group=group,
        micro=full,
        last_micro=end,
    )
    return _Product(width, subs, words)


def _of_last_panel(dtype: str, whole: _Product, counts: set[int], columns: int) -> _Product:
    """The product of a panel with fewer columns, whose rows lie as those of the others."""
    form = "near_rows" if whole.words[PRODUCT.near] else "line"
    tallest, group = int(whole.words[PRODUCT.tallest]), int(whole.words[PRODUCT.group])
    return _with_micros(dtype, form, counts, tallest, whole.width, columns, group)


def _size(dtype: str) -> int:
    return 4 if dtype == "f" else 8


def _cut(total: int, pieces: int) -> set[int]:
    return {(i + 1) * total // pieces - i * total // pieces for i in range(pieces)}


def _pieces(total: int, piece: int) -> set[int]:
    return {min(piece, total - first) for first in range(0, total, piece)}


def _counts(counts: set[int], ragged: bool) -> set[int]:
    return set(range(1, max(counts) + 1)) if ragged else counts


def _blocks(spec: Recurrence, rows: int, dtype: str, panels: int, threads: int) -> tuple[int, int]:
    """Row blocks and column blocks of a step. Threads with equal shares compute as many rows together as L2 holds; if
    the rows are too few, the threads that share a direction cut its columns."""
    work = spec.gates * spec.hidden * spec.output
    least = max(1, threads // gcd(max(1, threads), spec.directions))  # row blocks for equal shares
    split_columns = work * _size(dtype) > _SPLIT_COLUMNS and rows <= 64
    if threads == 1 or (threads and not split_columns and rows >= least * _LEAST_ROWS):
        return least * max(1, rows * spec.output * _size(dtype) // (least * _FIT_BYTES)), 1
    if not split_columns and (least == 1 or rows >= 2 * _LEAST_ROWS):
        return max(1, min(2, rows // _LEAST_ROWS), min(16, rows // _ROWS_OF_BLOCK)), 1
    most = min(MOST_COLUMN_BLOCKS, panels, max(rows * work // _LEAST_WORK, 1 + (rows * work >= _LEAST_WORK)))
    if least == 1:
        return 1, most
    # the fewest blocks with the shortest longest share: each thread keeps its part of the weights in its L2
    sizes = [ceil(panels / count) for count in range(1, most + 1)]
    return 1, 1 + min(range(most), key=lambda place: ceil(ceil(panels / sizes[place]) / least) * sizes[place])


def _chunk(steps: int, rows: int, dtype: str, step: int) -> int:
    """Steps whose pre-activations, of ``step`` elements for a row, stay in L2 until their steps are computed."""
    fitting = max(_CHUNK_BYTES // (rows * step * _size(dtype)), ceil(_ROWS_OF_CHUNK / rows))
    return min(steps, fitting)


@lru_cache(maxsize=1024)
def recurrent_plan(
    spec: Recurrence, steps: int, rows: int, dtype: str, ragged: bool = False, threads: int = 0, save: bool = True
) -> Plan:
    """``ragged``: sequences end before the last step, so that a block or piece may have fewer rows. ``threads``: how
    the work is cut, if not 0; the bits are the same. Without ``save``, the gates of a last panel with half a register
    of units lie side by side, so that products have no padding.
    """
    lanes = lanes_of(dtype)
    D, H, P, inputs, gates = spec.directions, spec.hidden, spec.output, spec.input, spec.gates
    mode, projected, total = MODES[spec.mode], spec.projection > 0, steps * rows
    slots = 4 if mode == GRU else gates
    per_panel = lanes * _registers_of_units(slots, rows, ceil(H / lanes))
    panels, width = ceil(H / per_panel), gates * per_panel
    padded = panels * per_panel
    spacing = per_panel
    if not save and slots > 1 and per_panel == lanes >= 8 and 2 * (H % lanes) == lanes:
        spacing = lanes // 2
    output_padded = ceil(P / lanes) * lanes if projected else padded
    row_blocks, column_blocks = _blocks(spec, rows, dtype, panels, threads)
    piece = max(1, min(_ROWS_OF_PIECE, _BYTES_OF_PIECE // (inputs * _size(dtype))))
    piece = max(piece // 48 * 48, 48)
    target_tasks = min(MOST_TASKS, D * total * gates * H * inputs // TASK_WORK)
    groups = max(1, min(panels, ceil(target_tasks / max(1, D * ceil(total / piece)))))
    to_x_piece = min(192, max(48, ceil(ceil(total / max(1, min(target_tasks, 8))) / 12) * 12))

    blocks = _counts(_cut(rows, row_blocks), ragged)
    chunk = 0
    if threads and column_blocks == 1 and D * row_blocks % threads == 0:
        chunk = _chunk(steps, rows, dtype, panels * slots * per_panel)
        piece_rows = blocks if row_blocks > 1 else {rows * count for count in _pieces(steps, chunk)}
    else:
        piece_rows = _pieces(total, piece)
    x_counts = _counts(piece_rows, ragged)
    from_x, from_h = _product(dtype, x_counts, total, width, inputs), _product(dtype, blocks, rows, width, P)
    last_from_x, last_from_h = from_x, from_h
    if spacing < per_panel:
        last_from_x = _of_last_panel(dtype, from_x, x_counts, gates * spacing)
        last_from_h = _of_last_panel(dtype, from_h, blocks, gates * spacing)
    from_gates = _product(dtype, blocks, rows, output_padded, width, column_blocks)
    to_x = _product(dtype, _counts(_pieces(total, to_x_piece), ragged), total, inputs, width)
    to_output = from_output = _Product(0, 0, np.zeros(PRODUCT.words, np.int64))
    if projected:
        to_output, from_output = (
            _product(dtype, blocks, rows, P, H),
            _product(dtype, blocks, rows, padded, P, column_blocks),
        )
    unit = max(per_panel, (from_output if projected else from_gates).width)

    of_x, of_h = (per_panel, gates, LAYER.x_gates), (per_panel, gates, LAYER.h_gates)
    whole = 1, LAYER.x_gates  # a matrix without gates is one slot
    x = _packed(D, panels * from_x.padded * inputs, panels, (inputs, H, *of_x, from_x.width, spacing))
    h = _packed(D, panels * from_h.padded * P, panels, (P, H, *of_h, from_h.width, spacing))
    output = _packed(D, to_output.padded * H, 1, (H, P, to_output.padded, *whole, to_output.width, to_output.padded))
    to_h = _packed(
        D,
        from_gates.padded * panels * width,
        panels,
        (P, H, *of_h, from_gates.width, from_gates.sub_panels, panels * width * from_gates.width),
    )
    to_u = _packed(
        D,
        from_output.padded * P,
        1,
        (H, P, P, *whole, from_output.width, from_output.sub_panels, P * from_output.width),
    )
    x_step = panels * width * to_x.width  # one sum over the panels of all directions
    of_gx = Packed(
        D * to_x.padded * panels * width, x_step, panels, (inputs, H, *of_x, to_x.width, to_x.sub_panels, D * x_step)
    )
    words = LAYER.pack(
        steps=steps,
        rows=rows,
        inputs=inputs,
        units=H,
        output=P,
        directions=D,
        mode=mode,
        projected=projected,
        peephole=spec.peephole,
        coupled=spec.coupled,
        clip=0 if spec.clip is None else 1 + spec.clip_nan,
        units_per_panel=per_panel,
        panels=panels,
        slots=slots,
        spacing=spacing,
        row=slots * per_panel,
        padded=padded,
        output_padded=output_padded,
        gates=gates,
        h_slot=mode == GRU,
        x_gates=(2, 0, 1, 0) if mode == GRU else range(4),
        h_gates=range(4),
        reverse=(*spec.reverse, False)[:2],
        row_blocks=row_blocks,
        column_blocks=column_blocks,
        forward_block=ceil(panels / column_blocks) * per_panel,
        backward_block=ceil(ceil(padded / unit) / column_blocks) * unit,
        chunk=chunk,
        packed_x=x.step,
        packed_h=h.step,
        packed_output=output.step,
        packed_gates=to_h.step,
        packed_from_output=to_u.step,
        from_x=from_x.words,
        from_h=from_h.words,
        last_from_x=last_from_x.words,
        last_from_h=last_from_h.words,
        to_output=to_output.words,
        from_gates=from_gates.words,
        from_output=from_output.words,
        to_x=to_x.words,
    )
    return Plan(
        words,
        D * row_blocks * column_blocks,
        CACHE_LINE * D * row_blocks * (column_blocks + 1),
        (D * ceil(total / piece) * groups, piece, groups),
        (ceil(total / to_x_piece), to_x_piece),
        slots,
        panels,
        per_panel,
        padded,
        output_padded,
        page_of(ROW_SLOTS * MOST_ENTRIES + 40),
        x,
        h,
        output,
        to_h,
        to_u,
        of_gx,
        column_blocks,
        chunk,
    )


def _packed(directions: int, step: int, tasks: int, arguments: tuple[int, ...]) -> Packed:
    return Packed(directions * step, step, tasks, arguments)


def _registers_of_units(slots: int, rows: int, total: int) -> int:
    """Registers of hidden units in a panel: those that pad ``total`` least, of the numbers that give a micro-kernel
    enough independent sums."""
    most = 2 if registers() != 32 else 4 if rows > 2 else 8
    largest = min(max(1, most // slots), 1 << (total - 1).bit_length())
    least = min(largest, max(1, (4 if rows <= 2 else 2) // slots))
    sizes = [size for size in (8, 4, 2, 1) if least <= size <= largest]
    return min(sizes, key=lambda size: ceil(total / size) * size)


class WeightPlan(NamedTuple):
    words: np.ndarray  # of WEIGHT, for each matrix
    tasks: int
    memory: int  # elements per thread: a block of b, a row for discarded results and, if ragged, a block of a


@lru_cache(maxsize=1024)
def weight_plan(spec: Recurrence, steps: int, rows: int, dtype: str, ragged: bool = False) -> WeightPlan:
    """The gradients of all weight matrices, one plan after the other: of W_ih, W_hh and, with a projection, W_hr."""
    matrices = ("x", "h", "output") if spec.projection else ("x", "h")
    plans = [_matrix_plan(spec, steps, rows, dtype, matrix, ragged) for matrix in matrices]
    words = [plan.words for plan in plans]
    return WeightPlan(np.concatenate(words), sum(plan.tasks for plan in plans), max(plan.memory for plan in plans))


def _matrix_plan(spec: Recurrence, steps: int, rows: int, dtype: str, matrix: str, ragged: bool) -> WeightPlan:
    """The gradient of a matrix: "x" W_ih, "h" W_hh, "output" W_hr."""
    plan, lanes, total, D = recurrent_plan(spec, steps, rows, dtype), lanes_of(dtype), steps * rows, spec.directions
    per_panel, slots, panels, gates, units = plan.units_per_panel, plan.slots, plan.panels, spec.gates, spec.hidden
    direction, panel, step = panels * total * slots * per_panel, total * slots * per_panel, slots * per_panel
    begin, b_begin, a_gates = 0, [0, 0], [*plan.words[LAYER.x_gates : LAYER.x_gates + 4]]
    if matrix == "x":
        columns, b_direction, b_step = spec.input, 0, spec.input
    elif matrix == "h":
        columns, b_direction, b_step = spec.output, (steps + 1) * rows * spec.output, spec.output
        begin, a_gates = int(plan.words[LAYER.h_slot]) * per_panel, [*range(4)]
        b_begin = [rows * spec.output * int(reverse) for reverse in (*spec.reverse, False)[:2]]
    else:
        columns, b_direction, b_step, gates, units = spec.hidden, total * plan.padded, plan.padded, 1, spec.output
        per_panel = lanes * next(r for r in (4, 2, 1) if plan.output_padded // lanes % r == 0)
        panels = plan.output_padded // per_panel
        direction, panel, step = total * plan.output_padded, per_panel, plan.output_padded
    tall, chunk = gates * per_panel, min(_CHUNK, total)
    width = _vectors(ceil(columns / lanes), 64) * lanes
    dense = _with_micros(dtype, "dense", {tall}, tile(dtype, "dense", width).rows, width, columns, 1)
    copied = max(1, min(dense.sub_panels, _COPY_BYTES // (chunk * width * _size(dtype))))
    groups = max(1, min(panels // _LEAST_PANELS, D * total * gates * units * columns // TASK_WORK, 8))
    words = WEIGHT.pack(
        a_direction=direction,
        a_panel=panel,
        a_step=step,
        a_begin=begin,
        a_panels=panels,
        a_units=per_panel,
        gates=gates,
        units=units,
        a_gates=a_gates,
        columns=columns,
        b_direction=b_direction,
        b_step=b_step,
        b_begin=b_begin,
        all_rows=total,
        chunk=chunk,
        copied=copied,
        groups=groups,
        tasks=D * groups,
        dense=dense.words,
    )
    memory = copied * chunk * width + dense.sub_panels * width + ragged * chunk * tall
    return WeightPlan(words, D * groups, memory)
