"""The oracle of attention, query by query; see naive.py."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

Gradients = tuple[np.ndarray, np.ndarray, np.ndarray]


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray, bias: np.ndarray | None, scale: float, causal: bool
) -> tuple[np.ndarray, np.ndarray, Gradients]:
    """Return y, log(sum(exp(scores))), and the gradients of sum(g*y) with respect to q, k and v."""
    B, H, L, _ = q.shape
    S, Ev, group = k.shape[2], v.shape[3], H // k.shape[1]
    y, logs = np.zeros((B, H, L, Ev)), np.zeros((B, H, L))
    gq, gk, gv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for b, h, i in product(range(B), range(H), range(L)):
        scores = []
        for j in range(S):
            score = scale * float(q[b, h, i] @ k[b, h // group, j])
            score += 0.0 if bias is None else float(bias[b, h, i, j])
            scores.append(-math.inf if causal and j > i else score)
        top = max(scores, default=-math.inf)
        if top == -math.inf:
            continue
        total = math.fsum(math.exp(score - top) for score in scores)
        weights = [math.exp(score - top) / total for score in scores]
        logs[b, h, i] = top + math.log(total)
        for j, weight in enumerate(weights):
            y[b, h, i] += weight * v[b, h // group, j]
        for j, weight in enumerate(weights):
            slope = weight * float(g[b, h, i] @ (v[b, h // group, j] - y[b, h, i]))
            gv[b, h // group, j] += weight * g[b, h, i]
            gq[b, h, i] += scale * slope * k[b, h // group, j]
            gk[b, h // group, j] += scale * slope * q[b, h, i]
    return y, logs, (gq, gk, gv)
