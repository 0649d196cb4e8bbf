"""Batch normalisation. x (N, C, ...): every channel has its own statistics, over all other axes (M elements).

Source: S. Ioffe, C. Szegedy, "Batch normalization", 2015 (arXiv:1502.03167).
"""

from __future__ import annotations

import numpy as np

from ...formulas.normalization import about_mean_grad, affine, input_grad, inverse_deviation, standardised
from .ieee import ieee

__all__ = [
    "batch_norm",
    "batch_norm_grad",
    "batch_norm_input_grad",
    "batch_norm_sums",
    "channel_affine",
    "channel_band",
    "fixed_scale",
    "instance_statistics",
]

Three = tuple[np.ndarray, np.ndarray, np.ndarray]


@ieee
def batch_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float) -> tuple[np.ndarray, ...]:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias; and the mean, biased variance and 1 / deviation.

    x (N, C, ...), weight (C,), bias (C,)  ->  y (N, C, ...) and three (C,)
    """
    y, mean, variance = normalised(x, _channels(weight, x), _channels(bias, x), eps, _axes(x))
    mean, variance = mean.reshape(-1), variance.reshape(-1)
    return y, mean, variance, inverse_deviation(variance, eps)


@ieee
def batch_norm_grad(g: np.ndarray, x: np.ndarray, weight: np.ndarray, mean: np.ndarray, inverse: np.ndarray) -> Three:
    """The gradients of batch_norm to x, weight and bias; with z = (x - mean) inverse, inverse = 1 / deviation:

        gbias = sum g
        gweight = sum g z
        gx = (h - mean(h) - z mean(h z)) inverse, h = g weight

    The last two terms are the gradients through the mean and through the variance.

    g, x (N, C, ...), weight, mean, inverse (C,)  ->  gx (N, C, ...), gweight (C,), gbias (C,)
    """
    weight, mean, inverse = (_channels(values, x) for values in (weight, mean, inverse))
    return normalised_grad(g, x, weight, mean, inverse, _axes(x), _axes(x))


@ieee
def batch_norm_sums(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, inverse: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """sum g and sum g z of each channel, z = (x - mean) inverse, of a part of a batch: batch_norm_grad in two steps

    g, x (N, C, ...), mean, inverse (C,)  ->  two (C,)
    """
    z = standardised(x, _channels(mean, x), _channels(inverse, x))
    return g.sum(_axes(x)), (g * z).sum(_axes(x))


@ieee
def fixed_scale(
    mean: np.ndarray, variance: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray]:
    """weight / sqrt(variance + eps), and bias - mean times it: normalization by given statistics, all (C,)."""
    scale = weight / np.sqrt(variance + eps)
    return scale, bias - mean * scale


@ieee
def instance_statistics(mean: np.ndarray, inverse: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """The means over samples of mean and variance, with inverse = 1 / sqrt(variance + eps): (N, C) -> two (C,)"""
    return mean.mean(0), np.maximum(inverse**-2.0 - eps, 0).mean(0)


def channel_band(x: np.ndarray, size: int, number: float) -> np.ndarray:
    """``number`` where channel i of x is among the ``size`` channels around channel j, else 0: (C, C), in x's type.

    With an even size there is one channel more before j than after it.
    """
    channels = np.arange(x.shape[1], like=x)
    distance = channels - channels[:, np.newaxis]  # [channel summed, output channel]
    near = (distance <= size // 2) & (-distance <= (size - 1) // 2)
    return np.asarray(near * number, x.dtype, like=x)


@ieee
def batch_norm_input_grad(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, factor: np.ndarray, slope: np.ndarray, level: np.ndarray
) -> np.ndarray:
    """gx = g factor + (x - mean) slope + level: the second step, with the sums over the whole batch of M elements,

        factor = weight inverse,  slope = -factor inverse sum(g z) / M,  level = -factor sum(g) / M

    g, x (N, C, ...), mean, factor, slope, level (C,)  ->  gx (N, C, ...)
    """
    return about_mean_grad(g, x, *(_channels(values, x) for values in (mean, factor, slope, level)))


@ieee
def channel_affine(x: np.ndarray, scale: np.ndarray, shift: np.ndarray, mean: np.ndarray | None = None) -> np.ndarray:
    """y[:, c] = (x[:, c] - mean[c]) * scale[c] + shift[c]: batch normalisation by given statistics; without a mean it
    is 0

    x (N, C, ...), scale (C,), shift (C,), mean (C,)  ->  (N, C, ...)
    """
    away = x if mean is None else x - _channels(mean, x)
    return affine(away, _channels(scale, x), _channels(shift, x))


def normalised(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float, axes: tuple[int, ...], centred: bool = True
) -> Three:
    """y, mean and biased variance over ``axes``, which keep extent 1; without ``centred`` the mean is 0."""
    mean = x.mean(axes, keepdims=True)
    if not centred:
        mean = np.zeros_like(mean)
    variance = np.square(x - mean).mean(axes, keepdims=True)
    return affine(standardised(x, mean, inverse_deviation(variance, eps)), weight, bias), mean, variance


def normalised_grad(
    g: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    axes: tuple[int, ...],
    outer: tuple[int, ...],
    centred: bool = True,
) -> Three:
    """The gradients to x, weight and bias; those of weight and bias are sums over ``outer``."""
    z, h = standardised(x, mean, inverse), g * weight
    mean_h = h.mean(axes, keepdims=True) if centred else 0.0
    gx = input_grad(h, z, inverse, mean_h, (h * z).mean(axes, keepdims=True))
    return gx, (g * z).sum(outer), g.sum(outer)


def _axes(x: np.ndarray) -> tuple[int, ...]:
    """All axes but that of the channels."""
    return (0, *range(2, x.ndim))


def _channels(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(C,) -> (C, 1, ..., 1): the same at every position of x."""
    return values.reshape(-1, *(1,) * (x.ndim - 2))
