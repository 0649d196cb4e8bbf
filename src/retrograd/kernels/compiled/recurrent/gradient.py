"""The gradients of a recurrent layer: the chain of steps in reverse, then products over all steps.

See ``forward.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....specs.recurrence import Recurrence, Weights
from ..machine.launch import get_num_threads, kernel
from ..machine.scratch import aligned, carved, per_thread
from ..memory.packing import zeros_of
from .operands import Saved, all_steps, contiguous, pack_rows, padded_peepholes, shared_state
from .plan import Plan, recurrent_plan, weight_plan

__all__ = ["recurrent_grad"]

_BACKWARD, _TO_X = kernel("recurrent.recurrent.backward"), kernel("recurrent.products.to_x")
_WEIGHT_GRADS, _BIAS_GRAD = kernel("recurrent.products.weight_grads"), kernel("recurrent.products.bias_grad")
_PEEPHOLE_GRAD = kernel("recurrent.products.peephole_grad")
_LARGE = 1 << 20  # elements


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
    wanted: tuple[bool, bool, bool, bool],
    last: bool = False,
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None, list[Weights] | None]:
    T, N, _ = x.shape
    D, P, H, dtype = len(spec.reverse), spec.output, spec.hidden, x.dtype.char
    if N == 0:
        return _empty_batch(x, weights, spec, wanted)
    if not isinstance(saved, Saved):
        raise TypeError(
            "recurrent_grad: the forward pass ran on another kernel set; run forward and backward on the same one"
        )
    ragged = lengths is not None
    plan = recurrent_plan(spec, T, N, dtype, ragged)
    words, projected = plan.words, spec.projection > 0
    weights = [contiguous(w) for w in weights]
    memory = weight_plan(spec, T, N, dtype, ragged).memory if wanted[3] else 0
    gh, gc, gu, packed, from_output, g_out, memories = carved(
        dtype,
        D * N * plan.output_padded,
        spec.cells * D * N * plan.padded,
        projected * D * N * plan.padded,
        max(plan.from_gates.elements, wanted[0] * plan.to_x.elements),
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
        int(wanted[1]),
        scratch,
        plan.scratch,
        shared_state(plan, x),
    )
    gx = gw = None
    if wanted[0]:
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
    if wanted[3]:
        gw = _weight_grads(da, np.ascontiguousarray(x, like=x), saved, g_out, lengths, spec, plan, memories, scratch)
    gh0 = gh_rows[:, :, :P].copy() if wanted[1] else None
    gc0 = gc_rows[:, :, :H].copy() if wanted[2] and spec.cells else None
    return gx, gh0, gc0, gw


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


def _empty_batch(
    x: np.ndarray, weights: Sequence[Weights], spec: Recurrence, wanted: tuple[bool, bool, bool, bool]
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None, list[Weights] | None]:
    zeros = [Weights(*(None if array is None else np.zeros_like(array) for array in w)) for w in weights]
    gh0 = np.zeros((spec.directions, 0, spec.output), x.dtype, like=x) if wanted[1] else None
    gc0 = np.zeros((spec.directions, 0, spec.hidden), x.dtype, like=x) if wanted[2] and spec.cells else None
    return np.zeros_like(x) if wanted[0] else None, gh0, gc0, zeros if wanted[3] else None
