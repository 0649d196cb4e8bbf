"""A recurrent layer composed of operators, step by step, with all options and derivatives of every order.

The fused kernels must match it. It replaces them for second derivatives, layer normalization, zoneout, recurrent
dropout, and the GRU with the reset gate before the product.

Source: J. Ba et al., "Layer Normalization", 2016, arXiv:1607.06450; D. Krueger et al., "Zoneout: Regularizing RNNs by
Randomly Preserving Hidden Activations", 2016, arXiv:1606.01305; Y. Gal, Z. Ghahramani, "A Theoretically Grounded
Application of Dropout in Recurrent Neural Networks", 2016 (one mask for all steps).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ...arrays import broadcast_to, empty, from_host, full, integers, zeros
from ...engine.tensor import Tensor, wrap
from ...formulas.gates import gru_cell, limited, lstm, mixture_cell, reset
from ...formulas.primitive import tanh
from ...kernel_set import kernels
from ...specs.recurrence import Recurrence, Weights
from ..index.selection import MaskedFill, masked_fill
from ..normalization.layer_norm import layer_norm
from ..pointwise.activation import relu
from ..pointwise.piecewise import clamp, where
from ..product.matmul import linear
from ..random.random import default_generator
from ..shape.join import Cat, Split, Stack, Unbind

__all__ = ["Masks", "composed", "draw_masks", "in_evaluation"]


class Masks(NamedTuple):
    """The masks that a layer drew for one sequence of calls; None for those it does not use."""

    recurrent: Tensor | None = None  # (D, N, O): 0 where h' is dropped before W_hh, 1/(1 - p) elsewhere
    cell: Tensor | None = None  # (D, T, N, H) bool: where the cell state keeps its value
    hidden: Tensor | None = None  # (D, T, N, O) bool: where the hidden state does


def draw_masks(x: Tensor, spec: Recurrence, recurrent: Tensor | None = None) -> Masks | None:
    """Draw the masks of zoneout and recurrent dropout for x (T, N, I), or return None if the layer has neither.

    The masks come from the default generator. recurrent: the mask of recurrent dropout, if an earlier step drew it.
    """
    steps, batch = x.array.shape[:2]
    p, (p_cell, p_hidden), dtype = spec.recurrent_dropout, spec.zoneout, x.array.dtype

    def drawn(chance: float, *shape: int) -> np.ndarray | None:
        if not chance:
            return None
        found = empty(math.prod(shape), np.bool_, like=x.array)
        limit = full((), chance, like=x.array)
        for begin in range(0, found.size, 1 << 16):  # in pieces, because a float takes eight times the memory of a bool
            piece = found[begin : begin + (1 << 16)]
            uniform = from_host(default_generator.random(piece.size), like=x.array)
            kernels.copy(piece, kernels.bernoulli(uniform, limit, found.dtype))
        return found.reshape(shape)

    if recurrent is None and p:
        dropped: Any = drawn(p, spec.directions, batch, spec.output)
        recurrent = wrap(kernels.choose(dropped, 0, 1 / (1 - p), dtype))
    cell = drawn(p_cell, spec.directions, steps, batch, spec.hidden)
    hidden = drawn(p_hidden, spec.directions, steps, batch, spec.output)
    if recurrent is None and cell is None and hidden is None:
        return None
    return Masks(recurrent, None if cell is None else wrap(cell), None if hidden is None else wrap(hidden))


@lru_cache(maxsize=4096)
def in_evaluation(spec: Recurrence) -> Recurrence:
    """Return ``spec`` for evaluation: without recurrent dropout. (Zoneout then mixes old and new states.)"""
    return replace(spec, recurrent_dropout=0.0) if spec.recurrent_dropout else spec


class _Product(NamedTuple):
    """W x + b, or gain * normalized W x + b."""

    w: Tensor
    b: Tensor | None
    gain: Tensor | None
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        if self.gain is None:
            return linear(x, self.w, self.b)
        return layer_norm(linear(x, self.w), self.w.array.shape[0], self.gain, self.b, self.eps)


def composed(
    x: Tensor,
    h0: Tensor | None,
    c0: Tensor | None,
    weights: Sequence[Weights],
    spec: Recurrence,
    lengths: np.ndarray | None = None,
    cells: bool = False,
    masks: Masks | None = None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Compute ``recurrent_layer`` with arguments that it has checked."""
    steps, batch = x.array.shape[:2]
    ended: list[Tensor | None] = [None] * steps  # (N, 1): the sequences that have ended
    if lengths is not None:
        padding = kernels.steps_after(lengths, steps)
        x = MaskedFill.apply(x, _zero(x), broadcast_to(padding, x.array.shape))
        shortest = min(integers(lengths, "when the first sequence ends"), default=steps)
        ended = [wrap(row) if t >= shortest else None for t, row in enumerate(padding)]
    hs, cs, hn, cn = [], [], [], []
    for d in range(spec.directions):
        h = wrap(zeros((batch, spec.output), x.array.dtype, like=x.array)) if h0 is None else h0[d]
        c = wrap(zeros((batch, spec.hidden), x.array.dtype, like=x.array)) if c0 is None else c0[d]
        all_h, all_c, h, c = _direction(d, x, h, c, weights[d], spec, ended, masks)
        hs.append(Stack.apply(0, *all_h))
        hn.append(h)
        if spec.cells:
            cn.append(c)
            if cells:
                cs.append(Stack.apply(0, *all_c))
    return (
        _side_by_side(hs),
        Stack.apply(0, *hn),
        Stack.apply(0, *cn) if cn else None,
        _side_by_side(cs) if cs else None,
    )


def _direction(
    d: int,
    x: Tensor,
    h: Tensor,
    c: Tensor,
    w: Weights,
    spec: Recurrence,
    ended: Sequence[Tensor | None],
    masks: Masks | None,
) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:
    """Return h and c of all steps in time order, and the last h and c."""
    sums = [Unbind.apply(product(x), 0) for product in _products(w.w_ih, w.b_ih, w.norm_ih, spec)]
    products = _products(w.w_hh, w.b_hh, w.norm_hh, spec)
    recurrent = None if masks is None or masks.recurrent is None else masks.recurrent[d]
    steps = range(len(ended))
    hs, cs = [h] * len(steps), [c] * len(steps)
    for t in reversed(steps) if spec.reverse[d] else steps:
        dropped = h if recurrent is None else h * recurrent
        ax = [piece[t] for piece in sums]
        c_now = c
        if spec.mode == "lstm":
            h_now, c_now = _lstm(ax[0] + products[0](dropped), c, w, spec)
            c_now = _zoneout(c, c_now, spec.zoneout[0], masks and masks.cell, d, t)
        elif spec.mode == "gru":
            h_now = _gru(ax, products, dropped, h, spec)
        else:
            h_now = (tanh if spec.mode == "rnn_tanh" else relu)(ax[0] + products[0](dropped))
        h_now = _zoneout(h, h_now, spec.zoneout[1], masks and masks.hidden, d, t)
        over = ended[t]
        h, c = (h_now, c_now) if over is None else (where(over, h, h_now), where(over, c, c_now))
        hs[t], cs[t] = (h, c) if over is None else (masked_fill(h, over, 0.0), masked_fill(c, over, 0.0))
    return hs, cs, h, c


def _lstm(a: Tensor, c: Tensor, w: Weights, spec: Recurrence) -> tuple[Tensor, Tensor]:
    sums = Split.apply(a, (spec.hidden,) * spec.gates, 1)
    peephole = () if w.peephole is None else Unbind.apply(w.peephole, 0)
    clip = partial(limited, limits=spec.clip, nan_to_high=spec.clip_nan, clamp=clamp)
    _, c, h = lstm(sums, c, peephole, clip, partial(_norm, spec, w), tanh)
    return h if w.w_hr is None else linear(h, w.w_hr), c


def _norm(spec: Recurrence, w: Weights, c: Tensor) -> Tensor:
    return c if w.norm_c is None else layer_norm(c, spec.hidden, w.norm_c[0], w.norm_c[1], spec.norm)


def _gru(ax: Sequence[Tensor], products: Sequence[_Product], dropped: Tensor, h: Tensor, spec: Recurrence) -> Tensor:
    of_gates, of_n = products
    r, z = Split.apply(ax[0] + of_gates(dropped), (spec.hidden,) * 2, 1)
    if spec.reset_after:
        return gru_cell(ax[1], r, z, of_n(dropped), h, tanh)[-1]
    return mixture_cell(ax[1] + of_n(reset(r, dropped)), z, h, tanh)[-1]


def _zoneout(before: Tensor, now: Tensor, p: float, mask: Tensor | None, d: int, t: int) -> Tensor:
    """Return the old state where zoneout keeps it, else the new one. Without a mask, return the expectation."""
    if mask is not None:
        return where(wrap(mask.array[d, t]), before, now)
    return now + p * (before - now) if p else now


def _products(w: Tensor, b: Tensor | None, gain: Tensor | None, spec: Recurrence) -> list[_Product]:
    """Return the products: one for all gates, but in a GRU one for r and z and one for n, normalized separately."""
    if spec.mode != "gru":
        return [_Product(w, b, gain, spec.norm)]
    cut = 2 * spec.hidden, spec.hidden
    bs, gains = ((None, None) if joint is None else Split.apply(joint, cut, 0) for joint in (b, gain))
    return [_Product(*piece, spec.norm) for piece in zip(Split.apply(w, cut, 0), bs, gains, strict=True)]


def _side_by_side(pieces: list[Tensor]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else Cat.apply(2, *pieces)


def _zero(x: Tensor) -> Tensor:
    return wrap(zeros((), x.array.dtype, like=x.array))
