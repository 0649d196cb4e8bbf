"""The oracle of losses: scalar formulas, and CTC by enumerating all paths. See naive.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby, product

import numpy as np


def _log(a: float) -> float:
    return math.log(a) if a > 0 else -math.inf


def _softplus(a: float) -> float:
    return math.log(1 + math.exp(a)) if a < 30 else a + math.exp(-a)


def _huber(x: float, t: float, delta: float) -> float:
    z = abs(x - t)
    return z * z / 2 if z < delta else delta * z - delta * delta / 2


def _hinge(x: float, t: float, margin: float) -> float:
    return {1: x, -1: max(0, margin - x)}.get(int(t), x + max(0, margin - x))


ELEMENTS: dict[str, Callable[..., float]] = {
    "squared_error": lambda x, t: (x - t) ** 2,
    "absolute_error": lambda x, t: abs(x - t),
    "smooth_absolute_error": lambda x, t, beta: _huber(x, t, beta) / beta,
    "huber": _huber,
    "binary_cross_entropy": lambda x, t: -t * max(_log(x), -100) - (1 - t) * max(_log(1 - x), -100),
    "binary_cross_entropy_with_logits": lambda x, t: t * _softplus(-x) + (1 - t) * _softplus(x),
    "weighted_binary_cross_entropy_with_logits": lambda x, t, w: t * w * _softplus(-x) + (1 - t) * _softplus(x),
    "kullback_leibler": lambda x, t: t * (_log(t) - x) if t else 0.0,
    "kullback_leibler_of_logs": lambda x, t: math.exp(t) * (t - x),
    "poisson": lambda x, t, eps: x - t * math.log(x + eps),
    "poisson_of_logs": lambda x, t: math.exp(x) - t * x,
    "gaussian": lambda x, t, w: -math.log(math.exp(-((x - t) ** 2) / (2 * w)) / math.sqrt(w)),
    "soft_margin": lambda x, t: _softplus(-t * x),
    "hinge": _hinge,
    "ranking": lambda x, t, w, margin: max(0, margin - w * (x - t)),
}


def element_loss(name: str, operands: Sequence[np.ndarray], numbers: Sequence[float]) -> np.ndarray:
    """Return the loss of each element."""
    y = np.empty(operands[0].shape)
    for at in np.ndindex(y.shape):
        y[at] = ELEMENTS[name](*(float(a[at]) for a in operands), *numbers)
    return y


def element_slope(name: str, operands: Sequence[np.ndarray], numbers: Sequence[float], of: int) -> np.ndarray:
    """Return the derivative with respect to one operand by central differences, accurate to about 1e-8."""
    step = 1e-6
    y = np.empty(operands[0].shape)
    for at in np.ndindex(y.shape):
        values = [float(a[at]) for a in operands]
        ends = [ELEMENTS[name](*values[:of], values[of] + s, *values[of + 1 :], *numbers) for s in (step, -step)]
        y[at] = (ends[0] - ends[1]) / (2 * step)
    return y


def ctc(
    log_probs: np.ndarray, targets: np.ndarray, inputs: Sequence[int], lengths: Sequence[int], blank: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss of each sample, and the probability of each class at each time given the target (T, N, C)."""
    T, N, C = log_probs.shape
    loss, given = np.full(N, np.inf), np.zeros((T, N, C))
    for n in range(N):
        wanted = [int(c) for c in targets[n, : lengths[n]]]
        whole = 0.0
        for path in product(range(C), repeat=int(inputs[n])):
            if [c for c, _ in groupby(path) if c != blank] == wanted:
                p = math.exp(sum(float(log_probs[t, n, c]) for t, c in enumerate(path)))
                whole += p
                for t, c in enumerate(path):
                    given[t, n, c] += p
        if whole:
            loss[n] = -math.log(whole)
            given[:, n] /= whole
    return loss, given


def multi_margin(x: np.ndarray, labels: np.ndarray, p: int, margin: float) -> np.ndarray:
    loss = np.zeros(len(x))
    for n, c in np.ndindex(x.shape):
        if c != labels[n]:
            loss[n] += max(0.0, margin - float(x[n, labels[n]]) + float(x[n, c])) ** p / x.shape[1]
    return loss


def multilabel_margin(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    loss = np.zeros(len(x))
    for n, row in enumerate(targets.tolist()):
        wanted = row[: row.index(-1)] if -1 in row else row
        for j, i in product(wanted, range(len(row))):
            if i not in wanted:
                loss[n] += max(0.0, 1 - float(x[n, j]) + float(x[n, i])) / len(row)
    return loss


def slope_of_rows(loss: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """Return d loss[n] / d x[n, c] by differences."""
    step = 1e-6
    y = np.empty(x.shape)
    for n, c in np.ndindex(x.shape):
        moved = np.zeros(x.shape)
        moved[n, c] = step
        y[n, c] = (loss(x + moved)[n] - loss(x - moved)[n]) / (2 * step)
    return y
