"""A layer of a recurrent network in all its directions: one launch for all steps, forward and backward.

Forward: x W_ih^T and the biases for all steps; then the chain of steps, each of which adds h' W_hh^T to a panel of
gates and computes its units while they are in the first cache. Backward: the same chain from its end, which leaves the
gradients of all pre-activations; then the gradients of x and of the weights as products over all steps. The order in
memory, and how the work is cut, stands in ``recurrent_plan.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..recurrence import Recurrence, Weights
from .launch import kernel
from .packing import zeros_of
from .recurrent_plan import (
    BY_H,
    BY_X,
    COLUMN_BLOCKS,
    FROM_GATES,
    FROM_OUTPUT,
    H_GATES,
    H_SLOTS,
    SUB_PANELS,
    TO_OUTPUT,
    TO_X,
    WIDTH,
    X_GATES,
    X_SLOTS,
    Plan,
    recurrent_plan,
    weight_plan,
)
from .scratch import aligned, per_thread, shared

__all__ = ["recurrent", "recurrent_grad"]

_FORWARD, _BACKWARD = kernel("recurrent.forward"), kernel("recurrent.backward")
_BY_X, _TO_X = kernel("recurrent_products.by_x"), kernel("recurrent_products.to_x")
_WEIGHT_GRADS, _BIAS_GRAD = kernel("recurrent_products.weight_grads"), kernel("recurrent_products.bias_grad")
_PEEPHOLE_GRAD = kernel("recurrent_products.peephole_grad")
_PACK_COLUMNS, _PACK_ROWS = kernel("recurrent_products.pack_columns"), kernel("recurrent_products.pack_rows")
_MOST_LANES = 16  # of a register
_LARGE = 1 << 20  # elements
_NO_INTEGERS = np.zeros(8, np.int64)


class _Saved(NamedTuple):
    """What the backward pass of these kernels reads."""

    gates: np.ndarray | None  # [direction][panel][t][n][slot][unit]; a plain RNN needs h alone
    h: np.ndarray  # (D, T+1, N, P)
    c: np.ndarray | None  # (D, T+1, N, padded units)
    u: np.ndarray | None  # (D, T, N, padded units): what a projection read


def recurrent(
    x: np.ndarray, h0: np.ndarray | None, c0: np.ndarray | None, weights: Sequence[Weights],
    lengths: np.ndarray | None, what: Recurrence, save: bool, cells: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None, object]:  # fmt: skip
    """x (T, N, I) -> y (T, N, D*P), h_n (D, N, P), c_n (D, N, H), the cells (T, N, D*H), and what backward needs.

    h0 (D, N, P) and c0 (D, N, H), or None for zeros; one Weights for each direction; lengths (N,), 1..T, or None. From
    a sequence's length on, y is 0. What a layer has not, or what is not asked for, is None.
    """
    T, N, _ = x.shape
    D, P, H, dtype = what.directions, what.output, what.hidden, x.dtype.char
    cells = cells and what.cells
    if N == 0:
        return _of_no_rows(x, what, cells)
    plan = recurrent_plan(what, T, N, dtype)
    x = np.ascontiguousarray(x)
    weights = [_contiguous(w) for w in weights]
    own_y = D > 1 or lengths is not None
    h_ring = T + 1 if save or not own_y else 2
    c_ring = T + 1 if save or cells else 2
    u_ring = T if save else 1
    gates_kept = save and not what.mode.startswith("rnn")
    count = D * plan.panels * T * N * plan.slots * plan.units_per_panel
    gates = aligned(count, dtype) if gates_kept else shared(count, dtype)
    _begin(x, weights, what, plan, gates)
    words, size = plan.words, x.itemsize
    by_h = aligned(D * plan.packed["h"], dtype)
    for d, weight in enumerate(weights):
        _PACK_COLUMNS[dtype](
            plan.panels, weight.w_hh, by_h[d * plan.packed["h"] :], by_h, by_h, by_h, P, H, plan.units_per_panel,
            int(words[H_SLOTS]), H_GATES, int(words[BY_H + WIDTH]) // size, 0, 0, words,
        )  # fmt: skip
    to_output, u = by_h, gates
    if what.projection:
        to_output = aligned(D * plan.packed["output"], dtype)
        width, subs = int(words[TO_OUTPUT + WIDTH]) // size, int(words[TO_OUTPUT + SUB_PANELS])
        for d, weight in enumerate(weights):
            _PACK_COLUMNS[dtype](
                1, weight.w_hr, to_output[d * plan.packed["output"] :], by_h, by_h, by_h, H, P, width * subs, 1,
                X_GATES, width, 0, 0, words,
            )  # fmt: skip
        u = aligned(D * u_ring * N * plan.padded, dtype).reshape(D, u_ring, N, plan.padded)
    h = np.empty((D, h_ring, N, P), dtype)
    c = aligned(D * c_ring * N * plan.padded, dtype).reshape(D, c_ring, N, plan.padded) if what.cells else h
    for d, reverse in enumerate(what.reverse):
        first = T if reverse else 0
        h[d, first % h_ring] = 0 if h0 is None else h0[d]
        if what.cells:
            c[d, first % c_ring, :, H:] = 0
            c[d, first % c_ring, :, :H] = 0 if c0 is None else c0[d]
    y = np.empty((T, N, D * P), dtype) if own_y else h[0, :-1] if what.reverse[0] else h[0, 1:]
    low, high = what.clip or (0.0, 0.0)
    _FORWARD[dtype](
        plan.tasks, gates, by_h, to_output, u, h, c, y, _holes(weights, what, plan, dtype),
        zeros_of(plan.padded + 128, dtype), _all_steps(T, N) if lengths is None else lengths, words, low, high,
        h_ring, c_ring, u_ring, int(own_y), per_thread(plan.scratch, "q"), plan.scratch, _state(plan),
    )  # fmt: skip
    last = [0 if reverse else T for reverse in what.reverse]
    hn = np.empty((D, N, P), dtype)
    cn = np.empty((D, N, H), dtype) if what.cells else None
    for d, t in enumerate(last):
        hn[d] = h[d, t % h_ring]
        if cn is not None:
            cn[d] = c[d, t % c_ring, :, :H]
    saved = None
    if save:
        saved = _Saved(gates if gates_kept else None, h, c if what.cells else None, u if what.projection else None)
    return y, hn, cn, _all_cells(c, lengths, what) if cells else None, saved


def recurrent_grad(
    gy: np.ndarray | None, ghn: np.ndarray | None, gcn: np.ndarray | None, gcells: np.ndarray | None, x: np.ndarray,
    h0: np.ndarray | None, c0: np.ndarray | None, weights: Sequence[Weights], lengths: np.ndarray | None,
    what: Recurrence, saved: object, wanted: tuple[bool, bool, bool, bool], last: bool = False,
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None, list[Weights] | None]:  # fmt: skip
    """gx, gh0, gc0 and the gradients of the weights, from those of y, h_n, c_n and the cells (None: zeros).

    ``wanted``: of x, h0, c0 and the weights; what is not wanted is None. Behind the end of a sequence gx is 0.
    ``last``: ``saved`` will not be read again: the gradients of the gates take their place.
    """
    T, N, inputs = x.shape
    D, P, H, dtype = what.directions, what.output, what.hidden, x.dtype.char
    if N == 0:
        return _grad_of_no_rows(x, weights, what, wanted)
    if not isinstance(saved, _Saved):
        raise TypeError(
            "recurrent_grad: the forward pass ran on another kernel set; run forward and backward on the same one"
        )
    plan = recurrent_plan(what, T, N, dtype)
    words, size, per_panel = plan.words, x.itemsize, plan.units_per_panel
    weights = [_contiguous(w) for w in weights]
    slots, panels = int(words[H_SLOTS]), plan.panels
    from_gates = aligned(D * plan.packed["from gates"], dtype)
    width, subs = int(words[FROM_GATES + WIDTH]) // size, int(words[FROM_GATES + SUB_PANELS])
    for d, weight in enumerate(weights):
        _PACK_ROWS[dtype](
            panels, weight.w_hh, from_gates[d * plan.packed["from gates"] :], P, H, per_panel, slots, H_GATES, width,
            subs, panels * slots * per_panel * width, words,
        )  # fmt: skip
    gh = np.zeros((D, N, plan.output_padded), dtype)
    if ghn is not None:
        gh[:, :, :P] = ghn
    from_output = g_out = gu = gc = gh
    if what.cells:
        gc = np.zeros((D, N, plan.padded), dtype)
        if gcn is not None:
            gc[:, :, :H] = gcn
    if what.projection:
        from_output = aligned(D * plan.packed["from output"], dtype)
        width, subs = int(words[FROM_OUTPUT + WIDTH]) // size, int(words[FROM_OUTPUT + SUB_PANELS])
        for d, weight in enumerate(weights):
            _PACK_ROWS[dtype](
                1, weight.w_hr, from_output[d * plan.packed["from output"] :], H, P, P, 1, X_GATES, width, subs,
                P * width, words,
            )  # fmt: skip
        g_out = aligned(D * T * N * plan.output_padded, dtype)
        gu = np.empty((D, N, plan.padded), dtype)
    da = saved.gates if last and saved.gates is not None else aligned(D * panels * T * N * plan.slots * per_panel, dtype)
    h, c = saved.h, gh if saved.c is None else saved.c
    low, high = what.clip or (0.0, 0.0)
    _BACKWARD[dtype](
        plan.tasks, gh if gy is None else np.ascontiguousarray(gy), int(gy is not None),
        gh if gcells is None else np.ascontiguousarray(gcells), int(gcells is not None),
        da if saved.gates is None else saved.gates, da, h, c, from_gates, from_output, g_out, gh, gu, gc,
        _holes(weights, what, plan, dtype), zeros_of(plan.padded + 128, dtype),
        _all_steps(T, N) if lengths is None else lengths, words, low, high, int(wanted[1]),
        per_thread(plan.scratch, "q"), plan.scratch, _state(plan),
    )  # fmt: skip
    gx = gw = None
    if wanted[0]:
        gx = _input_grad(da, weights, what, plan, x)
    if wanted[3]:
        if lengths is not None:  # the rest of a sequence may hold anything, and 0 times NaN is NaN
            x = np.where((np.arange(T)[:, None] < lengths)[:, :, None], x, x.dtype.type(0))
        gw = _weight_grads(da, np.ascontiguousarray(x), saved, g_out, what, plan)
    gh0 = np.ascontiguousarray(gh[:, :, :P]) if wanted[1] else None
    gc0 = np.ascontiguousarray(gc[:, :, :H]) if wanted[2] and what.cells else None
    return gx, gh0, gc0, gw


def _begin(x: np.ndarray, weights: Sequence[Weights], what: Recurrence, plan: Plan, gates: np.ndarray) -> None:
    """Fill ``gates`` with x W_ih^T and the biases."""
    dtype, words, per_panel, packed = x.dtype.char, plan.words, plan.units_per_panel, plan.packed["x"]
    by_x = aligned(what.directions * packed, dtype)
    row = plan.panels * plan.slots * per_panel
    init = np.zeros(what.directions * row, dtype)
    for d, weight in enumerate(weights):
        given = (weight.b_ih, weight.b_hh) if what.bias else (init, init)
        kind = 0 if not what.bias else 2 if what.mode == "gru" else 1
        _PACK_COLUMNS[dtype](
            plan.panels, weight.w_ih, by_x[d * packed :], *given, init[d * row :], what.input, what.hidden, per_panel,
            int(words[X_SLOTS]), X_GATES, int(words[BY_X + WIDTH]) // x.itemsize, kind, plan.slots, words,
        )  # fmt: skip
    tasks, piece, groups = plan.by_x
    _BY_X[dtype](
        tasks, x, by_x, init, gates, words, what.input, packed, piece, groups, per_thread(plan.scratch, "q"),
        plan.scratch,
    )  # fmt: skip


def _input_grad(da: np.ndarray, weights: Sequence[Weights], what: Recurrence, plan: Plan, x: np.ndarray) -> np.ndarray:
    dtype, words, per_panel = x.dtype.char, plan.words, plan.units_per_panel
    gx, to_x = np.empty(x.shape, dtype), aligned(what.directions * plan.packed["to x"], dtype)
    width, slots = int(words[TO_X + WIDTH]) // x.itemsize, int(words[X_SLOTS])
    one = plan.panels * slots * per_panel * width
    for d, weight in enumerate(weights):
        _PACK_ROWS[dtype](
            plan.panels, weight.w_ih, to_x[d * one :], what.input, what.hidden, per_panel, slots, X_GATES, width,
            int(words[TO_X + SUB_PANELS]), what.directions * one, words,
        )  # fmt: skip
    tasks, piece = plan.to_x
    _TO_X[dtype](
        tasks, da, to_x, gx, zeros_of(what.input + 128, dtype), words, what.input, piece, per_thread(plan.scratch, "q"),
        plan.scratch,
    )  # fmt: skip
    return gx


def _weight_grads(
    da: np.ndarray, x: np.ndarray, saved: _Saved, g_out: np.ndarray, what: Recurrence, plan: Plan
) -> list[Weights]:
    T, N, _ = x.shape
    D, P, H, rows, dtype = what.directions, what.output, what.hidden, what.gates * what.hidden, x.dtype.char
    w_ih, w_hh = _matrices(D, rows, what.input, dtype), _matrices(D, rows, P, dtype)
    w_hr = np.empty((D, P, H), dtype) if what.projection else None
    words, tasks, memory = weight_plan(what, T, N, dtype)
    _WEIGHT_GRADS[dtype](
        tasks, da, x, saved.h, g_out, g_out if saved.u is None else saved.u, w_ih, w_hh, w_ih if w_hr is None else w_hr,
        zeros_of(max(H, what.input) + 128, dtype), words, per_thread(memory, dtype), memory,
        per_thread(plan.scratch, "q"), plan.scratch,
    )  # fmt: skip
    biases, holes = (np.empty((D, rows), dtype) for _ in range(2)), np.empty((D, what.gates - 1, H), dtype)
    b_ih, b_hh = biases
    if what.bias:
        memory = 4 * _MOST_LANES
        _BIAS_GRAD[dtype](D * plan.panels, da, b_ih, b_hh, plan.words, per_thread(memory, dtype), memory)
    if what.peephole:
        _PEEPHOLE_GRAD[dtype](D * plan.panels, da, saved.c, holes, plan.words)
    return [
        Weights(
            w_ih[d],
            w_hh[d],
            b_ih[d] if what.bias else None,
            b_hh[d] if what.bias else None,
            None if w_hr is None else w_hr[d],
            holes[d] if what.peephole else None,
        )  # fmt: skip
        for d in range(D)
    ]


def _matrices(count: int, rows: int, columns: int, dtype: str) -> np.ndarray:
    """Fresh matrices, from a cache line on; large ones stay as they are: their memory is the system's, page by page."""
    size = count * rows * columns
    memory = aligned(size, dtype) if size < _LARGE else np.empty(size, dtype)
    return memory.reshape(count, rows, columns)


def _contiguous(weights: Weights) -> Weights:
    return Weights(*(None if array is None else np.ascontiguousarray(array) for array in weights))


def _holes(weights: Sequence[Weights], what: Recurrence, plan: Plan, dtype: str) -> np.ndarray:
    """The peepholes, filled up to whole panels."""
    if not what.peephole:
        return zeros_of(1, dtype)
    holes = np.zeros((what.directions, 3, plan.padded), dtype)
    for d, weight in enumerate(weights):
        holes[d, : what.gates - 1, : what.hidden] = weight.peephole
    return holes


@lru_cache(maxsize=64)
def _all_steps(steps: int, rows: int) -> np.ndarray:
    """Lengths of sequences that end with the last step; nobody writes to it."""
    return np.full(rows, steps, np.int64)


def _state(plan: Plan) -> np.ndarray:
    """What the tasks of a chain have claimed and done; of one call alone."""
    return np.zeros(plan.state, np.int64) if plan.words[COLUMN_BLOCKS] > 1 else _NO_INTEGERS


def _all_cells(c: np.ndarray, lengths: np.ndarray | None, what: Recurrence) -> np.ndarray:
    D, T, N, H = what.directions, c.shape[1] - 1, c.shape[2], what.hidden
    cells = np.empty((T, N, D, H), c.dtype)
    for d, reverse in enumerate(what.reverse):
        cells[:, :, d] = (c[d, :-1] if reverse else c[d, 1:])[:, :, :H]
    if lengths is not None:
        cells[np.arange(T)[:, None] >= lengths] = 0
    return cells.reshape(T, N, D * H)


def _of_no_rows(
    x: np.ndarray, what: Recurrence, cells: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None, object]:
    D, P, H = what.directions, what.output, what.hidden
    cn = np.zeros((D, 0, H), x.dtype) if what.cells else None
    all_cells = np.zeros((len(x), 0, D * H), x.dtype) if cells else None
    return np.zeros((len(x), 0, D * P), x.dtype), np.zeros((D, 0, P), x.dtype), cn, all_cells, None


def _grad_of_no_rows(
    x: np.ndarray, weights: Sequence[Weights], what: Recurrence, wanted: tuple[bool, bool, bool, bool]
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None, list[Weights] | None]:
    zeros = [Weights(*(None if array is None else np.zeros_like(array) for array in w)) for w in weights]
    gh0 = np.zeros((what.directions, 0, what.output), x.dtype) if wanted[1] else None
    gc0 = np.zeros((what.directions, 0, what.hidden), x.dtype) if wanted[2] and what.cells else None
    return np.zeros_like(x) if wanted[0] else None, gh0, gc0, zeros if wanted[3] else None
