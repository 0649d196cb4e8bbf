"""A recurrent layer in all its directions, and its gradients by backpropagation through time.

T steps, N sequences, I inputs, H units, O outputs (H, or the width of a projection), D directions, G gates. With the
step's input x, what the step before put out h', and its cell state c',

    ax = W_ih x + b_ih,    ah = W_hh h' + b_hh            (G*H,) each, in the order of the gates

a cell makes h and c of ax, ah and c'. Backwards, from the last step to the first, a cell's gradient makes gax, gah and
gc' of gh and gc, and what flows to the step before is

    gh' = W_hhT gah  (+ what h' does in the cell itself)

while over all steps

    gW_ih = sum gax xT,    gW_hh = sum gah h'T,    gb_ih = sum gax,    gb_hh = sum gah,    gx = W_ihT gax

A direction that reads from the end is the same with time reversed. A sequence shorter than T carries its state through
the steps that it lacks, unchanged; there its y is 0.

Source: P. Werbos, "Backpropagation through time: what it does and how to do it", 1990; see also retrograd.recurrence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..formulas.primitive import sigmoid
from ..recurrence import Recurrence, Weights
from .ieee import ieee

__all__ = ["recurrent", "recurrent_grad"]

Arrays = tuple[np.ndarray, ...]


class Saved(NamedTuple):
    """What the forward pass of a direction keeps, in the order of its steps."""

    gates: Arrays  # each (T, N, H)
    h: np.ndarray  # (T + 1, N, O): before each step, and at the end
    c: np.ndarray  # (T + 1, N, H)


def lstm_cell(a: np.ndarray, c_before: np.ndarray, peephole: Any, what: Recurrence) -> tuple[Arrays, Any, Any]:
    """The gates i, f, g, o of their sums a = ax + ah; the cell state c, and the output o tanh(c)."""
    *ai, af, ag, ao = np.split(a, what.gates, -1)
    of_i, of_f, of_o = _peephole(peephole, what)
    f = sigmoid(_seeing(af, of_f, c_before))
    i = 1 - f if what.coupled else sigmoid(_seeing(ai[0], of_i, c_before))
    g = np.tanh(ag)
    c = _clipped(f * c_before + i * g, what)
    o = sigmoid(_seeing(ao, of_o, c))
    return (i, f, g, o), c, o * np.tanh(c)


def lstm_cell_grad(
    gh: np.ndarray, gc: np.ndarray, gates: Arrays, c_before: np.ndarray, c: np.ndarray, peephole: Any, what: Recurrence
) -> tuple[np.ndarray, np.ndarray]:
    """The gradients to the sums of the gates (N, G*H), and to c_before, of those to o tanh(c) and to c."""
    i, f, g, o = gates
    of_i, of_f, of_o = _peephole(peephole, what)
    t = np.tanh(c)
    ao = gh * t * o * (1 - o)
    gc = _seeing(gc + gh * o * (1 - t * t), of_o, ao)
    gc = np.where(_inside(f * c_before + i * g, what), gc, 0)
    ag = gc * i * (1 - g * g)
    if what.coupled:
        af = gc * (c_before - g) * f * (1 - f)
        return np.concatenate((af, ag, ao), -1), _seeing(gc * f, of_f, af)
    ai = gc * g * i * (1 - i)
    af = gc * c_before * f * (1 - f)
    return np.concatenate((ai, af, ag, ao), -1), _seeing(_seeing(gc * f, of_i, ai), of_f, af)


def gru_cell(ax: np.ndarray, ah: np.ndarray, h_before: np.ndarray) -> tuple[Arrays, np.ndarray]:
    """The gates r, z, n, with m = W_hn h' + b_hn; the output (1 - z) n + z h'."""
    (xr, xz, xn), (hr, hz, m) = np.split(ax, 3, -1), np.split(ah, 3, -1)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    n = np.tanh(xn + r * m)
    return (r, z, n, m), (1 - z) * n + z * h_before


def gru_cell_grad(gh: np.ndarray, gates: Arrays, h_before: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients to ax and ah, which differ in n, where the reset gate stands between them; and to z's own h'."""
    r, z, n, m = gates
    an = gh * (1 - z) * (1 - n * n)
    ar = an * m * r * (1 - r)
    az = gh * (h_before - n) * z * (1 - z)
    return np.concatenate((ar, az, an), -1), np.concatenate((ar, az, an * r), -1), gh * z


def rnn_cell_grad(gh: np.ndarray, h: np.ndarray, mode: str) -> np.ndarray:
    """The gradient to a, where h = tanh(a) or max(a, 0)."""
    return gh * (1 - h * h) if mode == "rnn_tanh" else np.where(h <= 0, 0, gh)


@ieee
def recurrent(
    x: np.ndarray, h0: np.ndarray | None, c0: np.ndarray | None, weights: Sequence[Weights],
    lengths: np.ndarray | None, what: Recurrence, save: bool, cells: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None, list[Saved] | None]:  # fmt: skip
    """y (T, N, D*O), hn (D, N, O), cn (D, N, H) or None, all cell states (T, N, D*H) or None, and what is saved.

    x (T, N, I), h0 (D, N, O) and c0 (D, N, H) or None for zeros, lengths (N,) or None.
    """
    there = _there(x, lengths)
    x = np.where(there, x, 0)  # what is no part of a sequence may be anything, NaN too
    done = [
        _forward(_in_order(x, back), _first(h0, d, x, what.output), _first(c0, d, x, what.hidden), weights[d],
                 _in_order(there, back), what)
        for d, back in enumerate(what.reverse)
    ]  # fmt: skip
    pairs = list(zip(done, what.reverse, strict=True))
    y = np.concatenate([_in_order(saved.h[1:], back) for saved, back in pairs], -1)
    hn, cn, states = np.stack([saved.h[-1] for saved in done]), None, None
    if what.cells:
        cn = np.stack([saved.c[-1] for saved in done])
        if cells:
            states = np.where(there, np.concatenate([_in_order(saved.c[1:], back) for saved, back in pairs], -1), 0)
    return np.where(there, y, 0), hn, cn, states, done if save else None


def _forward(
    x: np.ndarray, h: np.ndarray, c: np.ndarray, w: Weights, there: np.ndarray, what: Recurrence
) -> Saved:  # fmt: skip
    hs, cs, gates = [h], [c], []
    for now, ax in zip(there, _affine(x, w.w_ih, w.b_ih), strict=True):
        ah = _affine(h, w.w_hh, w.b_hh)
        if what.mode == "lstm":
            kept, c_now, h_now = lstm_cell(ax + ah, c, w.peephole, what)
            h_now = h_now if w.w_hr is None else h_now @ w.w_hr.T
            c = np.where(now, c_now, c)
            cs.append(c)
        elif what.mode == "gru":
            kept, h_now = gru_cell(ax, ah, h)
        else:
            kept, h_now = (), np.tanh(ax + ah) if what.mode == "rnn_tanh" else np.maximum(ax + ah, 0)
        h = np.where(now, h_now, h)
        hs.append(h)
        gates.append(kept)
    return Saved(tuple(np.stack(gate) for gate in zip(*gates, strict=True)), np.stack(hs), np.stack(cs))


@ieee
def recurrent_grad(
    gy: np.ndarray | None, ghn: np.ndarray | None, gcn: np.ndarray | None, gcells: np.ndarray | None,
    x: np.ndarray, h0: np.ndarray | None, c0: np.ndarray | None, weights: Sequence[Weights],
    lengths: np.ndarray | None, what: Recurrence, saved: list[Saved], wanted: tuple[bool, bool, bool, bool],
    last: bool = False,
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None, list[Weights] | None]:  # fmt: skip
    """The gradients to x, h0, c0 and the weights; None for what is not wanted.

    last: ``saved`` will not be read again, and may be written over; here it never is.
    """
    if not (isinstance(saved, list) and isinstance(saved[0], Saved)):
        raise TypeError(
            "recurrent_grad: the forward pass ran on another kernel set; run forward and backward on the same one"
        )
    steps, there = x.shape[0], _there(x, lengths)
    x = np.where(there, x, 0)
    gx = np.zeros_like(x) if wanted[0] else None
    gh0, gc0, found = [], [], []
    for d, back in enumerate(what.reverse):
        gys = _steps(gy, d, (steps, x.shape[1], what.output), x, there)
        gcs = _steps(gcells, d, (steps, x.shape[1], what.hidden), x, there)
        gh, gc = _first(ghn, d, x, what.output), _first(gcn, d, x, what.hidden)
        gax, gah, gh, gc, gw_hr = _backward(
            _in_order(gys, back), gh, _in_order(gcs, back), gc, weights[d], saved[d], _in_order(there, back), what
        )
        gh0.append(gh)
        gc0.append(gc)
        if wanted[3]:
            found.append(_weight_grads(gax, gah, _in_order(x, back), weights[d], saved[d], gw_hr, what))
        if gx is not None:
            gx += _in_order(gax @ weights[d].w_ih, back)
    some_h0, some_c0 = wanted[1], wanted[2] and what.cells
    return gx, np.stack(gh0) if some_h0 else None, np.stack(gc0) if some_c0 else None, found if wanted[3] else None


def _backward(
    gy: np.ndarray, gh: np.ndarray, gcells: np.ndarray, gc: np.ndarray, w: Weights, saved: Saved, there: np.ndarray,
    what: Recurrence,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The gradients to ax and ah of all steps (T, N, G*H), to the first h and c, and to W_hr."""
    gaxs, gahs = [], []
    gw_hr: Any = 0
    gh_before: Any
    for t in reversed(range(len(gy))):
        now, h_before, c_before = there[t], saved.h[t], saved.c[t if what.cells else 0]
        gates = tuple(gate[t] for gate in saved.gates)
        gh, gc = gh + gy[t], gc + gcells[t]
        if what.mode == "lstm":
            gm = gh
            if w.w_hr is not None:
                m = gates[3] * np.tanh(saved.c[t + 1])
                gw_hr = gw_hr + np.where(now, gh, 0).T @ m
                gm = gh @ w.w_hr
            gax, gc_before = lstm_cell_grad(gm, gc, gates, c_before, saved.c[t + 1], w.peephole, what)
            gah, gh_before = gax, 0
            gc = np.where(now, gc_before, gc)
        elif what.mode == "gru":
            gax, gah, gh_before = gru_cell_grad(gh, gates, h_before)
        else:
            gax = rnn_cell_grad(gh, saved.h[t + 1], what.mode)
            gah, gh_before = gax, 0
        gax, gah = np.where(now, gax, 0), np.where(now, gah, 0)
        gh = np.where(now, gah @ w.w_hh + gh_before, gh)
        gaxs.append(gax)
        gahs.append(gah)
    return np.stack(gaxs[::-1]), np.stack(gahs[::-1]), gh, gc, gw_hr


def _weight_grads(
    gax: np.ndarray, gah: np.ndarray, x: np.ndarray, w: Weights, saved: Saved, gw_hr: np.ndarray, what: Recurrence
) -> Weights:  # fmt: skip
    peephole = None
    if w.peephole is not None:
        sums = np.split(gax, what.gates, -1)
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


def _peephole(peephole: Any, what: Recurrence) -> tuple[Any, Any, Any]:
    """How i, f and o see the cell state."""
    if peephole is None:
        return None, None, None
    return (None, *peephole) if what.coupled else tuple(peephole)


def _seeing(sums: np.ndarray, peephole: np.ndarray | None, c: np.ndarray) -> np.ndarray:
    return sums if peephole is None else sums + peephole * c


def _clipped(c: np.ndarray, what: Recurrence) -> np.ndarray:
    if what.clip is None:
        return c
    low, high = what.clip
    return np.clip(np.where(np.isnan(c), high, c) if what.clip_nan else c, low, high).astype(c.dtype, copy=False)


def _inside(c: np.ndarray, what: Recurrence) -> Any:
    """Where the clipping lets c through, its ends included, and NaN not."""
    return True if what.clip is None else (what.clip[0] <= c) & (c <= what.clip[1])


def _there(x: np.ndarray, lengths: np.ndarray | None) -> np.ndarray:
    """Which steps are part of the sequences: (T, N, 1)."""
    steps, batch = x.shape[:2]
    return np.arange(steps)[:, None, None] < (np.full(batch, steps) if lengths is None else lengths)[:, None]


def _in_order(array: np.ndarray, reverse: bool) -> np.ndarray:
    """An array over time in the order of a direction's steps, or back."""
    return array[::-1] if reverse else array


def _first(state: np.ndarray | None, d: int, x: np.ndarray, width: int) -> np.ndarray:
    return np.zeros((x.shape[1], width), x.dtype) if state is None else state[d]


def _steps(g: np.ndarray | None, d: int, shape: tuple[int, ...], x: np.ndarray, there: np.ndarray) -> np.ndarray:
    """A direction's part of the gradient to what all steps put out; there is none beyond a sequence."""
    if g is None:
        return np.zeros(shape, x.dtype)
    return np.where(there, g[..., d * shape[2] : (d + 1) * shape[2]], 0)
