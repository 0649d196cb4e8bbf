"""Optimiser steps. Parameters and buffers are changed in place; one call does all tensors of a group."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from .ieee import ieee

__all__ = ["adam_step", "sgd_step"]


@ieee
def sgd_step(
    parameters: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    momenta: Sequence[np.ndarray],
    *,
    lr: float,
    momentum: float,
    weight_decay: float,
) -> None:
    """d = g + weight_decay p;  with momentum: m = momentum m + d, d = m;  p = p - lr d

    ``momenta`` start as zeros; the list may be empty if there is no momentum.
    """
    for n, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
        d = g + weight_decay * p
        if momentum:
            m = momenta[n]
            m[...] = momentum * m + d
            d = m
        p -= lr * d


@ieee
def adam_step(
    parameters: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    exp_avgs: Sequence[np.ndarray],
    exp_avg_sqs: Sequence[np.ndarray],
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
) -> None:
    """Adam; t = step counts from 1, the averages start as zeros and are corrected for that.

        d = g + weight_decay p
        m = beta1 m + (1 - beta1) d
        v = beta2 v + (1 - beta2) d^2
        p = p - lr/(1 - beta1^t) m / (sqrt(v)/sqrt(1 - beta2^t) + eps)

    Source: D. Kingma, J. Ba, "Adam", 2015 (arXiv:1412.6980), with eps where PyTorch has it.
    """
    correction1, correction2 = 1 - beta1**step, 1 - beta2**step
    for p, g, m, v in zip(parameters, gradients, exp_avgs, exp_avg_sqs, strict=True):
        d = g + weight_decay * p
        m[...] = beta1 * m + (1 - beta1) * d
        v[...] = beta2 * v + (1 - beta2) * d * d
        p -= lr / correction1 * m / (np.sqrt(v) / sqrt(correction2) + eps)
