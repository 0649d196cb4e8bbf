"""A recurrent layer in all its directions, and its gradients by backpropagation through time.

T steps, N sequences, I inputs, H units, O outputs (H, or the width of a projection), D directions, G gates. With the
step's input x, and the output h' and the cell state c' of the previous step,

    ax = W_ih x + b_ih,    ah = W_hh h' + b_hh            (G*H,) each, in the order of the gates

a cell computes h and c from ax, ah and c'. Backward, from the last step to the first, its gradient gives gax, gah and
gc' from gh and gc, and the previous step gets

    gh' = W_hhT gah  (+ the gradient to h' within the cell)

while over all steps

    gW_ih = sum gax xT,    gW_hh = sum gah h'T,    gb_ih = sum gax,    gb_hh = sum gah,    gx = W_ihT gax

The reverse direction is the same with time reversed. A sequence shorter than T keeps its state after its
last step; its y is 0 there. ``formulas/gates.py`` has the cells.

Source: P. Werbos, "Backpropagation through time: what it does and how to do it", 1990; see also specs/recurrence.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...formulas.activation import relu, relu_grad
from ...formulas.gates import gru_cell, gru_cell_grad, limited, lstm, lstm_grad, unchanged
from ...formulas.piecewise import clamp, clamp_grad
from ...formulas.primitive import tanh
from ...formulas.transcendental import tanh_grad
from ...specs.recurrence import Recurrence, Weights
from .ieee import ieee

__all__ = ["recurrent", "recurrent_grad"]

Arrays = Sequence[np.ndarray]


class Saved(NamedTuple):
    """The saved tensors of a direction, in the order of its steps."""

    gates: Arrays  # each (T, N, H): i, f, g, o, or n, r, z and W_hn h' + b_hn
    h: np.ndarray  # (T + 1, N, O): before each step, and at the end
    c: np.ndarray  # (T + 1, N, H)
    projected: Arrays  # T of (N, H): the input of the projection


@ieee
def recurrent(
    x: np.ndarray,
    h0: np.ndarray | None,
    c0: np.ndarray | None,
    weights: Sequence[Weights],
    lengths: np.ndarray | None,
    spec: Recurrence,
    save: bool,
    cells: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None, list[Saved] | None]:
    """y (T, N, D*O), hn (D, N, O), cn (D, N, H) or None, all cell states (T, N, D*H) or None, and Saved or None.

    x (T, N, I), h0 (D, N, O) and c0 (D, N, H) or None for zeros, one Weights for each direction, lengths (N,), 1 to T,
    or None.
    """
    active = _active(x, lengths)
    x = np.where(active, x, 0)  # after the end of a sequence x may be anything, even NaN
    done = [
        _forward(
            _in_order(x, back),
            _first(h0, d, x, spec.output),
            _first(c0, d, x, spec.hidden),
            weights[d],
            _in_order(active, back),
            spec,
        )
        for d, back in enumerate(spec.reverse)
    ]
    pairs = list(zip(done, spec.reverse, strict=True))
    y = np.concatenate([_in_order(saved.h[1:], back) for saved, back in pairs], -1)
    hn, cn, states = np.stack([saved.h[-1] for saved in done]), None, None
    if spec.cells:
        cn = np.stack([saved.c[-1] for saved in done])
        if cells:
            states = np.where(active, np.concatenate([_in_order(saved.c[1:], back) for saved, back in pairs], -1), 0)
    return np.where(active, y, 0), hn, cn, states, done if save else None


def _forward(x: np.ndarray, h: np.ndarray, c: np.ndarray, w: Weights, active: np.ndarray, spec: Recurrence) -> Saved:
    hs, cs, gates, projected = [h], [c], [], []
    clip = partial(limited, limits=spec.clip, nan_to_high=spec.clip_nan, clamp=clamp)
    for now, ax in zip(active, _affine(x, w.w_ih, w.b_ih), strict=True):
        ah = _affine(h, w.w_hh, w.b_hh)
        if spec.mode == "lstm":
            sums = np.split(ax + ah, spec.gates, -1)
            kept, c_now, h_now = lstm(sums, c, _peephole(w), clip, unchanged, tanh)
            if w.w_hr is not None:
                projected.append(h_now)
                h_now = h_now @ w.w_hr.T
            c = np.where(now, c_now, c)
            cs.append(c)
        elif spec.mode == "gru":
            (xr, xz, xn), (hr, hz, m) = np.split(ax, 3, -1), np.split(ah, 3, -1)
            *values, h_now = gru_cell(xn, xr + hr, xz + hz, m, h, tanh)
            kept = *values, m
        else:
            kept, h_now = (), (tanh if spec.mode == "rnn_tanh" else relu)(ax + ah)
        h = np.where(now, h_now, h)
        hs.append(h)
        gates.append(kept)
    return Saved([np.stack(gate) for gate in zip(*gates, strict=True)], np.stack(hs), np.stack(cs), projected)


@ieee
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
    saved: list[Saved],
    needs_grad: tuple[bool, bool, bool, bool],
    last: bool = False,
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None, list[Weights] | None]:
    """The gradients to x, h0, c0 and the weights; None where ``needs_grad`` is False.

    last: ``saved`` will not be read again and may be overwritten; unused here.
    """
    if not (isinstance(saved, list) and isinstance(saved[0], Saved)):
        raise TypeError(
            "recurrent_grad: the forward pass ran on another kernel set; run forward and backward on the same one"
        )
    steps, active = x.shape[0], _active(x, lengths)
    x = np.where(active, x, 0)
    gx = np.zeros_like(x) if needs_grad[0] else None
    gh0, gc0, found = [], [], []
    for d, back in enumerate(spec.reverse):
        gys = _steps(gy, d, (steps, x.shape[1], spec.output), x, active)
        gcs = _steps(gcells, d, (steps, x.shape[1], spec.hidden), x, active)
        gh, gc = _first(ghn, d, x, spec.output), _first(gcn, d, x, spec.hidden)
        gax, gah, gh, gc, gw_hr = _backward(
            _in_order(gys, back), gh, _in_order(gcs, back), gc, weights[d], saved[d], _in_order(active, back), spec
        )
        gh0.append(gh)
        gc0.append(gc)
        if needs_grad[3]:
            found.append(_weight_grads(gax, gah, _in_order(x, back), weights[d], saved[d], gw_hr, spec))
        if gx is not None:
            gx += _in_order(gax @ weights[d].w_ih, back)
    some_h0, some_c0 = needs_grad[1], needs_grad[2] and spec.cells
    return gx, np.stack(gh0) if some_h0 else None, np.stack(gc0) if some_c0 else None, found if needs_grad[3] else None


def _backward(
    gy: np.ndarray,
    gh: np.ndarray,
    gcells: np.ndarray,
    gc: np.ndarray,
    w: Weights,
    saved: Saved,
    active: np.ndarray,
    spec: Recurrence,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The gradients to ax and ah of all steps (T, N, G*H), to the first h and c, and to W_hr."""
    gaxs, gahs = [], []
    gw_hr: Any = 0
    gh_before: Any
    for t in reversed(range(len(gy))):
        now, h_before, c_before = active[t], saved.h[t], saved.c[t if spec.cells else 0]
        gates = [gate[t] for gate in saved.gates]
        gh, gc = gh + gy[t], gc + gcells[t]
        if spec.mode == "lstm":
            gm = gh
            if w.w_hr is not None:
                gw_hr = gw_hr + np.where(now, gh, 0).T @ saved.projected[t]
                gm = gh @ w.w_hr
            clip_grad = partial(_clip_grad, spec)
            sums, gc_before = lstm_grad(gm, gc, gates, c_before, saved.c[t + 1], _peephole(w), clip_grad)
            gax = gah = np.concatenate(sums, -1)
            gh_before = 0
            gc = np.where(now, gc_before, gc)
        elif spec.mode == "gru":
            n, r, z, m = gates
            an, ar, az, am, gh_before = gru_cell_grad(gh, n, r, z, m, h_before)
            gax, gah = np.concatenate((ar, az, an), -1), np.concatenate((ar, az, am), -1)
        else:
            gax = gah = (tanh_grad if spec.mode == "rnn_tanh" else relu_grad)(gh, saved.h[t + 1])
            gh_before = 0
        gax, gah = np.where(now, gax, 0), np.where(now, gah, 0)
        gh = np.where(now, gah @ w.w_hh + gh_before, gh)
        gaxs.append(gax)
        gahs.append(gah)
    return np.stack(gaxs[::-1]), np.stack(gahs[::-1]), gh, gc, gw_hr


def _weight_grads(
    gax: np.ndarray, gah: np.ndarray, x: np.ndarray, w: Weights, saved: Saved, gw_hr: np.ndarray, spec: Recurrence
) -> Weights:
    peephole = None
    if w.peephole is not None:
        sums = np.split(gax, spec.gates, -1)
        before = [(a * saved.c[:-1]).sum((0, 1)) for a in sums[:-2]]
        peephole = np.stack([*before, (sums[-1] * saved.c[1:]).sum((0, 1))])
    return Weights(
        w_ih=np.einsum("tng,tni->gi", gax, x),
        w_hh=np.einsum("tng,tno->go", gah, saved.h[:-1]),
        b_ih=None if w.b_ih is None else gax.sum((0, 1)),
        b_hh=None if w.b_hh is None else gah.sum((0, 1)),
        w_hr=None if w.w_hr is None else gw_hr,
        peephole=peephole,
    )


def _affine(x: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    return x @ w.T if b is None else x @ w.T + b


def _peephole(w: Weights) -> Arrays:
    """The rows of the peepholes, if there are any."""
    return () if w.peephole is None else tuple(w.peephole)


def _clip_grad(spec: Recurrence, gc: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The gradient where c is in the range, ends included; 0 elsewhere, and at NaN."""
    return gc if spec.clip is None else clamp_grad(gc, c, *spec.clip)


def _active(x: np.ndarray, lengths: np.ndarray | None) -> np.ndarray:
    """Whether a step is part of its sequence: (T, N, 1)."""
    steps, batch = x.shape[:2]
    ends = np.full(batch, steps, like=x) if lengths is None else lengths
    return np.arange(steps, like=x)[:, None, None] < ends[:, None]


def _in_order(array: np.ndarray, reverse: bool) -> np.ndarray:
    """An array over time in the order of a direction's steps, or back."""
    return array[::-1] if reverse else array


def _first(state: np.ndarray | None, d: int, x: np.ndarray, width: int) -> np.ndarray:
    return np.zeros((x.shape[1], width), x.dtype, like=x) if state is None else state[d]


def _steps(g: np.ndarray | None, d: int, shape: tuple[int, ...], x: np.ndarray, active: np.ndarray) -> np.ndarray:
    """A direction's part of the gradient to the outputs of all steps; 0 after the end of a sequence."""
    if g is None:
        return np.zeros(shape, x.dtype, like=x)
    return np.where(active, g[..., d * shape[2] : (d + 1) * shape[2]], 0)
