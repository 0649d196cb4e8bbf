"""A recurrent layer in operators, step by step: every option, and derivatives of every order.

It defines what the fused kernels must equal, takes over from them where a gradient is itself differentiated, and runs
layer normalisation, zoneout, recurrent dropout and the GRU whose reset gate stands before the product.

Source: J. Ba et al., "Layer Normalization", 2016, arXiv:1607.06450; D. Krueger et al., "Zoneout: Regularizing RNNs by
Randomly Preserving Hidden Activations", 2016, arXiv:1606.01305; Y. Gal, Z. Ghahramani, "A Theoretically Grounded
Application of Dropout in Recurrent Neural Networks", 2016 (one mask for all steps).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..engine.tensor import Tensor, wrap
from ..recurrence import Recurrence, Weights
from .group_norm import layer_norm
from .join import Cat, Split, Stack, Unbind
from .matmul import Linear
from .piecewise import clamp, where
from .random import default_generator
from .rectifier import relu
from .selection import MaskedFill, masked_fill
from .transcendental import sigmoid
from .trigonometry import tanh

__all__ = ["Masks", "composed", "draw_masks", "in_evaluation"]


class Masks(NamedTuple):
    """What a layer drew for one sequence of calls; None for what it does not have."""

    recurrent: Tensor | None = None  # (D, N, O): 0 where h' is dropped on its way into W_hh, 1/(1 - p) elsewhere
    cell: Tensor | None = None  # (D, T, N, H) bool: where the cell state keeps its value
    hidden: Tensor | None = None  # (D, T, N, O) bool: where the hidden state does


def draw_masks(x: Tensor, what: Recurrence, recurrent: Tensor | None = None) -> Masks | None:
    """The masks of zoneout and recurrent dropout for x (T, N, I) from the default generator; None without them.

    recurrent: the mask of recurrent dropout, if steps before x drew it.
    """
    steps, batch = x.array.shape[:2]
    p, (of_cell, of_hidden), dtype = what.recurrent_dropout, what.zoneout, x.array.dtype

    def drawn(chance: float, *shape: int) -> np.ndarray | None:
        if not chance:
            return None
        found = np.empty(math.prod(shape), bool)
        for begin in range(0, found.size, 1 << 16):  # not all at once: a number takes eight times what is kept of it
            piece = found[begin : begin + (1 << 16)]
            np.less(default_generator.random(piece.size), chance, out=piece)
        return found.reshape(shape)

    if recurrent is None and p:
        dropped: Any = drawn(p, what.directions, batch, what.output)
        recurrent = wrap(np.where(dropped, 0, 1 / (1 - p)).astype(dtype))
    cell = drawn(of_cell, what.directions, steps, batch, what.hidden)
    hidden = drawn(of_hidden, what.directions, steps, batch, what.output)
    if recurrent is None and cell is None and hidden is None:
        return None
    return Masks(recurrent, None if cell is None else wrap(cell), None if hidden is None else wrap(hidden))


@lru_cache(maxsize=4096)
def in_evaluation(what: Recurrence) -> Recurrence:
    """The layer without the dropout whose expectation is to do nothing; zoneout then mixes the old with the new."""
    return replace(what, recurrent_dropout=0.0) if what.recurrent_dropout else what


class _Product(NamedTuple):
    """W x + b, or gain * normalised W x + b."""

    w: Tensor
    b: Tensor | None
    gain: Tensor | None
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        if self.gain is None:
            return Linear.apply(x, self.w, self.b)
        return layer_norm(Linear.apply(x, self.w, None), self.w.array.shape[0], self.gain, self.b, self.eps)


def composed(
    x: Tensor, h0: Tensor | None, c0: Tensor | None, weights: Sequence[Weights], what: Recurrence,
    lengths: np.ndarray | None = None, cells: bool = False, masks: Masks | None = None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """What ``recurrent_layer`` computes, of arguments that it has checked."""
    steps, batch = x.array.shape[:2]
    absent: list[Tensor | None] = [None] * steps  # (N, 1): the sequences that have ended
    if lengths is not None:
        beyond = np.arange(steps)[:, None, None] >= lengths[:, None]
        x = MaskedFill.apply(x, _zero(x), np.broadcast_to(beyond, x.array.shape))
        absent = [wrap(row) if row.any() else None for row in beyond]
    hs, cs, hn, cn = [], [], [], []
    for d in range(what.directions):
        h = wrap(np.zeros((batch, what.output), x.array.dtype)) if h0 is None else h0[d]
        c = wrap(np.zeros((batch, what.hidden), x.array.dtype)) if c0 is None else c0[d]
        all_h, all_c, h, c = _direction(d, x, h, c, weights[d], what, absent, masks)
        hs.append(Stack.apply(0, *all_h))
        hn.append(h)
        if what.cells:
            cn.append(c)
            if cells:
                cs.append(Stack.apply(0, *all_c))
    return (
        _side_by_side(hs), Stack.apply(0, *hn), Stack.apply(0, *cn) if cn else None, _side_by_side(cs) if cs else None
    )  # fmt: skip


def _direction(
    d: int, x: Tensor, h: Tensor, c: Tensor, w: Weights, what: Recurrence, absent: Sequence[Tensor | None],
    masks: Masks | None,
) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:  # fmt: skip
    """h and c of all steps in the order of time, and the last ones."""
    sums = [Unbind.apply(product(x), 0) for product in _products(w.w_ih, w.b_ih, w.norm_ih, what)]
    products = _products(w.w_hh, w.b_hh, w.norm_hh, what)
    recurrent = None if masks is None or masks.recurrent is None else masks.recurrent[d]
    steps = range(len(absent))
    hs, cs = [h] * len(absent), [c] * len(absent)
    for t in reversed(steps) if what.reverse[d] else steps:
        given = h if recurrent is None else h * recurrent
        ax = [piece[t] for piece in sums]
        c_now = c
        if what.mode == "lstm":
            h_now, c_now = _lstm(ax[0] + products[0](given), c, w, what)
            c_now = _zoned(c, c_now, what.zoneout[0], masks and masks.cell, d, t)
        elif what.mode == "gru":
            h_now = _gru(ax, products, given, h, what)
        else:
            h_now = (tanh if what.mode == "rnn_tanh" else relu)(ax[0] + products[0](given))
        h_now = _zoned(h, h_now, what.zoneout[1], masks and masks.hidden, d, t)
        gone = absent[t]
        h, c = (h_now, c_now) if gone is None else (where(gone, h, h_now), where(gone, c, c_now))
        hs[t], cs[t] = (h, c) if gone is None else (masked_fill(h, gone, 0.0), masked_fill(c, gone, 0.0))
    return hs, cs, h, c


def _lstm(a: Tensor, c: Tensor, w: Weights, what: Recurrence) -> tuple[Tensor, Tensor]:
    *ai, af, ag, ao = Split.apply(a, [what.hidden] * what.gates, 1)
    of_o = None
    if w.peephole is not None:
        *of_i, of_f, of_o = Unbind.apply(w.peephole, 0)
        ai, af = [a + p * c for a, p in zip(ai, of_i, strict=True)], af + of_f * c
    f, g = sigmoid(af), tanh(ag)
    # coupled: f c + (1 - f) g
    c = g + f * (c - g) if what.coupled else f * c + sigmoid(ai[0]) * g
    if what.clip is not None:
        low, high = what.clip
        c = clamp(where(wrap(np.isnan(c.array)), high, c) if what.clip_nan else c, low, high)
    o = sigmoid(ao if of_o is None else ao + of_o * c)
    out = c if w.norm_c is None else layer_norm(c, what.hidden, w.norm_c[0], w.norm_c[1], what.norm)
    h = o * tanh(out)
    return h if w.w_hr is None else Linear.apply(h, w.w_hr, None), c


def _gru(ax: Sequence[Tensor], products: Sequence[_Product], given: Tensor, h: Tensor, what: Recurrence) -> Tensor:
    of_gates, of_n = products
    r, z = Split.apply(sigmoid(ax[0] + of_gates(given)), [what.hidden] * 2, 1)
    n = tanh(ax[1] + (r * of_n(given) if what.reset_after else of_n(r * given)))
    return n + z * (h - n)


def _zoned(before: Tensor, now: Tensor, p: float, mask: Tensor | None, d: int, t: int) -> Tensor:
    """The new state, but the old one where zoneout keeps it; without a mask, the mean of both."""
    if mask is not None:
        return where(wrap(mask.array[d, t]), before, now)
    return now + p * (before - now) if p else now


def _products(w: Tensor, b: Tensor | None, gain: Tensor | None, what: Recurrence) -> list[_Product]:
    """One product for all gates; of a GRU one for r and z, and one for n, which are normalised apart."""
    if what.mode != "gru":
        return [_Product(w, b, gain, what.norm)]
    cut = [2 * what.hidden, what.hidden]
    bs, gains = ((None, None) if whole is None else Split.apply(whole, cut, 0) for whole in (b, gain))
    return [_Product(*piece, what.norm) for piece in zip(Split.apply(w, cut, 0), bs, gains, strict=True)]


def _side_by_side(pieces: list[Tensor]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else Cat.apply(2, *pieces)


def _zero(x: Tensor) -> Tensor:
    return wrap(np.zeros((), x.array.dtype))
