"""Recurrent layers: packed operands, the forward pass, and the gradients.

Forward: x W_ih^T and the biases for all steps; then the chain of steps, each of which adds h' W_hh^T to a panel of
gates and computes its units while they are in L1. Backward: the same chain in reverse, which gives
the gradients of all pre-activations; then the gradients of x and of the weights as products over all steps. ``plan.py``
defines the memory layout and the cutting of the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ....specs.recurrence import Recurrence, Weights
from ..machine.launch import get_num_threads, kernel
from ..machine.prepared import FromPlans, substitute
from ..machine.scratch import aligned, carved, per_thread
from ..memory.packing import zeros_of
from .plan import Packed, Plan, recurrent_plan, weight_plan

__all__ = ["recurrent", "recurrent_grad"]


# ---- The operands that the forward and the backward pass of a recurrent layer prepare -------------------------------

_PACK_COLUMNS, _PACK_ROWS = kernel("recurrent.products.pack_columns"), kernel("recurrent.products.pack_rows")
_NO_INTEGERS = np.zeros(8, np.int64)


Result = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None, object]
_SMALL = 1 << 16  # bytes of x


class Saved(NamedTuple):
    """The saved tensors of the backward pass."""

    gates: np.ndarray | None  # [direction][panel][t][n][slot][unit]; a plain RNN needs only h
    h: np.ndarray  # (D, T+1, N, P)
    c: np.ndarray | None  # (D, T+1, N, padded units)
    u: np.ndarray | None  # (D, T, N, padded units): the input of a projection


def pack_columns(
    matrices: Sequence[np.ndarray],
    to: Packed,
    packed: np.ndarray,
    words: np.ndarray,
    biases: Sequence[Any] = (),
    init: np.ndarray | None = None,
    kind: int = 0,
    slots: int = 0,
) -> None:
    """Pack a matrix of each direction for products with its transpose; with ``init`` also their initial row.

    ``biases``: a pair for each direction; ``kind``: of the compiled kernel; ``slots``: of a panel of ``init``.
    """
    dtype = packed.dtype.char
    row = 0 if init is None else init.size // len(matrices)
    for d, matrix in enumerate(matrices):
        b, b_too = biases[d] if biases else (packed, packed)
        _PACK_COLUMNS[dtype](
            to.tasks,
            matrix,
            packed[d * to.step :] if d else packed,
            b,
            b_too,
            packed if init is None else init[d * row :] if d else init,
            *to.arguments,
            kind,
            slots,
            words,
        )


def pack_rows(matrices: Sequence[np.ndarray], to: Packed, packed: np.ndarray, words: np.ndarray) -> None:
    """Pack a matrix of each direction for products with itself."""
    dtype = packed.dtype.char
    for d, matrix in enumerate(matrices):
        _PACK_ROWS[dtype](to.tasks, matrix, packed[d * to.step :] if d else packed, *to.arguments, words)


def contiguous(weights: Weights) -> Weights:
    for array in weights:
        if array is not None and not array.flags.c_contiguous:
            return Weights(*(None if array is None else np.ascontiguousarray(array, like=array) for array in weights))
    return weights


def padded_peepholes(weights: Sequence[Weights], spec: Recurrence, plan: Plan, x: np.ndarray) -> np.ndarray:
    """The peepholes, padded to whole panels."""
    if not spec.peephole:
        return zeros_of(1, x.dtype.char)
    filled = np.zeros((spec.directions, 3, plan.padded), x.dtype, like=x)
    for d, weight in enumerate(weights):
        filled[d, : spec.gates - 1, : spec.hidden] = weight.peephole
    return filled


@lru_cache(maxsize=64)
def all_steps(steps: int, rows: int) -> np.ndarray:
    """Lengths of full sequences; read-only."""
    return np.full(rows, steps, np.int64)


def shared_state(plan: Plan, x: np.ndarray) -> np.ndarray:
    """The blocks that the tasks of a chain have claimed and finished, for one call."""
    return np.zeros(plan.state, np.int64, like=x) if plan.columns > 1 else _NO_INTEGERS


# ---- A layer of a recurrent network in all its directions -----------------------------------------------------------

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
) -> Result:
    T, N, _ = x.shape
    D, P, H, dtype = len(spec.reverse), spec.output, spec.hidden, x.dtype.char
    cells = cells and spec.cells
    if N == 0:
        return _empty_batch(x, spec, cells)
    plan = recurrent_plan(spec, T, N, dtype, lengths is not None, get_num_threads(), save)
    words, projected = plan.words, spec.projection > 0
    weights = [contiguous(w) for w in weights]
    own_y = D > 1 or lengths is not None
    h_ring = T + 1 if save or not own_y else 2
    c_ring = T + 1 if save or cells else 2
    u_ring = T if save else 1
    gates_kept, u_kept = save and not spec.mode.startswith("rnn"), save and projected
    a_ring = plan.chunk if plan.chunk and not gates_kept else T
    panel_row = plan.panels * plan.slots * plan.units_per_panel
    count, u_count = D * a_ring * N * panel_row, projected * D * u_ring * N * plan.padded
    init, packed, packed_x, to_output, gates, u = carved(
        dtype,
        D * panel_row,
        plan.h.elements if plan.chunk else max(plan.x.elements, plan.h.elements),
        plan.x.elements if plan.chunk else 0,
        projected * plan.output.elements,
        0 if gates_kept else count,
        0 if u_kept else u_count,
    )
    init = init[: D * panel_row]  # ``carved`` rounds up, but the directions divide the array evenly
    c_count = spec.cells * D * c_ring * N * plan.padded
    kept = aligned(gates_kept * count + c_count, dtype)  # what backward reads
    if gates_kept:
        gates = kept[c_count:]
    if u_kept:
        u = aligned(u_count, dtype)
    scratch, ends = per_thread(plan.scratch, "i8"), all_steps(T, N) if lengths is None else lengths
    x = np.ascontiguousarray(x, like=x)
    _pack_input(weights, spec, plan, init, packed_x if plan.chunk else packed)
    if not plan.chunk:
        tasks, piece, groups = plan.from_x_tasks
        _FROM_X[dtype](tasks, x, packed, init, gates, words, piece, groups, ends, scratch, plan.scratch)
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
        x,
        packed_x,
        init,
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
        a_ring,
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


def _is_small(x: np.ndarray, lengths: np.ndarray | None) -> bool:
    """Whether the launches of a layer may be prepared."""
    return lengths is None and 0 < x.nbytes <= _SMALL


def _small_layer(
    x: np.ndarray, h0: np.ndarray | None, c0: np.ndarray | None, flat: tuple[Any, ...], spec: Recurrence, save: bool
) -> tuple[np.ndarray, ...]:
    """The results of a layer, and with ``save`` the saved arrays."""
    y, hn, cn, _, saved = recurrent(x, h0, c0, _by_direction(flat), None, spec, save, False)
    given = (y, hn, cn, *saved) if isinstance(saved, Saved) else (y, hn, cn)
    return tuple([array for array in given if array is not None])


_SMALL_LAYER = FromPlans(_small_layer)


def _by_direction(flat: tuple[Any, ...]) -> list[Weights]:
    count = len(Weights._fields)
    return [Weights(*flat[first : first + count]) for first in range(0, len(flat), count)]


def _direct(
    x: np.ndarray,
    h0: np.ndarray | None,
    c0: np.ndarray | None,
    weights: Sequence[Weights],
    lengths: np.ndarray | None,
    spec: Recurrence,
    save: bool,
    cells: bool,
) -> Result:
    """The layer, without Python code if it is small. Arrays that share memory in its plan may not do so here."""
    if _is_small(x, lengths) and not cells:
        y, hn, *others = _SMALL_LAYER.run(x, h0, c0, (*chain(*weights),), spec, save)
        cn = others.pop(0) if spec.cells else None
        if not save:
            return y, hn, cn, None, None
        gates = None if spec.mode.startswith("rnn") else others.pop(0)
        h, *kept = others
        c = kept.pop(0) if spec.cells else None
        return y, hn, cn, None, Saved(gates, h, c, kept[0] if spec.projection else None)
    return recurrent(x, h0, c0, weights, lengths, spec, save, cells)


substitute(recurrent, _direct)


def _pack_input(weights: Sequence[Weights], spec: Recurrence, plan: Plan, init: np.ndarray, packed: np.ndarray) -> None:
    """Pack W_ih of each direction, and fill ``init`` with the biases, the initial row of the pre-activations."""
    matrices = [weight.w_ih for weight in weights]
    if spec.bias:
        biases, kind = [(weight.b_ih, weight.b_hh) for weight in weights], 2 if spec.mode == "gru" else 1
        pack_columns(matrices, plan.x, packed, plan.words, biases, init, kind, plan.slots)
    else:
        init.fill(0)
        pack_columns(matrices, plan.x, packed, plan.words)


def _all_cells(c: np.ndarray, lengths: np.ndarray | None, spec: Recurrence) -> np.ndarray:
    D, T, N, H = spec.directions, c.shape[1] - 1, c.shape[2], spec.hidden
    cells = np.empty((T, N, D, H), c.dtype, like=c)
    for d, reverse in enumerate(spec.reverse):
        cells[:, :, d] = (c[d, :-1] if reverse else c[d, 1:])[:, :, :H]
    if lengths is not None:
        cells[np.arange(T)[:, None] >= lengths] = 0
    return cells.reshape(T, N, D * H)


def _empty_batch(x: np.ndarray, spec: Recurrence, cells: bool) -> Result:
    D, P, H = spec.directions, spec.output, spec.hidden
    cn = np.zeros((D, 0, H), x.dtype, like=x) if spec.cells else None
    all_cells = np.zeros((len(x), 0, D * H), x.dtype, like=x) if cells else None
    return np.zeros((len(x), 0, D * P), x.dtype, like=x), np.zeros((D, 0, P), x.dtype, like=x), cn, all_cells, None


# ---- The gradients of a recurrent layer: the chain of steps in reverse, then products over all steps ----------------

_BACKWARD, _TO_X = kernel("recurrent.recurrent.backward"), kernel("recurrent.products.to_x")
_WEIGHT_GRADS, _BIAS_GRAD = kernel("recurrent.products.weight_grads"), kernel("recurrent.products.bias_grad")
_PEEPHOLE_GRAD = kernel("recurrent.products.peephole_grad")
_LARGE = 1 << 20  # elements


Gradients = tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None, list[Weights] | None]


def recurrent_grad(
    gy: np.ndarray | None,
    ghn: np.ndarray | None,
    gcn: np.ndarray | None,
    gcells: np.ndarray | None,
    x: np.ndarray,
    h0: np.ndarray | None,
    c0: np.ndarray | None,
    weights: Sequence[Weights],
    lengths: np.ndarray | None,
    spec: Recurrence,
    saved: object,
    needs_grad: tuple[bool, bool, bool, bool],
    last: bool = False,
) -> Gradients:
    T, N, _ = x.shape
    D, P, H, dtype = len(spec.reverse), spec.output, spec.hidden, x.dtype.char
    if N == 0:
        return _empty_batch_grad(x, weights, spec, needs_grad)
    if not isinstance(saved, Saved):
        raise TypeError(
            "recurrent_grad: the forward pass ran on another kernel set; run forward and backward on the same one"
        )
    ragged = lengths is not None
    plan = recurrent_plan(spec, T, N, dtype, ragged, get_num_threads())
    words, projected = plan.words, spec.projection > 0
    weights = [contiguous(w) for w in weights]
    memory = weight_plan(spec, T, N, dtype, ragged).memory if needs_grad[3] else 0
    gh, gc, gu, packed, from_output, g_out, memories = carved(
        dtype,
        D * N * plan.output_padded,
        spec.cells * D * N * plan.padded,
        projected * D * N * plan.padded,
        max(plan.from_gates.elements, needs_grad[0] * plan.to_x.elements),
        projected * plan.from_output.elements,
        projected * D * T * N * plan.output_padded,
        memory * get_num_threads(),
    )
    scratch, ends = per_thread(plan.scratch, "i8"), all_steps(T, N) if lengths is None else lengths
    pack_rows([weight.w_hh for weight in weights], plan.from_gates, packed, words)
    if projected:
        pack_rows([weight.w_hr for weight in weights], plan.from_output, from_output, words)
    gh_rows = _start_gradient(gh, ghn, D, N, plan.output_padded, P)
    gc_rows = _start_gradient(gc, gcn, D, N, plan.padded, H) if spec.cells else gh_rows
    if last and saved.gates is not None:
        da = saved.gates
    else:
        da = aligned(D * plan.panels * T * N * plan.slots * plan.units_per_panel, dtype)
    low, high = spec.clip or (0.0, 0.0)
    _BACKWARD[dtype](
        plan.tasks,
        gh if gy is None else np.ascontiguousarray(gy, like=gy),
        int(gy is not None),
        gh if gcells is None else np.ascontiguousarray(gcells, like=gcells),
        int(gcells is not None),
        da if saved.gates is None else saved.gates,
        da,
        saved.h,
        gh if saved.c is None else saved.c,
        packed,
        from_output,
        g_out,
        gh,
        gu,
        gc,
        padded_peepholes(weights, spec, plan, x),
        zeros_of(plan.padded + 128, dtype),
        ends,
        words,
        low,
        high,
        int(needs_grad[1]),
        scratch,
        plan.scratch,
        shared_state(plan, x),
    )
    gx = gw = None
    if needs_grad[0]:
        pack_rows([weight.w_ih for weight in weights], plan.to_x, packed, words)
        gx, (tasks, piece) = np.empty(x.shape, dtype, like=x), plan.to_x_tasks
        _TO_X[dtype](
            tasks,
            da,
            packed,
            gx,
            zeros_of(spec.input + 128, dtype),
            words,
            spec.input,
            piece,
            ends,
            scratch,
            plan.scratch,
        )
    if needs_grad[3]:
        gw = _weight_grads(da, np.ascontiguousarray(x, like=x), saved, g_out, lengths, spec, plan, memories, scratch)
    gh0 = gh_rows[:, :, :P].copy() if needs_grad[1] else None
    gc0 = gc_rows[:, :, :H].copy() if needs_grad[2] and spec.cells else None
    return gx, gh0, gc0, gw


def _small_layer_grad(
    upstream: tuple[Any, ...],
    arguments: tuple[Any, ...],
    flat: tuple[Any, ...],
    spec: Recurrence,
    saved: tuple[Any, ...],
    needs_grad: tuple[bool, bool, bool, bool],
) -> tuple[np.ndarray, ...]:
    """The gradients that are needed: of x, h0 and c0, and of the weights of each direction."""
    (gy, ghn, gcn), (x, h0, c0), weights = upstream, arguments, _by_direction(flat)
    gx, gh0, gc0, of_weights = recurrent_grad(
        gy, ghn, gcn, None, x, h0, c0, weights, None, spec, Saved(*saved), needs_grad, False
    )
    return tuple([array for array in (gx, gh0, gc0, *chain(*(of_weights or ()))) if array is not None])


_SMALL_GRAD = FromPlans(_small_layer_grad)


def _direct_grad(
    gy: np.ndarray | None,
    ghn: np.ndarray | None,
    gcn: np.ndarray | None,
    gcells: np.ndarray | None,
    x: np.ndarray,
    h0: np.ndarray | None,
    c0: np.ndarray | None,
    weights: Sequence[Weights],
    lengths: np.ndarray | None,
    spec: Recurrence,
    saved: object,
    needs_grad: tuple[bool, bool, bool, bool],
    last: bool = False,
) -> Gradients:
    """The gradients, without Python code if the layer is small."""
    if _is_small(x, lengths) and gcells is None and type(saved) is Saved and (needs_grad[0] or needs_grad[3]):
        needed = needs_grad[0], needs_grad[1], needs_grad[2] and spec.cells
        several = _SMALL_GRAD.run(
            (gy, ghn, gcn), (x, h0, c0), (*chain(*weights),), spec, (*saved,), (*needs_grad,)
        )  # a tuple unless there is only one
        found = iter(several if type(several) is tuple else (several,))
        gx, gh0, gc0 = [next(found) if needs else None for needs in needed]
        if not needs_grad[3]:
            return gx, gh0, gc0, None
        of_weights = [Weights(*[None if array is None else next(found) for array in each]) for each in weights]
        return gx, gh0, gc0, of_weights
    return recurrent_grad(gy, ghn, gcn, gcells, x, h0, c0, weights, lengths, spec, saved, needs_grad, last)


substitute(recurrent_grad, _direct_grad)


def _start_gradient(
    memory: np.ndarray, given: np.ndarray | None, directions: int, rows: int, width: int, some: int
) -> np.ndarray:
    """The gradient of the last states, in the first ``some`` columns, in rows of ``width``."""
    memory.fill(0)
    filled = memory[: directions * rows * width].reshape(directions, rows, width)
    if given is not None:
        filled[:, :, :some] = given
    return filled


def _weight_grads(
    da: np.ndarray,
    x: np.ndarray,
    saved: Saved,
    g_out: np.ndarray,
    lengths: np.ndarray | None,
    spec: Recurrence,
    plan: Plan,
    memories: np.ndarray,
    scratch: np.ndarray,
) -> list[Weights]:
    T, N, _ = x.shape
    D, P, H, rows, dtype = len(spec.reverse), spec.output, spec.hidden, spec.gates * spec.hidden, x.dtype.char
    w_ih, w_hh = _matrices(D, rows, spec.input, x), _matrices(D, rows, P, x)
    w_hr = np.empty((D, P, H), dtype, like=x) if spec.projection else None
    words, tasks, memory = weight_plan(spec, T, N, dtype, lengths is not None)
    some, count = words, T * N
    if lengths is not None:  # after the end of a sequence x may be anything
        some = np.flatnonzero(np.arange(T)[:, None] < lengths)
        count = some.size
    _WEIGHT_GRADS[dtype](
        tasks,
        da,
        x,
        saved.h,
        g_out,
        g_out if saved.u is None else saved.u,
        w_ih,
        w_hh,
        w_ih if w_hr is None else w_hr,
        zeros_of(max(H, spec.input) + 128, dtype),
        words,
        some,
        count,
        memories,
        memory,
        scratch,
        plan.scratch,
    )
    if count == 0:
        for matrix in (w_ih, w_hh, w_hr):
            if matrix is not None:
                matrix.fill(0)
    b_ih = b_hh = peephole = None
    if spec.bias:
        b_ih, b_hh = np.empty((D, rows), dtype, like=x), np.empty((D, rows), dtype, like=x)
        _BIAS_GRAD[dtype](D * plan.panels, da, b_ih, b_hh, plan.words)
    if spec.peephole:
        peephole = np.empty((D, spec.gates - 1, H), dtype, like=x)
        _PEEPHOLE_GRAD[dtype](D * plan.panels, da, saved.c, peephole, plan.words)
    found = (w_ih, w_hh, b_ih, b_hh, w_hr, peephole)
    return [Weights(*[None if array is None else array[d] for array in found]) for d in range(D)]


def _matrices(count: int, rows: int, columns: int, x: np.ndarray) -> np.ndarray:
    """Fresh matrices, aligned to cache lines unless large: the system allocates these in whole pages."""
    size = count * rows * columns
    memory = aligned(size, x.dtype.char) if size < _LARGE else np.empty(size, x.dtype, like=x)
    return memory.reshape(count, rows, columns)


def _empty_batch_grad(
    x: np.ndarray, weights: Sequence[Weights], spec: Recurrence, needs_grad: tuple[bool, bool, bool, bool]
) -> Gradients:
    zeros = [Weights(*(None if array is None else np.zeros_like(array) for array in w)) for w in weights]
    gh0 = np.zeros((spec.directions, 0, spec.output), x.dtype, like=x) if needs_grad[1] else None
    gc0 = np.zeros((spec.directions, 0, spec.hidden), x.dtype, like=x) if needs_grad[2] and spec.cells else None
    return np.zeros_like(x) if needs_grad[0] else None, gh0, gc0, zeros if needs_grad[3] else None
