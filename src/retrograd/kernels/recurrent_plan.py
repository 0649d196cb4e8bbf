"""The plans of a recurrent layer's kernels: arrays of int64, whose words are named here.

All that is there once for each gate (pre-activations, gates, their gradients) lies in the order
[direction][panel][t][n][slot][unit]: a panel is ``UNITS_PER_PANEL`` neighbouring hidden units, the last one filled up
with zeros, and a slot is a gate: i, f, g, o of an LSTM (f, g, o where they are coupled), n, r, z and
m = W_hn h' + b_hn of a GRU. So a row of a panel is written by one micro-kernel, W_ih adds to the first slots of a GRU
and W_hh to the last ones, and what a step reads lies together. Cells, too, are filled up: [direction][t][n][unit].
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import NamedTuple

import numpy as np

from ..recurrence import Recurrence
from .microkernel import micro, registers, tile
from .plan import MOST_TASKS, TASK_WORK

RNN_TANH, RNN_RELU, GRU, LSTM = range(4)
MODES = {"rnn_tanh": RNN_TANH, "rnn_relu": RNN_RELU, "gru": GRU, "lstm": LSTM}

# ---- words of the layer
STEPS, ROWS, UNITS, OUTPUT, DIRECTIONS, MODE = range(6)
PROJECTED, PEEPHOLE, COUPLED, CLIP = range(6, 10)  # 1: there is one; clip: 2 where NaN becomes the upper end
UNITS_PER_PANEL, PANELS, SLOTS, PADDED = range(10, 14)  # padded: the units of all panels
OUTPUT_PADDED = 14  # the width of the gradient of h, in whole registers
X_SLOTS, H_SLOT, H_SLOTS = 15, 16, 17  # slots that W_ih adds to (from 0 on); the first one of W_hh, and how many
REVERSE = 18  # a word for each direction
ROW_BLOCKS, COLUMN_BLOCKS = 20, 21
FORWARD_BLOCK, BACKWARD_BLOCK = 22, 23  # units that a column block takes, forward and backward: all but the last one
X_GATES, H_GATES = 24, 28  # which gate, in the order of the weights, each slot of W_ih and of W_hh is
ROW = 32  # elements of a row of a panel: all its slots
PACKED_H, PACKED_OUTPUT, PACKED_GATES, PACKED_FROM_OUTPUT = range(33, 37)  # a direction of it, in elements
BY_X, BY_H, TO_OUTPUT, FROM_GATES, FROM_OUTPUT, TO_X = (40 + 80 * i for i in range(6))  # products, see below
MOST_COLUMN_BLOCKS = 8

# ---- words of a product of rows: a panel of B for all its columns, in sub-panels of one micro-kernel's width
# rows of a tile; width in bytes; near: few rows, found by address; how many entries of the sum all rows go through
TALLEST, WIDTH, SUB_PANELS, TAIL, NEAR, FULL_TAIL, GROUP = range(7)
MICRO, LAST_MICRO = 8, 40  # by the rows of the tile; the second for the last sub-panel
MOST_ENTRIES, _ENTRIES_BYTES = 16, 64 << 10
_FEW = 4  # rows, up to which the operands are in the first cache and nothing is asked for ahead

# ---- words of a weight gradient
A_DIRECTION, A_PANEL, A_STEP = range(3)  # from direction to direction, panel to panel, row to row, in elements
A_UNITS, A_TOTAL, A_SLOTS = 3, 4, 5  # units of a panel and of all; how many slots
COLUMNS, B_DIRECTION, B_STEP, ALL_ROWS, CHUNK = 6, 7, 8, 9, 10
A_PANELS, GROUPS, A_BEGIN = 11, 12, 13
A_GATES = 14
B_BEGIN = 18  # a word for each direction
A_ALL_GATES = 20  # of a direction's weights
COPIED = 21  # sub-panels of b that are copied together
TASKS = 22  # of this matrix; those of the next one follow
DENSE = 24  # a product, whose rows are the units of the slots
WEIGHT_SIZE = DENSE + 80
_COPY_BYTES = 512 << 10
_CHUNK, _LEAST_PANELS = 512, 8  # rows; what a copy is to be worth

_SPLIT_COLUMNS = 512 << 10  # bytes of W_hh: half a second-level cache
_LEAST_WORK = 60_000  # multiply-adds of a column block in a step
_LEAST_ROWS, _ROWS_OF_BLOCK = 6, 12  # of a block; fewer than a block's only to have two of them
_ROWS_OF_PIECE, _BYTES_OF_PIECE = 192, 384 << 10


class Packed(NamedTuple):
    """A weight matrix as a product reads it."""

    elements: int  # of all directions
    step: int  # from direction to direction
    tasks: int  # of the kernel that packs a direction
    arguments: tuple[int, ...]  # of that kernel: pack_columns from depth to width, pack_rows from columns to sub_step


class Plan(NamedTuple):
    """How a layer runs; ``words`` as named above."""

    words: np.ndarray
    tasks: int  # of the chain of steps
    state: int  # words that its tasks share
    by_x: tuple[int, int, int]  # tasks, rows of a piece, groups of panels: of the product with x
    to_x_tasks: tuple[int, int]  # tasks, rows of a piece: of the gradient of x
    slots: int
    panels: int
    units_per_panel: int
    padded: int
    output_padded: int
    scratch: int  # words of scratch for each thread
    x: Packed  # for products with x, with h, and with what is projected
    h: Packed
    output: Packed
    from_gates: Packed  # for the gradients of h, of what is projected, and of x
    from_output: Packed
    to_x: Packed
    columns: int  # column blocks of a step


def lanes_of(dtype: str) -> int:
    return tile(dtype, "line", 1).lanes


def _vectors(total: int, rows: int) -> int:
    """Vectors of a sub-panel of ``total`` of them, for so many rows."""
    widest = 8 if rows <= 2 and registers() == 32 else 4 if registers() == 32 else 2
    return min(widest, total)


def _product(dtype: str, counts: set[int], vectors: int, columns: int, depth: int) -> list[int]:
    """A product of so many rows, all ``counts`` that there will be, with a panel of ``columns``."""
    lanes = lanes_of(dtype)
    near = max(counts) <= _FEW
    total = ceil(columns / lanes)
    tallest = tile(dtype, "line", vectors * lanes).rows
    if near:
        tallest = min(max(counts), tile(dtype, "near_rows", vectors * lanes).rows)
    subs = ceil(total / vectors)
    width = vectors * lanes * (4 if dtype == "f" else 8)
    group = max(1, min(MOST_ENTRIES, _ENTRIES_BYTES // (depth * width)))
    words = [tallest, width, subs, (columns - 1) % lanes + 1, int(near), lanes, group, 0]
    return _with_micros(words, dtype, "near_rows" if near else "line", counts, vectors, total - (subs - 1) * vectors)


def _with_micros(words: list[int], dtype: str, form: str, counts: set[int], vectors: int, last: int) -> list[int]:
    full, end = [0] * 32, [0] * 32
    for count in counts:
        tiles = ceil(count / words[TALLEST])
        for rows in {count // tiles, -(-count // tiles)}:
            end[rows] = micro(dtype, form, rows, last)
            if words[SUB_PANELS] > 1:
                full[rows] = micro(dtype, form, rows, vectors)
    words += full + end
    return words + [0] * (80 - len(words))


def _cut(total: int, pieces: int) -> set[int]:
    return {(i + 1) * total // pieces - i * total // pieces for i in range(pieces)}


def _pieces(total: int, piece: int) -> set[int]:
    return {min(piece, total - first) for first in range(0, total, piece)}


def _counts(counts: set[int], ragged: bool) -> set[int]:
    return set(range(1, max(counts) + 1)) if ragged else counts


@lru_cache(maxsize=1024)
def recurrent_plan(what: Recurrence, steps: int, rows: int, dtype: str, ragged: bool = False) -> Plan:
    """``ragged``: sequences end before the last step, so that there may be fewer rows than a block or piece has."""
    lanes, size = lanes_of(dtype), 4 if dtype == "f" else 8
    mode, units, output = MODES[what.mode], what.hidden, what.output
    slots = 4 if mode == GRU else what.gates
    x_slots, h_slot, h_slots = what.gates, int(mode == GRU), what.gates
    x_gates = [2, 0, 1, 0] if mode == GRU else [0, 1, 2, 3]
    per_panel = lanes * _registers_of_units(slots, rows, ceil(units / lanes))
    panels = ceil(units / per_panel)
    padded, output_padded = panels * per_panel, ceil(output / lanes) * lanes
    if not what.projection:
        output_padded = padded
    work = what.gates * units * output
    row_blocks, column_blocks = 1, 1
    if work * size <= _SPLIT_COLUMNS or rows > 64:
        row_blocks = max(1, min(2, rows // _LEAST_ROWS), min(16, rows // _ROWS_OF_BLOCK))
    else:
        column_blocks = max(1, min(MOST_COLUMN_BLOCKS, panels, rows * work // _LEAST_WORK))
    blocks = _counts(_cut(rows, row_blocks), ragged)
    of_h = _vectors(h_slots * per_panel // lanes, rows)
    back = _vectors(output_padded // lanes, rows)
    over_units = _vectors(padded // lanes, rows)
    unit = max(per_panel, (over_units if what.projection else back) * lanes)
    forward_block = ceil(panels / column_blocks) * per_panel
    backward_block = ceil(ceil(padded / unit) / column_blocks) * unit
    total = steps * rows
    piece = max(1, min(_ROWS_OF_PIECE, _BYTES_OF_PIECE // (what.input * size)))
    piece = max(piece // 48 * 48, 48) if piece >= 48 else 48
    wanted = min(MOST_TASKS, what.directions * total * what.gates * units * what.input // TASK_WORK)
    groups = max(1, min(panels, ceil(wanted / max(1, what.directions * ceil(total / piece)))))
    gradient_piece = min(192, max(48, ceil(ceil(total / max(1, min(wanted, 8))) / 12) * 12))
    pieces, gradient_pieces = (_counts(_pieces(total, each), ragged) for each in (piece, gradient_piece))
    far = _vectors(ceil(what.input / lanes), total)
    words = [steps, rows, units, output, what.directions, mode]
    words += [int(what.projection > 0), int(what.peephole), int(what.coupled)]
    words += [0 if what.clip is None else 1 + int(what.clip_nan)]
    words += [per_panel, panels, slots, padded, output_padded, x_slots, h_slot, h_slots]
    words += [int(each) for each in (*what.reverse, False)[:2]]
    words += [row_blocks, column_blocks, forward_block, backward_block, *x_gates, *([0, 1, 2, 3])]
    products = (
        (pieces, _vectors(x_slots * per_panel // lanes, total), x_slots * per_panel, what.input),
        (blocks, of_h, h_slots * per_panel, output),
        (blocks, _vectors(ceil(output / lanes), rows), output, units),
        (blocks, back, output_padded, h_slots * per_panel),
        (blocks, over_units, padded, output),
        (gradient_pieces, far, what.input, x_slots * per_panel),
    )
    x_width, h_width, output_width, gates_width, units_width, to_x_width = (width * lanes for _, width, *_ in products)
    slots_of_x, slots_of_h = (per_panel, x_slots, X_GATES), (per_panel, h_slots, H_GATES)
    D, H, P, inputs = what.directions, units, output, what.input
    h_rows, x_rows = panels * h_slots * per_panel, panels * x_slots * per_panel
    packed = (
        _packed(
            D, panels * _padded_to(x_slots * per_panel, x_width) * inputs, panels, (inputs, H, *slots_of_x, x_width)
        ),
        _packed(D, panels * _padded_to(h_slots * per_panel, h_width) * P, panels, (P, H, *slots_of_h, h_width)),
        _packed(D, _padded_to(P, output_width) * H, 1, (H, P, _padded_to(P, output_width), 1, X_GATES, output_width)),
        _packed(
            D, _padded_to(output_padded, gates_width) * h_rows, panels,
            (P, H, *slots_of_h, gates_width, ceil(output_padded / gates_width), h_rows * gates_width),
        ),
        _packed(
            D, _padded_to(padded, units_width) * P, 1,
            (H, P, P, 1, X_GATES, units_width, ceil(padded / units_width), P * units_width),
        ),
        Packed(
            D * _padded_to(inputs, to_x_width) * x_rows, x_rows * to_x_width, panels,
            (inputs, H, *slots_of_x, to_x_width, ceil(inputs / to_x_width), D * x_rows * to_x_width),
        ),
    )  # fmt: skip
    words += [slots * per_panel, *(matrix.step for matrix in packed[1:5]), 0, 0, 0]
    for used, product in zip((1, 1, what.projection, 1, what.projection, 1), products, strict=True):
        words += _product(dtype, *product) if used else [0] * 80
    return Plan(
        np.array(words, np.int64), D * row_blocks * column_blocks, 8 * D * row_blocks * (column_blocks + 1),
        (D * ceil(total / piece) * groups, piece, groups), (ceil(total / gradient_piece), gradient_piece),
        slots, panels, per_panel, padded, output_padded, 8 * MOST_ENTRIES + 40, *packed, column_blocks,
    )  # fmt: skip


def _packed(directions: int, step: int, tasks: int, arguments: tuple[int, ...]) -> Packed:
    return Packed(directions * step, step, tasks, arguments)


def _padded_to(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def _registers_of_units(slots: int, rows: int, total: int) -> int:
    """Registers of hidden units in a panel: what fills the width of a micro-kernel."""
    widest = _vectors(64, rows)
    wanted = max(1, widest // slots)
    return min(wanted, 1 << (total - 1).bit_length())


class WeightPlan(NamedTuple):
    words: np.ndarray
    tasks: int
    memory: int  # elements for each thread: a block of b, a row that nobody asked for, and if ragged a block of a


@lru_cache(maxsize=1024)
def weight_plan(what: Recurrence, steps: int, rows: int, dtype: str, ragged: bool = False) -> WeightPlan:
    """The gradients of all weight matrices, one plan behind the other: of W_ih, W_hh and, with a projection, W_hr."""
    matrices = ("x", "h", "output") if what.projection else ("x", "h")
    plans = [_matrix_plan(what, steps, rows, dtype, matrix, ragged) for matrix in matrices]
    words = [plan.words for plan in plans]
    return WeightPlan(np.concatenate(words), sum(plan.tasks for plan in plans), max(plan.memory for plan in plans))


def _matrix_plan(what: Recurrence, steps: int, rows: int, dtype: str, matrix: str, ragged: bool) -> WeightPlan:
    """The gradient of a matrix: "x" W_ih, "h" W_hh, "output" W_hr."""
    plan = recurrent_plan(what, steps, rows, dtype)
    layer, lanes, size, total = plan.words, lanes_of(dtype), 4 if dtype == "f" else 8, steps * rows
    per_panel, slots, panels, gates, units = plan.units_per_panel, plan.slots, plan.panels, layer[H_GATES:], what.hidden
    begin = 0
    direction, panel, step = panels * total * slots * per_panel, total * slots * per_panel, slots * per_panel
    if matrix == "x":
        count, columns, b_direction, b_step, b_begin = int(layer[X_SLOTS]), what.input, 0, what.input, [0, 0]
        gates = layer[X_GATES:]
    elif matrix == "h":
        count, columns, b_step = int(layer[H_SLOTS]), what.output, what.output
        b_direction = (steps + 1) * rows * what.output
        begin = int(layer[H_SLOT]) * per_panel
        b_begin = [rows * what.output * int(layer[REVERSE + d]) for d in range(2)]
    else:
        count, columns, b_step, b_direction, b_begin = 1, what.hidden, plan.padded, total * plan.padded, [0, 0]
        units = what.output
        per_panel = lanes * next(r for r in (4, 2, 1) if plan.output_padded // lanes % r == 0)
        panels = plan.output_padded // per_panel
        direction, panel, step = total * plan.output_padded, per_panel, plan.output_padded
    across = ceil(columns / lanes)
    vectors = _vectors(across, 64)
    tall = count * per_panel
    across_bytes, subs = vectors * lanes * size, ceil(across / vectors)
    chunk = min(_CHUNK, total)
    copied = max(1, min(subs, _COPY_BYTES // (chunk * across_bytes)))
    work = what.directions * total * count * units * columns
    groups = max(1, min(panels // _LEAST_PANELS, work // TASK_WORK, 8))
    words = [direction, panel, step, per_panel, units, count, columns, b_direction, b_step, total, chunk]
    words += [panels, groups, begin, *(int(gate) for gate in gates[:4]), *b_begin]
    words += [1 if matrix == "output" else what.gates, copied, what.directions * groups]
    words += [0] * (DENSE - len(words))
    tail = (columns - 1) % lanes + 1
    dense = [tile(dtype, "dense", vectors * lanes).rows, vectors * lanes * size, subs, tail, 0, lanes, 1, 0]
    words += _with_micros(dense, dtype, "dense", {tall}, vectors, across - (subs - 1) * vectors)
    memory = (copied * chunk + subs) * vectors * lanes + ragged * chunk * tall
    return WeightPlan(np.array(words, np.int64), what.directions * groups, memory)
