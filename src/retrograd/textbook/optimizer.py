"""Optimiser steps. Parameters and buffers are changed in place; one call does all tensors.

``keep`` is a dict that the compiled set uses; nothing is left in it here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Any

import numpy as np

from .ieee import ieee

__all__ = [
    "adadelta_step",
    "adagrad_step",
    "adam_step",
    "adamax_step",
    "average_step",
    "limit_step",
    "nadam_step",
    "norm_of_all",
    "radam_step",
    "rmsprop_step",
    "sgd_step",
]

Arrays = Sequence[np.ndarray]
Keep = dict[str, Any] | None


@ieee
def sgd_step(
    parameters: Arrays,
    gradients: Arrays,
    momenta: Arrays,
    *,
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """d = ±g + weight_decay p (- to maximize);  p = p - lr d

    With momentum: m = momentum m + (1 - dampening) d, and m takes the place of d, with nesterov d + momentum m.
    ``momenta`` start as zeros; the list may be empty if there is no momentum.
    """
    buffers: Sequence[Any] = momenta if momentum else [None] * len(parameters)
    for p, d, m in _each(parameters, gradients, weight_decay, maximize, buffers):
        if momentum:
            m[...] = momentum * m + (1 - dampening) * d
            d = d + momentum * m if nesterov else m
        p -= lr * d


@ieee
def adam_step(
    parameters: Arrays,
    gradients: Arrays,
    exp_avgs: Arrays,
    exp_avg_sqs: Arrays,
    max_exp_avg_sqs: Arrays,
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """Adam, AdamW (decoupled) and AMSGrad (with a third list); t = step counts from 1, the averages start as zeros.

        d = ±g + weight_decay p  (- to maximize); decoupled: d = ±g and p = p - lr weight_decay p
        m = beta1 m + (1 - beta1) d
        v = beta2 v + (1 - beta2) d^2
        w = max(w, v), which takes the place of v below, if there is a w in ``max_exp_avg_sqs``
        p = p - lr/(1 - beta1^t) m / (sqrt(v)/sqrt(1 - beta2^t) + eps)

    Source: D. Kingma, J. Ba, "Adam", 2015 (arXiv:1412.6980), with eps where PyTorch has it; I. Loshchilov, F. Hutter,
    2019 (arXiv:1711.05101); S. Reddi, S. Kale, S. Kumar, 2018 (arXiv:1904.09237).
    """
    decay = 0.0 if decoupled else weight_decay
    largest: Sequence[Any] = max_exp_avg_sqs or [None] * len(parameters)
    for p, d, m, v, w in _each(parameters, gradients, decay, maximize, exp_avgs, exp_avg_sqs, largest):
        if decoupled:
            p *= 1 - lr * weight_decay
        m[...] = beta1 * m + (1 - beta1) * d
        v[...] = beta2 * v + (1 - beta2) * d * d
        if w is not None:
            v = np.maximum(w, v, out=w)
        p -= lr / (1 - beta1**step) * m / (np.sqrt(v) / sqrt(1 - beta2**step) + eps)


@ieee
def adamax_step(
    parameters: Arrays,
    gradients: Arrays,
    exp_avgs: Arrays,
    exp_infs: Arrays,
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """d = ±g + weight_decay p;  m = beta1 m + (1 - beta1) d;  u = max(beta2 u, |d| + eps)

    p = p - lr/(1 - beta1^t) m / u, with t = step from 1 on; m and u start as zeros. Source: Kingma and Ba, section 7.1.
    """
    for p, d, m, u in _each(parameters, gradients, weight_decay, maximize, exp_avgs, exp_infs):
        m[...] = beta1 * m + (1 - beta1) * d
        u[...] = np.maximum(beta2 * u, np.abs(d) + eps)
        p -= lr / (1 - beta1**step) * m / u


@ieee
def nadam_step(
    parameters: Arrays,
    gradients: Arrays,
    exp_avgs: Arrays,
    exp_avg_sqs: Arrays,
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    mu: float,
    mu_next: float,
    mu_product: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """m and v as in Adam; mu of this step and of the next, and the product of all mu up to this one:

        n = (1 - mu)/(1 - mu_product) d + mu_next/(1 - mu_product mu_next) m
        p = p - lr n / (sqrt(v)/sqrt(1 - beta2^t) + eps)

    Source: T. Dozat, "Incorporating Nesterov momentum into Adam", 2016.
    """
    decay = 0.0 if decoupled else weight_decay
    for p, d, m, v in _each(parameters, gradients, decay, maximize, exp_avgs, exp_avg_sqs):
        if decoupled:
            p *= 1 - lr * weight_decay
        m[...] = beta1 * m + (1 - beta1) * d
        v[...] = beta2 * v + (1 - beta2) * d * d
        ahead = (1 - mu) / (1 - mu_product) * d + mu_next / (1 - mu_product * mu_next) * m
        p -= lr * ahead / (np.sqrt(v) / sqrt(1 - beta2**step) + eps)


@ieee
def radam_step(
    parameters: Arrays,
    gradients: Arrays,
    exp_avgs: Arrays,
    exp_avg_sqs: Arrays,
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    rectification: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """m and v as in Adam, r = rectification of this step (0: the variance is not known well enough yet)

        p = p - lr/(1 - beta1^t) m r sqrt(1 - beta2^t) / (sqrt(v) + eps)    or, with r = 0, p - lr/(1 - beta1^t) m

    Source: L. Liu et al., "On the variance of the adaptive learning rate and beyond", 2020 (arXiv:1908.03265).
    """
    decay = 0.0 if decoupled else weight_decay
    for p, d, m, v in _each(parameters, gradients, decay, maximize, exp_avgs, exp_avg_sqs):
        if decoupled:
            p *= 1 - lr * weight_decay
        m[...] = beta1 * m + (1 - beta1) * d
        v[...] = beta2 * v + (1 - beta2) * d * d
        update = lr / (1 - beta1**step) * m
        if rectification:
            update *= rectification * sqrt(1 - beta2**step) / (np.sqrt(v) + eps)
        p -= update


@ieee
def rmsprop_step(
    parameters: Arrays,
    gradients: Arrays,
    square_avgs: Arrays,
    grad_avgs: Arrays,
    momenta: Arrays,
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """d = ±g + weight_decay p;  v = alpha v + (1 - alpha) d^2;  u = d / (sqrt(v) + eps);  p = p - lr u

    Centered (there are ``grad_avgs``): a = alpha a + (1 - alpha) d, and max(v - a^2, 0) takes the place of v in u.
    With momentum: m = momentum m + u takes the place of u. Buffers start as zeros; lists without use may be empty.
    Source: T. Tieleman, G. Hinton, lecture 6.5, 2012; centered: A. Graves, 2013 (arXiv:1308.0850).
    """
    none = [None] * len(parameters)
    buffers = (square_avgs, grad_avgs or none, momenta or none)
    for p, d, v, a, m in _each(parameters, gradients, weight_decay, maximize, *buffers):
        v[...] = alpha * v + (1 - alpha) * d * d
        if a is not None:
            a[...] = alpha * a + (1 - alpha) * d
            v = np.maximum(v - a * a, 0)  # below 0 by rounding alone
        u = d / (np.sqrt(v) + eps)
        if momentum:
            m[...] = momentum * m + u
            u = m
        p -= lr * u


@ieee
def adagrad_step(
    parameters: Arrays,
    gradients: Arrays,
    sums: Arrays,
    *,
    lr: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """d = ±g + weight_decay p;  s = s + d^2;  p = p - lr d / (sqrt(s) + eps)

    Source: J. Duchi, E. Hazan, Y. Singer, "Adaptive subgradient methods", JMLR 12, 2011.
    """
    for p, d, s in _each(parameters, gradients, weight_decay, maximize, sums):
        s += d * d
        p -= lr * d / (np.sqrt(s) + eps)


@ieee
def adadelta_step(
    parameters: Arrays,
    gradients: Arrays,
    square_avgs: Arrays,
    acc_deltas: Arrays,
    *,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """d = ±g + weight_decay p;  v = rho v + (1 - rho) d^2;  u = sqrt(a + eps) / sqrt(v + eps) d

    a = rho a + (1 - rho) u^2;  p = p - lr u.  Source: M. Zeiler, "ADADELTA", 2012 (arXiv:1212.5701).
    """
    for p, d, v, a in _each(parameters, gradients, weight_decay, maximize, square_avgs, acc_deltas):
        v[...] = rho * v + (1 - rho) * d * d
        u = np.sqrt(a + eps) / np.sqrt(v + eps) * d
        a[...] = rho * a + (1 - rho) * u * u
        p -= lr * u


@ieee
def average_step(averages: Arrays, values: Arrays, *, weight: float, keep: Keep = None) -> None:
    """a = a + weight (x - a) for every average a and its value x"""
    for a, x in zip(averages, values, strict=True):
        a += weight * (x - a)


@ieee
def limit_step(arrays: Arrays, *, factor: float, most: float) -> None:
    """x = factor x, cut to -most ... most; NaN stays NaN"""
    for x in arrays:
        x *= factor
        np.clip(x, -most, most, out=x)


@ieee
def norm_of_all(arrays: Arrays, *, largest: bool) -> float:
    """The Euclidean norm of all elements of all arrays, or the largest absolute value; NaN if one of them is NaN."""
    if largest:
        return float(np.max([np.abs(x).max(initial=0) for x in arrays], initial=0))
    return sqrt(sum(np.square(x).sum(dtype=np.float64) for x in arrays))


def _each(
    parameters: Arrays, gradients: Arrays, decay: float, maximize: bool, *buffers: Sequence[Any]
) -> Iterator[tuple[Any, ...]]:
    """(p, d, its buffers) for every parameter, with d = ±g + decay p."""
    for p, g, *own in zip(parameters, gradients, *buffers, strict=True):
        d = -g if maximize else g
        yield p, d + decay * p if decay else d, *own
