"""Scaled dot-product attention, block by block: the full score matrix is never in memory.

A task takes as many queries as a panel of the micro-kernel has columns and walks over the keys in blocks. It holds the
scores transposed, a row per key: then the values of a query (maximum, sum, upstream product) are a lane of a register,
and all products read their operands in place, except the queries (and the upstream gradient), which a task packs once.
The gradient recomputes the scores from the logarithm of their sum, which the forward pass saves.

Source: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018, arXiv:1805.02867; T. Dao et al.,
"FlashAttention", 2022, arXiv:2205.14135.
"""

from __future__ import annotations

import numpy as np

from ..machine.launch import kernel
from ..machine.microkernel import MOST_ROWS
from ..machine.scratch import per_thread
from ..memory.packing import whole_steps, zeros_of
from .attention_plan import plan_attention

__all__ = ["attention", "attention_grad"]

_FORWARD, _BACKWARD = kernel("attention.attention.attention"), kernel("attention.attention.attention_grad")


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray | None, scale: float, causal: bool
) -> tuple[np.ndarray, np.ndarray]:
    batch, heads, queries, _ = q.shape
    q, k, v = _rows(q), _rows(k), _rows(v)
    y = _empty_like_rows(q, v.shape[3])
    log_sum = np.empty((batch, heads, queries), q.dtype, like=q)
    if 0 in (*q.shape, *k.shape, *v.shape):
        y[...], log_sum[...] = 0, 0
        return y, log_sum
    bias, bias_steps = _by_query(bias, q)
    arrays = (q, k, v, y)
    plan = plan_attention(
        q.shape, k.shape, v.shape, tuple(_steps(a) for a in arrays), bias_steps, causal, q.dtype.char, (False,) * 3
    )
    _FORWARD[q.dtype.char](
        batch * heads * plan.blocks,
        q,
        k,
        v,
        bias,
        y,
        log_sum,
        plan.words,
        per_thread(plan.scratch, q.dtype.char),
        plan.scratch,
        per_thread(2 * MOST_ROWS, "i8"),
        zeros_of(plan.widest, q.dtype.char),
        scale,
    )
    return y, log_sum


def attention_grad(
    g: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    y: np.ndarray,
    log_sum: np.ndarray,
    bias: np.ndarray | None,
    scale: float,
    causal: bool,
    wanted: tuple[bool, bool, bool],
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    q, k, v, y, g = (_rows(a) for a in (q, k, v, y, g))
    gradients = [_empty_like_rows(a, a.shape[3]) for a in (q, k, v)]
    if 0 in (*q.shape, *k.shape, *v.shape):
        for gradient in gradients:
            gradient[...] = 0
    else:
        bias, bias_steps = _by_query(bias, q)
        steps = tuple(_steps(a) for a in (q, k, v, y, g, *gradients))
        plan = plan_attention(q.shape, k.shape, v.shape, steps, bias_steps, causal, q.dtype.char, wanted)
        _BACKWARD[q.dtype.char](
            k.shape[0] * k.shape[1],
            q,
            k,
            v,
            bias,
            y,
            np.ascontiguousarray(log_sum, like=log_sum),
            g,
            *gradients,
            plan.words,
            per_thread(plan.scratch, q.dtype.char),
            plan.scratch,
            per_thread(2 * MOST_ROWS, "i8"),
            zeros_of(plan.widest, q.dtype.char),
            scale,
        )
    gq, gk, gv = (gradient if want else None for gradient, want in zip(gradients, wanted, strict=True))
    return gq, gk, gv


def _rows(x: np.ndarray) -> np.ndarray:
    """``x`` if its last axis is contiguous, else a copy."""
    if x.strides[3] == x.itemsize and whole_steps(x.strides, x.itemsize):
        return x
    return np.ascontiguousarray(x, like=x)


def _empty_like_rows(x: np.ndarray, last: int) -> np.ndarray:
    """A new array (B, H, L, last) with the axes B, H, L in the memory order of ``x``."""
    order = sorted(range(3), key=lambda axis: -x.strides[axis])
    memory = np.empty((*(x.shape[axis] for axis in order), last), x.dtype, like=x)
    return memory.transpose(*(order.index(axis) for axis in range(3)), 3)


def _steps(x: np.ndarray) -> tuple[int, ...]:
    return tuple(stride // x.itemsize for stride in x.strides[:3])


def _by_query(bias: np.ndarray | None, q: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """The bias as the kernel reads it, contiguous or broadcast along queries, and its steps; None: four zeros."""
    if bias is None:
        return q, ()
    own = bias[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in bias.strides)]  # without repeats
    if own.shape[2] > 1:
        own = np.ascontiguousarray(own.swapaxes(2, 3), like=own).swapaxes(2, 3)
    elif not whole_steps(own.strides, own.itemsize):
        own = np.ascontiguousarray(own, like=own)
    steps = [
        0 if extent == 1 else stride // own.itemsize for extent, stride in zip(own.shape, own.strides, strict=True)
    ]
    return own, tuple(steps)
