"""A layer of a recurrent network in all its directions: one launch for all steps, forward and backward.

Forward: x W_ih^T and the biases for all steps; then the chain of steps, each of which adds h' W_hh^T to a panel of
gates and computes its units while they are in L1. Backward (``gradient.py``): the same chain in reverse, which gives
the gradients of all pre-activations; then the gradients of x and of the weights as products over all steps. ``plan.py``
defines the memory layout and the cutting of the work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....specs.recurrence import Recurrence, Weights
from ..machine.launch import kernel
from ..machine.scratch import aligned, carved, per_thread
from ..memory.packing import zeros_of
from .operands import Saved, all_steps, contiguous, pack_columns, padded_peepholes, shared_state
from .plan import Plan, recurrent_plan

__all__ = ["recurrent"]

_FORWARD, _FROM_X = kernel("recurrent.recurrent.forward"), kernel("recurrent.products.from_x")


def recurrent(
    x: np.ndarray,
    h0: np.ndarray | None,
    c0: np.ndarray | None,
    weights: Sequence[Weights],
    lengths: np.ndarray | None,
    spec: Recurrence,
    save: bool,
    cells: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None, object]:
    T, N, _ = x.shape
    D, P, H, dtype = len(spec.reverse), spec.output, spec.hidden, x.dtype.char
    cells = cells and spec.cells
    if N == 0:
        return _empty_batch(x, spec, cells)
    plan = recurrent_plan(spec, T, N, dtype, lengths is not None)
    words, projected = plan.words, spec.projection > 0
    weights = [contiguous(w) for w in weights]
    own_y = D > 1 or lengths is not None
    h_ring = T + 1 if save or not own_y else 2
    c_ring = T + 1 if save or cells else 2
    u_ring = T if save else 1
    panel_row = plan.panels * plan.slots * plan.units_per_panel
    gates_kept, u_kept = save and not spec.mode.startswith("rnn"), save and projected
    count, u_count = D * T * N * panel_row, projected * D * u_ring * N * plan.padded
    init, packed, to_output, gates, u = carved(
        dtype,
        D * panel_row,
        max(plan.x.elements, plan.h.elements),
        projected * plan.output.elements,
        0 if gates_kept else count,
        0 if u_kept else u_count,
    )
    init = init[: D * panel_row]  # carved rounds up, and a direction has its part of the whole
    c_count = spec.cells * D * c_ring * N * plan.padded
    kept = aligned(gates_kept * count + c_count, dtype)  # what backward reads
    if gates_kept:
        gates = kept[c_count:]
    if u_kept:
        u = aligned(u_count, dtype)
    scratch, ends = per_thread(plan.scratch, "i8"), all_steps(T, N) if lengths is None else lengths
    _start_gates(np.ascontiguousarray(x, like=x), weights, spec, plan, init, packed, gates, ends, scratch)
    pack_columns([weight.w_hh for weight in weights], plan.h, packed, words)
    if projected:
        pack_columns([weight.w_hr for weight in weights], plan.output, to_output, words)
    h = np.empty((D, h_ring, N, P), dtype, like=x)
    c = kept[:c_count].reshape(D, c_ring, N, plan.padded) if spec.cells else h
    for d, reverse in enumerate(spec.reverse):
        first = T if reverse else 0
        h[d, first % h_ring] = 0 if h0 is None else h0[d]
        if spec.cells:
            c[d, first % c_ring, :, H:] = 0
            c[d, first % c_ring, :, :H] = 0 if c0 is None else c0[d]
    y = np.empty((T, N, D * P), dtype, like=x) if own_y else h[0, :-1] if spec.reverse[0] else h[0, 1:]
    low, high = spec.clip or (0.0, 0.0)
    _FORWARD[dtype](
        plan.tasks,
        gates,
        packed,
        to_output,
        u,
        h,
        c,
        y,
        padded_peepholes(weights, spec, plan, x),
        zeros_of(plan.padded + 128, dtype),
        ends,
        words,
        low,
        high,
        h_ring,
        c_ring,
        u_ring,
        int(own_y),
        scratch,
        plan.scratch,
        shared_state(plan, x),
    )
    hn = np.empty((D, N, P), dtype, like=x)
    cn = np.empty((D, N, H), dtype, like=x) if spec.cells else None
    for d, reverse in enumerate(spec.reverse):
        last = 0 if reverse else T
        hn[d] = h[d, last % h_ring]
        if cn is not None:
            cn[d] = c[d, last % c_ring, :, :H]
    saved = None
    if save:
        projected_u = u.reshape(D, u_ring, N, plan.padded) if projected else None
        saved = Saved(gates if gates_kept else None, h, c if spec.cells else None, projected_u)
    return y, hn, cn, _all_cells(c, lengths, spec) if cells else None, saved


def _start_gates(
    x: np.ndarray,
    weights: Sequence[Weights],
    spec: Recurrence,
    plan: Plan,
    init: np.ndarray,
    packed: np.ndarray,
    gates: np.ndarray,
    ends: np.ndarray,
    scratch: np.ndarray,
) -> None:
    """Fill ``gates`` with x W_ih^T and the biases, at the active steps."""
    matrices = [weight.w_ih for weight in weights]
    if spec.bias:
        biases, kind = [(weight.b_ih, weight.b_hh) for weight in weights], 2 if spec.mode == "gru" else 1
        pack_columns(matrices, plan.x, packed, plan.words, biases, init, kind, plan.slots)
    else:
        init.fill(0)
        pack_columns(matrices, plan.x, packed, plan.words)
    tasks, piece, groups = plan.from_x_tasks
    _FROM_X[x.dtype.char](
        tasks, x, packed, init, gates, plan.words, spec.input, plan.x.step, piece, groups, ends, scratch, plan.scratch
    )


def _all_cells(c: np.ndarray, lengths: np.ndarray | None, spec: Recurrence) -> np.ndarray:
    D, T, N, H = spec.directions, c.shape[1] - 1, c.shape[2], spec.hidden
    cells = np.empty((T, N, D, H), c.dtype, like=c)
    for d, reverse in enumerate(spec.reverse):
        cells[:, :, d] = (c[d, :-1] if reverse else c[d, 1:])[:, :, :H]
    if lengths is not None:
        cells[np.arange(T)[:, None] >= lengths] = 0
    return cells.reshape(T, N, D * H)


def _empty_batch(
    x: np.ndarray, spec: Recurrence, cells: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None, object]:
    D, P, H = spec.directions, spec.output, spec.hidden
    cn = np.zeros((D, 0, H), x.dtype, like=x) if spec.cells else None
    all_cells = np.zeros((len(x), 0, D * H), x.dtype, like=x) if cells else None
    return np.zeros((len(x), 0, D * P), x.dtype, like=x), np.zeros((D, 0, P), x.dtype, like=x), cn, all_cells, None
