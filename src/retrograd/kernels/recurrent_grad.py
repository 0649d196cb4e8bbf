"""The gradients of a recurrent layer: the chain of steps from its end, then products over all steps.

See ``recurrent.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..recurrence import Recurrence, Weights
from .launch import get_num_threads, kernel
from .packing import zeros_of
from .recurrent_operands import Saved, all_steps, contiguous, holes, pack_rows, shared_state
from .recurrent_plan import Plan, recurrent_plan, weight_plan
from .scratch import aligned, carved, per_thread

__all__ = ["recurrent_grad"]

_BACKWARD, _TO_X = kernel("recurrent.backward"), kernel("recurrent_products.to_x")
_WEIGHT_GRADS, _BIAS_GRAD = kernel("recurrent_products.weight_grads"), kernel("recurrent_products.bias_grad")
_PEEPHOLE_GRAD = kernel("recurrent_products.peephole_grad")
_SUMS = 4 * 16  # elements: a register for each slot
_LARGE = 1 << 20  # elements


def recurrent_grad(
    gy: np.ndarray | None, ghn: np.ndarray | None, gcn: np.ndarray | None, gcells: np.ndarray | None, x: np.ndarray,
    h0: np.ndarray | None, c0: np.ndarray | None, weights: Sequence[Weights], lengths: np.ndarray | None,
    what: Recurrence, saved: object, wanted: tuple[bool, bool, bool, bool], last: bool = False,
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None, list[Weights] | None]:  # fmt: skip
    """gx, gh0, gc0 and the gradients of the weights, from those of y, h_n, c_n and the cells (None: zeros).

    ``wanted``: of x, h0, c0 and the weights; what is not wanted is None. Behind the end of a sequence gx is 0.
    ``last``: ``saved`` will not be read again: the gradients of the gates take their place.
    """
    T, N, _ = x.shape
    D, P, H, dtype = len(what.reverse), what.output, what.hidden, x.dtype.char
    if N == 0:
        return _grad_of_no_rows(x, weights, what, wanted)
    if not isinstance(saved, Saved):
        raise TypeError(
            "recurrent_grad: the forward pass ran on another kernel set; run forward and backward on the same one"
        )
    ragged = lengths is not None
    plan = recurrent_plan(what, T, N, dtype, ragged)
    words, projected = plan.words, what.projection > 0
    weights = [contiguous(w) for w in weights]
    memory = weight_plan(what, T, N, dtype, ragged).memory if wanted[3] else 0
    gh, gc, gu, packed, from_output, g_out, memories = carved(
        dtype, D * N * plan.output_padded, what.cells * D * N * plan.padded, projected * D * N * plan.padded,
        max(plan.from_gates.elements, wanted[0] * plan.to_x.elements), projected * plan.from_output.elements,
        projected * D * T * N * plan.output_padded, max(memory, _SUMS) * get_num_threads(),
    )  # fmt: skip
    scratch, ends = per_thread(plan.scratch, "i8"), all_steps(T, N) if lengths is None else lengths
    pack_rows([weight.w_hh for weight in weights], plan.from_gates, packed, words)
    if projected:
        pack_rows([weight.w_hr for weight in weights], plan.from_output, from_output, words)
    gh_rows = _begun(gh, ghn, D, N, plan.output_padded, P)
    gc_rows = _begun(gc, gcn, D, N, plan.padded, H) if what.cells else gh_rows
    if last and saved.gates is not None:
        da = saved.gates
    else:
        da = aligned(D * plan.panels * T * N * plan.slots * plan.units_per_panel, dtype)
    low, high = what.clip or (0.0, 0.0)
    _BACKWARD[dtype](
        plan.tasks, gh if gy is None else np.ascontiguousarray(gy), int(gy is not None),
        gh if gcells is None else np.ascontiguousarray(gcells), int(gcells is not None),
        da if saved.gates is None else saved.gates, da, saved.h, gh if saved.c is None else saved.c, packed,
        from_output, g_out, gh, gu, gc, holes(weights, what, plan, dtype), zeros_of(plan.padded + 128, dtype),
        ends, words, low, high, int(wanted[1]), scratch, plan.scratch, shared_state(plan),
    )  # fmt: skip
    gx = gw = None
    if wanted[0]:
        pack_rows([weight.w_ih for weight in weights], plan.to_x, packed, words)
        gx, (tasks, piece) = np.empty(x.shape, dtype), plan.to_x_tasks
        _TO_X[dtype](
            tasks, da, packed, gx, zeros_of(what.input + 128, dtype), words, what.input, piece, ends, scratch,
            plan.scratch,
        )  # fmt: skip
    if wanted[3]:
        gw = _weight_grads(da, np.ascontiguousarray(x), saved, g_out, lengths, what, plan, memories, scratch)
    gh0 = gh_rows[:, :, :P].copy() if wanted[1] else None
    gc0 = gc_rows[:, :, :H].copy() if wanted[2] and what.cells else None
    return gx, gh0, gc0, gw


def _begun(
    memory: np.ndarray, given: np.ndarray | None, directions: int, rows: int, width: int, some: int
) -> np.ndarray:
    """The gradient of the last states, in the first ``some`` columns, in rows of ``width``."""
    memory.fill(0)
    filled = memory[: directions * rows * width].reshape(directions, rows, width)
    if given is not None:
        filled[:, :, :some] = given
    return filled


def _weight_grads(
    da: np.ndarray, x: np.ndarray, saved: Saved, g_out: np.ndarray, lengths: np.ndarray | None, what: Recurrence,
    plan: Plan, memories: np.ndarray, scratch: np.ndarray,
) -> list[Weights]:  # fmt: skip
    T, N, _ = x.shape
    D, P, H, rows, dtype = len(what.reverse), what.output, what.hidden, what.gates * what.hidden, x.dtype.char
    w_ih, w_hh = _matrices(D, rows, what.input, dtype), _matrices(D, rows, P, dtype)
    w_hr = np.empty((D, P, H), dtype) if what.projection else None
    words, tasks, memory = weight_plan(what, T, N, dtype, lengths is not None)
    some, count = words, T * N
    if lengths is not None:  # what stands behind the end of a sequence may be anything
        some = np.flatnonzero(np.arange(T)[:, None] < lengths)
        count = some.size
    _WEIGHT_GRADS[dtype](
        tasks, da, x, saved.h, g_out, g_out if saved.u is None else saved.u, w_ih, w_hh, w_ih if w_hr is None else w_hr,
        zeros_of(max(H, what.input) + 128, dtype), words, some, count, memories, memory, scratch, plan.scratch,
    )  # fmt: skip
    if count == 0:
        for matrix in (w_ih, w_hh, w_hr):
            if matrix is not None:
                matrix.fill(0)
    b_ih = b_hh = peephole = None
    if what.bias:
        b_ih, b_hh = np.empty((D, rows), dtype), np.empty((D, rows), dtype)
        _BIAS_GRAD[dtype](D * plan.panels, da, b_ih, b_hh, plan.words, memories, _SUMS)
    if what.peephole:
        peephole = np.empty((D, what.gates - 1, H), dtype)
        _PEEPHOLE_GRAD[dtype](D * plan.panels, da, saved.c, peephole, plan.words)
    found = (w_ih, w_hh, b_ih, b_hh, w_hr, peephole)
    return [Weights(*[None if array is None else array[d] for array in found]) for d in range(D)]


def _matrices(count: int, rows: int, columns: int, dtype: str) -> np.ndarray:
    """Fresh matrices, from a cache line on; large ones stay as they are: their memory is the system's, page by page."""
    size = count * rows * columns
    memory = aligned(size, dtype) if size < _LARGE else np.empty(size, dtype)
    return memory.reshape(count, rows, columns)


def _grad_of_no_rows(
    x: np.ndarray, weights: Sequence[Weights], what: Recurrence, wanted: tuple[bool, bool, bool, bool]
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None, list[Weights] | None]:
    zeros = [Weights(*(None if array is None else np.zeros_like(array) for array in w)) for w in weights]
    gh0 = np.zeros((what.directions, 0, what.output), x.dtype) if wanted[1] else None
    gc0 = np.zeros((what.directions, 0, what.hidden), x.dtype) if wanted[2] and what.cells else None
    return np.zeros_like(x) if wanted[0] else None, gh0, gc0, zeros if wanted[3] else None
