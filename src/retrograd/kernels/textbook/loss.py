"""Loss functions: elementwise losses, cross entropy, margin losses, and CTC."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formulas.losses import LOSSES
from .ieee import ieee

__all__ = [
    "cosine_embedding_slopes",
    "cross_entropy",
    "cross_entropy_grad",
    "ctc_loss",
    "ctc_loss_grad",
    "element_loss",
    "element_loss_grad",
    "label_goals",
    "label_weights",
    "labels_count",
    "labels_outside",
    "multi_margin_loss",
    "multi_margin_loss_slopes",
    "multi_margin_masks",
    "multilabel_margin_loss",
    "multilabel_margin_loss_slopes",
    "nll_loss",
    "nll_loss_grad",
    "zero_infinite",
]


# ---- Class labels in int64 ------------------------------------------------------------------------------------------


def labels_count(labels: np.ndarray, classes: int, ignored: int) -> np.ndarray:
    """True where a label is a class, 0 to ``classes`` - 1, and not ``ignored``."""
    return np.asarray((labels >= 0) & (labels < classes) & (labels != ignored), like=labels)


def label_weights(
    labels: np.ndarray, weight: np.ndarray | None, ignored: int, classes: int, factor: float, dtype: np.dtype[Any]
) -> np.ndarray:
    """factor weight[label], and 0 where a label does not count, in this type; weight (C,), None for ones."""
    counts = labels_count(labels, classes, ignored)
    each = 1.0 if weight is None else weight[np.where(counts, labels, 0)]
    return np.asarray(np.where(counts, each * factor, 0.0), dtype, like=labels)


def label_goals(labels: np.ndarray, classes: int, smoothing: float, dtype: np.dtype[Any]) -> np.ndarray:
    """(1 - e) [class == label] + e / C with the smoothing e: labels (N, *D) -> (N, C, *D) of this type"""
    each = np.arange(classes, like=labels).reshape(-1, *[1] * (labels.ndim - 1)) == labels[:, None]
    return np.asarray((1 - smoothing) * each + smoothing / max(classes, 1), dtype, like=labels)


def labels_outside(labels: np.ndarray, classes: int, ignored: int | None) -> np.ndarray:
    """True where a label is neither a class, 0 to ``classes`` - 1, nor ``ignored``."""
    outside = (labels < 0) | (labels >= classes)
    return np.asarray(outside if ignored is None else outside & (labels != ignored), like=labels)


# ---- Losses of elements, or their sum, and their gradients; the formulas run on the arrays --------------------------


@ieee
def element_loss(
    name: str, operands: tuple[np.ndarray, ...], numbers: tuple[float, ...], factor: float | None
) -> np.ndarray:
    """The loss ``name`` of each element, or their sum times ``factor``, 0-d, if that is not None.

    operands: two or three arrays of one shape; numbers: the formula's other parameters.
    """
    y = LOSSES[name].term(*operands, *numbers)
    return np.asarray(y if factor is None else y.sum() * factor, operands[0].dtype, like=operands[0])


@ieee
def element_loss_grad(
    name: str,
    of: int,
    g: np.ndarray,
    operands: tuple[np.ndarray, ...],
    numbers: tuple[float, ...],
    factor: float | None,
) -> np.ndarray:
    """The gradient of the loss ``name`` to its operand ``of``.

    Not called for a gradient that is ``minus_first``: that is -1 times the gradient to the first operand.

    g has the shape of the operands if ``factor`` is None; else it is 0-d and multiplied by ``factor``.
    """
    each = g if factor is None else g * factor
    return np.asarray(LOSSES[name].gradients[of](each, *operands, *numbers), operands[0].dtype, like=operands[0])


# ---- Cross entropy and negative log-likelihood of class labels at each position of (N, C, *D) -----------------------


@ieee
def cross_entropy(
    x: np.ndarray, labels: np.ndarray, smoothing: float, ignored: int = -1, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """w[label] (-(1 - e) log p[label] - e mean(log p)) at each position, p = softmax(x) over axis 1, e the smoothing.

    x (N, C, *D), labels (N, *D) int64, weight (C,), 1 where it is None  ->  loss (N, *D), 0 where the label is
    ``ignored`` or invalid; for the gradient the maximum and log sum exp(x - maximum), both (N, *D); and (3,): the sum
    of the losses, the sum of their weights, and the number of labels that are neither a class nor ignored
    """
    counts, weights = _weights(x, labels, ignored, weight)
    if not x.size:
        tops = logs = loss = np.zeros(labels.shape, x.dtype, like=x)
    else:
        tops = x.max(1)
        logs = np.log(np.exp(x - tops[:, None]).sum(1))
        log_p = (x - tops[:, None]) - logs[:, None]
        loss = _picked(-log_p, np.where(counts, labels, 0))
        if smoothing:
            loss = (1 - smoothing) * loss - smoothing * log_p.mean(1)
    loss = np.where(counts, loss * weights, 0).astype(x.dtype)
    return loss, tops.copy(), logs.copy(), _sums(loss, weights, counts, labels, ignored)


@ieee
def cross_entropy_grad(
    g: np.ndarray,
    x: np.ndarray,
    labels: np.ndarray,
    smoothing: float,
    tops: np.ndarray,
    logs: np.ndarray,
    ignored: int = -1,
    weight: np.ndarray | None = None,
    factor: float = 1.0,
) -> np.ndarray:
    """gx = factor g w[label] (p - e / C - (1 - e where the class is the label)), 0 at ignored positions.

    labels, tops, logs (N, *D), the last two from ``cross_entropy``; g (N, *D) or (); x, gx (N, C, *D)
    """
    counts, weights = _weights(x, labels, ignored, weight)
    goal = (1 - smoothing) * _is_label(x, labels) + smoothing / max(x.shape[1], 1)
    p = np.exp((x - tops[:, None]) - logs[:, None])
    return np.where(counts[:, None], (p - goal) * (factor * g * weights)[:, None], 0).astype(x.dtype)


@ieee
def nll_loss(
    x: np.ndarray, labels: np.ndarray, ignored: int = -1, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """loss[n, d] = -w[label] x[n, label, d], label = labels[n, d]; and sums (3,) as of ``cross_entropy``

    x (N, C, *D), labels (N, *D) int64, weight (C,) or None  ->  loss (N, *D), 0 at ignored positions
    """
    counts, weights = _weights(x, labels, ignored, weight)
    loss = np.zeros(labels.shape, x.dtype, like=x)
    if x.size:
        loss = np.where(counts, _picked(-x, np.where(counts, labels, 0)) * weights, 0).astype(x.dtype)
    return loss, _sums(loss, weights, counts, labels, ignored)


@ieee
def nll_loss_grad(
    g: np.ndarray,
    x: np.ndarray,
    labels: np.ndarray,
    ignored: int = -1,
    weight: np.ndarray | None = None,
    factor: float = 1.0,
) -> np.ndarray:
    """gx[n, label, d] = -factor g[n, d] w[label], label = labels[n, d], and 0 elsewhere; g (N, *D) or ()

    Of x (N, C, *D) only the memory order is used.
    """
    counts, weights = _weights(x, labels, ignored, weight)
    chosen = _is_label(x, labels) & counts[:, None]
    return np.where(chosen, -(factor * g * weights)[:, None], 0).astype(x.dtype)


def _weights(
    x: np.ndarray, labels: np.ndarray, ignored: int, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The mask of positions that count, and the weight of each, 0 where ignored."""
    counts = (labels >= 0) & (labels < x.shape[1]) & (labels != ignored)
    if weight is None:
        return counts, counts.astype(x.dtype)
    return counts, np.where(counts, np.append(weight, 0)[np.where(counts, labels, -1)], 0).astype(x.dtype)


def _sums(loss: np.ndarray, weights: np.ndarray, counts: np.ndarray, labels: np.ndarray, ignored: int) -> np.ndarray:
    return np.array([loss.sum(), weights.sum(), (~counts & (labels != ignored)).sum()], loss.dtype, like=loss)


def _picked(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """x[n, labels[n, d], d]"""
    return np.take_along_axis(x, labels[:, None], 1)[:, 0]


def _is_label(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Whether each class is the label of its position."""
    return np.arange(x.shape[1], like=x).reshape(-1, *[1] * (x.ndim - 2)) == labels[:, None]


# ---- Multi-class and multi-label margin losses ----------------------------------------------------------------------


@ieee
def multi_margin_loss(x: np.ndarray, labels: np.ndarray, p: int, margin: float) -> np.ndarray:
    """loss[n] = sum over c != labels[n] of max(0, margin - x[n, labels[n]] + x[n, c])^p / C

    x (N, C), labels (N,) int64  ->  loss (N,); p is 1 or 2
    """
    z, others = _above(x, labels, margin)
    return np.asarray((np.where(others, np.maximum(z, 0), 0) ** p).sum(1) / x.shape[1], x.dtype, like=x)


@ieee
def multi_margin_loss_slopes(x: np.ndarray, labels: np.ndarray, margin: float) -> np.ndarray:
    """For p = 1: 1 / C where c != labels[n] violates the margin, else 0; minus their sum at the label: (N, C)."""
    z, others = _above(x, labels, margin)
    slopes = (others & (z > 0)) / x.shape[1]
    slopes[np.arange(len(x), like=x), labels] = -slopes.sum(1)
    return np.asarray(slopes, x.dtype, like=x)


def multi_margin_masks(slopes: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the label's entries, and of the others with a slope above 0: slopes (N, C) -> two (N, C) of bool"""
    own = np.zeros(slopes.shape, np.bool_, like=slopes)
    own[np.arange(len(slopes), like=slopes), labels] = True
    return own, (slopes > 0) & ~own


@ieee
def cosine_embedding_slopes(
    cosine: np.ndarray, targets: np.ndarray, margin: float, dtype: np.dtype[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """a and b with a cosine + b = 1 - cosine where the target is 1, max(0, cosine - margin) where it is -1; else 0.

    cosine and targets broadcast; the slope at cosine == margin is 1, as in PyTorch.
    """
    alike, apart = targets == 1, (targets == -1) & (cosine >= margin)
    slope, start = np.where(alike, -1, apart), np.where(alike, 1, apart * -margin)
    return np.asarray(slope, dtype, like=cosine), np.asarray(start, dtype, like=cosine)


@ieee
def multilabel_margin_loss(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """loss[n] = sum over targets j and others i of max(0, 1 - x[n, j] + x[n, i]) / C

    x (N, C), targets (N, C) int64: classes, up to the first -1 of a row  ->  loss (N,)
    """
    loss = np.zeros(len(x), x.dtype, like=x)
    for n, row in enumerate(x):
        chosen, others = _chosen(targets[n])
        z = 1 - row[chosen][:, None] + row[others]  # (targets, others)
        loss[n] = np.maximum(z, 0).sum() / len(row)
    return loss


@ieee
def multilabel_margin_loss_slopes(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Each pair that violates the margin adds 1 / C to the other class and subtracts it from the target: (N, C)."""
    slopes = np.zeros(x.shape, x.dtype, like=x)
    for n, row in enumerate(x):
        chosen, others = _chosen(targets[n])
        above = 1 - row[chosen][:, None] + row[others] > 0
        slopes[n, others] += above.sum(0) / len(row)
        np.subtract.at(slopes[n], chosen, above.sum(1) / len(row))
    return slopes


def _above(x: np.ndarray, labels: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """The margin violation of each class, and which are not the label."""
    z = margin - x[np.arange(len(x), like=x), labels][:, None] + x
    return z, np.arange(x.shape[1], like=x) != labels[:, None]


def _chosen(targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The targets of a row, and the mask of the other classes."""
    ends = np.flatnonzero(targets < 0)
    chosen = targets[: ends[0]] if len(ends) else targets
    return chosen, ~np.isin(np.arange(len(targets), like=targets), chosen)


# ---- Connectionist temporal classification (Graves et al. 2006), sample by sample, in logarithms --------------------
# The states of a sample are blank, first label, blank, second label, ..., blank. From one time to the next a path
# stays, advances by one state, or skips the blank between two different labels.


def _states(target: np.ndarray, blank: int) -> tuple[np.ndarray, np.ndarray]:
    """The label of each state, and 0 where a path may come from the state two before, else -inf."""
    labels = np.full(2 * len(target) + 1, blank, like=target)
    labels[1::2] = target
    skip = np.full(len(labels), -np.inf, like=target)
    skip[3::2][target[1:] != target[:-1]] = 0
    return labels, skip


def _log_sum(*rows: np.ndarray) -> np.ndarray:
    """The logarithm of the sum of exponentials."""
    top = np.maximum.reduce(np.stack(rows))
    top = np.where(top == -np.inf, 0, top)
    return np.log(sum(np.exp(row - top) for row in rows)) + top


def _shifted(row: np.ndarray, by: int) -> np.ndarray:
    """row[s - by], -inf outside."""
    y = np.full_like(row, -np.inf)
    source = row[: len(row) - by] if by > 0 else row[-by:]
    y[max(by, 0) : max(by, 0) + len(source)] = source
    return y


@ieee
def ctc_loss(
    log_probs: np.ndarray, targets: np.ndarray, input_lengths: np.ndarray, target_lengths: np.ndarray, blank: int
) -> tuple[np.ndarray, np.ndarray]:
    """-log of the probability of all paths that collapse to the target, for each sample.

    log_probs (T, N, C), targets (N, S), lengths (N,), int64  ->  loss (N,), inf where there is no such path, and
    alpha (N, T, 2 S + 1): log-probability of all prefixes that end in a state at a time, for the gradient.
    """
    T, N, _ = log_probs.shape
    loss = np.empty(N, log_probs.dtype, like=log_probs)
    alpha = np.full((N, T, 2 * targets.shape[1] + 1), -np.inf, log_probs.dtype, like=log_probs)
    for n in range(N):
        labels, skip = _states(targets[n, : target_lengths[n]], blank)
        time, count = int(input_lengths[n]), len(labels)
        if time == 0:
            loss[n] = 0 if count == 1 else np.inf
            continue
        row = np.full(count, -np.inf, like=log_probs)
        row[:2] = log_probs[0, n, labels[:2]]
        alpha[n, 0, :count] = row
        for t in range(1, time):
            row = _log_sum(row, _shifted(row, 1), _shifted(row, 2) + skip) + log_probs[t, n, labels]
            alpha[n, t, :count] = row
        loss[n] = -_log_sum(*row[-2:])
    return loss, alpha


@ieee
def ctc_loss_grad(
    g: np.ndarray,
    log_probs: np.ndarray,
    targets: np.ndarray,
    input_lengths: np.ndarray,
    target_lengths: np.ndarray,
    blank: int,
    loss: np.ndarray,
    alpha: np.ndarray,
    zero_infinity: bool,
) -> np.ndarray:
    """gx[t, n, c] = g[n] (exp(log_probs[t, n, c]) - probability of label c at time t, given the target), PyTorch's.

    After the end of an input it is 0. A sample with an infinite loss has NaN, or 0 with ``zero_infinity``.
    """
    gx = np.zeros_like(log_probs)
    for n in range(log_probs.shape[1]):
        labels, skip = _states(targets[n, : target_lengths[n]], blank)
        time, count = int(input_lengths[n]), len(labels)
        if loss[n] == np.inf:
            gx[:time, n] = 0 if zero_infinity else np.nan
            continue
        rest = np.full(count, -np.inf, like=log_probs)  # log-probability of all suffixes
        rest[-2:] = 0
        for t in reversed(range(time)):
            emitted = log_probs[t, n, labels]
            passed = np.where(emitted == -np.inf, 0, np.exp(alpha[n, t, :count] + rest + loss[n]))
            share = np.zeros(log_probs.shape[2], like=log_probs)
            np.add.at(share, labels, passed)
            gx[t, n] = (np.exp(log_probs[t, n]) - share) * g[n]
            row = rest + emitted
            rest = _log_sum(row, _shifted(row, -1), _shifted(row + skip, -2))
    return gx


def zero_infinite(loss: np.ndarray) -> np.ndarray:
    """The losses, with 0 instead of inf, the loss of a target that no path can give."""
    return np.where(loss == np.inf, loss.dtype.type(0), loss)
