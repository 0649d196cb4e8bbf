"""Batch normalisation. x (N, C, ...): every channel has its own statistics, over all other axes (M elements).

Source: S. Ioffe, C. Szegedy, "Batch normalization", 2015 (arXiv:1502.03167).
"""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["batch_norm", "batch_norm_grad", "channel_affine"]


@ieee
def batch_norm(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, and the mean and biased variance per channel.

    x (N, C, ...), weight (C,), bias (C,)  ->  y (N, C, ...), mean (C,), variance (C,)
    """
    axes = _axes(x)
    mean = x.mean(axes)
    variance = np.square(x - _channels(mean, x)).mean(axes)
    normalised = (x - _channels(mean, x)) / _channels(np.sqrt(variance + eps), x)
    return normalised * _channels(weight, x) + _channels(bias, x), mean, variance


@ieee
def batch_norm_grad(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray, mean: np.ndarray, variance: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients of batch_norm to x, weight and bias; with h = (x - mean) / sqrt(variance + eps):

        gbias = sum g
        gweight = sum g h
        gx = weight / sqrt(variance + eps) * (g - gbias/M - h gweight/M)

    The last two terms are what reaches x through the mean and through the variance.

    g, x (N, C, ...), weight, mean, variance (C,)  ->  gx (N, C, ...), gweight (C,), gbias (C,)
    """
    axes = _axes(x)
    deviation = np.sqrt(variance + eps)
    h = (x - _channels(mean, x)) / _channels(deviation, x)
    gweight, gbias = (g * h).sum(axes), g.sum(axes)
    M = x.size // x.shape[1]
    gx = g - _channels(gbias / M, x) - h * _channels(gweight / M, x)
    return gx * _channels(weight / deviation, x), gweight, gbias


@ieee
def channel_affine(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """y[:, c] = x[:, c] * scale[c] + shift[c]: batch normalisation by fixed statistics

    x (N, C, ...), scale (C,), shift (C,)  ->  (N, C, ...)
    """
    y: np.ndarray = x * _channels(scale, x) + _channels(shift, x)
    return y


def _axes(x: np.ndarray) -> tuple[int, ...]:
    """All axes but that of the channels."""
    return (0, *range(2, x.ndim))


def _channels(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(C,) -> (C, 1, ..., 1): the same at every position of x."""
    return values.reshape(-1, *(1,) * (x.ndim - 2))
