"""Scaled dot-product attention: for each query, a mean of the values weighted by its scores with the keys.

q (B, H, L, E)    k (B, H/G, S, E)    v (B, H/G, S, Ev)    bias (B, H, L, S)    y (B, H, L, Ev)

G adjacent heads of the queries share one head of the keys and values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .ieee import ieee

__all__ = ["attention", "attention_grad", "causal_bias", "mask_bias"]


@ieee
def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray | None, scale: float, causal: bool
) -> tuple[np.ndarray, np.ndarray]:
    """y = softmax(scale q kT + bias) v, and log_sum[b, h, l] = log(sum over s of exp(scale q kT + bias)).

    q (B, H, L, E), k (B, H/G, S, E), v (B, H/G, S, Ev), bias (B, H, L, S) or None -> y (B, H, L, Ev), log_sum (B, H, L)

    causal: query l attends to keys 0 to l. For a query without keys, y and log_sum are 0.
    """
    scores = _scores(q, k, bias, scale, causal)  # (B, H, L, S)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    top = np.where(top == -np.inf, 0, top)
    weights = np.exp(scores - top)
    sums = weights.sum(-1, keepdims=True)  # (B, H, L, 1)
    empty = sums == 0
    y: np.ndarray = (weights / np.where(empty, 1, sums)) @ _for_queries(v, q)
    return y, np.where(empty, 0, top + np.log(sums)).astype(q.dtype)[..., 0]


@ieee
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
    needs_grad: tuple[bool, bool, bool],
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """The gradients of ``attention`` to q, k and v; None where ``needs_grad`` is False.

    With p = exp(scale q kT + bias - log_sum) and d = p (g vT - sum of g y):
    gq = scale d k,  gk = scale dT q,  gv = pT g
    """
    scale = q.dtype.type(scale)
    p = np.exp(_scores(q, k, bias, scale, causal) - log_sum[..., None])  # (B, H, L, S)
    d = p * (g @ _for_queries(v, q).swapaxes(-1, -2) - (g * y).sum(-1, keepdims=True))
    gq = scale * (d @ _for_queries(k, q))
    gk = scale * _for_keys(d.swapaxes(-1, -2) @ q, k)
    gv = _for_keys(p.swapaxes(-1, -2) @ g, v)
    return gq if needs_grad[0] else None, gk if needs_grad[1] else None, gv if needs_grad[2] else None


def mask_bias(mask: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """To add to scores of this type: 0 where the mask is True and a query attends to a key, else -inf."""
    return np.where(mask, dtype.type(0), dtype.type(-np.inf))


def causal_bias(scores: np.ndarray) -> np.ndarray:
    """(L, S) to add to scores (..., L, S): 0 where key s is at or before query l, else -inf"""
    visible = np.tri(scores.shape[-2], scores.shape[-1], dtype=bool, like=scores)
    return np.where(visible, 0.0, -np.inf).astype(scores.dtype)


def _scores(q: np.ndarray, k: np.ndarray, bias: np.ndarray | None, scale: float, causal: bool) -> np.ndarray:
    """(B, H, L, S), -inf where a query does not attend to a key."""
    scores: np.ndarray = q.dtype.type(scale) * (q @ _for_queries(k, q).swapaxes(-1, -2))
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = np.where(np.tri(q.shape[2], k.shape[2], dtype=bool, like=q), scores, q.dtype.type(-np.inf))
    return scores


def _for_queries(x: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Each key head repeated for its G query heads: (B, H/G, S, E) -> (B, H, S, E)."""
    return x if x.shape[1] == q.shape[1] else np.repeat(x, q.shape[1] // x.shape[1], 1)


def _for_keys(gx: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The sum over the G query heads of each key head: (B, H, S, E) -> (B, H/G, S, E)."""
    group = gx.shape[1] // max(1, x.shape[1])
    if group == 1:
        return gx
    split = gx.reshape(x.shape[0], x.shape[1], group, *x.shape[2:])  # (B, H, S, E) -> (B, H/G, G, S, E)
    return split.sum(2)
