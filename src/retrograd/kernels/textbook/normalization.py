"""Softmax, gated linear units, and batch, layer, and group normalization.

Sources: S. Ioffe, C. Szegedy, "Batch normalization", 2015 (arXiv:1502.03167); J. Ba, J. Kiros, G. Hinton, "Layer
normalization", 2016 (arXiv:1607.06450); Y. Wu, K. He, "Group normalization", 2018 (arXiv:1803.08494); B. Zhang, R.
Sennrich, "Root mean square layer normalization", 2019 (arXiv:1910.07467).
"""

from __future__ import annotations

import numpy as np

from ...formulas.activation import gated, gated_grad_x, gated_grad_y
from ...formulas.normalization import (
    about_mean,
    about_mean_grad,
    affine,
    input_grad,
    inverse_deviation,
    standardized,
)
from ...formulas.piecewise import clamp, hardtanh_grad
from .ieee import ieee

__all__ = [
    "batch_norm",
    "batch_norm_clamp",
    "batch_norm_clamp_grad",
    "batch_norm_grad",
    "batch_norm_input_grad",
    "batch_norm_sums",
    "channel_affine",
    "channel_affine_clamp",
    "channel_band",
    "fixed_scale",
    "glu",
    "glu_grad",
    "group_norm",
    "group_norm_grad",
    "instance_statistics",
    "layer_norm",
    "layer_norm_grad",
    "log_softmax",
    "log_softmax_grad",
    "running_statistics",
    "softmax",
    "softmax_grad",
    "zero_masked_rows",
]


# ---- The gated linear unit and its gradient -------------------------------------------------------------------------


@ieee
def glu(x: np.ndarray, axis: int) -> np.ndarray:
    """a sigmoid(b) of the halves a and b of x along the axis"""
    a, b = np.split(x, 2, axis)
    return gated(a, b)


@ieee
def glu_grad(g: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    """gx = (g s, g a s (1 - s)) for the halves (a, b) of x, with s = sigmoid(b)"""
    a, b = np.split(x, 2, axis)
    return np.concatenate((gated_grad_x(g, a, b), gated_grad_y(g, a, b)), axis)


# ---- Softmax and its logarithm, and fully masked rows ---------------------------------------------------------------
# The maximum is subtracted first: it cancels, and no exponential exceeds 1.


@ieee
def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """y = exp(x) / sum exp(x), the sum along ``axis``"""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@ieee
def softmax_grad(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """gx = y (g - sum g y), with y = softmax(x)"""
    return y * (g - (g * y).sum(axis, keepdims=True))


@ieee
def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """y = x - log sum exp(x), the sum along ``axis``"""
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


@ieee
def log_softmax_grad(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """gx = g - exp(y) sum g, with y = log_softmax(x)"""
    return g - np.exp(y) * g.sum(axis, keepdims=True)


def zero_masked_rows(y: np.ndarray, x: np.ndarray) -> None:
    """y[...] = 0 in place where all of x along the last axis is -inf, for y = softmax(x), which is NaN there."""
    if not y.shape[-1]:
        return
    undefined = np.isnan(y[..., 0])  # also where x has a NaN
    if undefined.any():
        y[undefined & np.isneginf(x).all(-1)] = 0


# ---- Batch normalization. x (N, C, ...) -----------------------------------------------------------------------------

Three = tuple[np.ndarray, np.ndarray, np.ndarray]


@ieee
def batch_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float) -> tuple[np.ndarray, ...]:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias; and the mean, biased variance and 1 / deviation.

    x (N, C, ...), weight (C,), bias (C,)  ->  y (N, C, ...) and three (C,)
    """
    y, mean, variance = normalized(x, _channels(weight, x), _channels(bias, x), eps, _axes(x))
    mean, variance = mean.reshape(-1), variance.reshape(-1)
    return y, mean, variance, inverse_deviation(variance, eps)


def running_statistics(
    running: tuple[np.ndarray, np.ndarray], mean: np.ndarray, variance: np.ndarray, momentum: float, factor: float
) -> None:
    """r += momentum * (s - r) in place, for the running mean and s = mean, and the running variance and s = factor *
    variance, all (C,)"""
    with np.errstate(all="ignore"):
        for r, s in zip(running, (mean, variance * variance.dtype.type(factor)), strict=True):
            r += (s - r) * r.dtype.type(momentum)


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
    return normalized_grad(g, x, weight, mean, inverse, _axes(x), _axes(x))


@ieee
def batch_norm_clamp(
    x: np.ndarray,
    other: np.ndarray | None,
    weight: np.ndarray,
    bias: np.ndarray,
    eps: float,
    low: float,
    high: float,
) -> tuple[np.ndarray, ...]:
    """y = min(max((x - mean) factor + bias + other, low), high), factor = weight / sqrt(variance + eps)

    A limit of NaN is none: ReLU has 0 and NaN, ReLU6 has 0 and 6. NaN propagates.

    x, other (N, C, ...), weight, bias (C,)  ->  y, as ``batch_norm`` three (C,), and factor and bias (2, C)
    """
    _, mean, variance, inverse = batch_norm(x, weight, bias, eps)
    factor = inverse * weight
    z = about_mean(x, _channels(mean, x), _channels(factor, x), _channels(bias, x))
    z = z if other is None else z + other
    return clamp(z, low, high), mean, variance, inverse, np.stack((factor, bias))


@ieee
def batch_norm_clamp_grad(
    g: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    coefficients: np.ndarray,
    low: float,
    high: float,
) -> Three:
    """``batch_norm_grad`` of g, with 0 where (x - mean) factor + bias is at a limit or beyond; coefficients: these two.

    g, x (N, C, ...), weight, mean, inverse (C,), coefficients (2, C)  ->  gx (N, C, ...), gweight (C,), gbias (C,)
    """
    factor, bias = coefficients
    z = about_mean(x, _channels(mean, x), _channels(factor, x), _channels(bias, x))
    return batch_norm_grad(hardtanh_grad(g, z, low, high), x, weight, mean, inverse)


@ieee
def batch_norm_sums(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, inverse: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """sum g and sum g z of each channel, z = (x - mean) inverse, of a part of a batch: batch_norm_grad in two steps

    g, x (N, C, ...), mean, inverse (C,)  ->  two (C,)
    """
    z = standardized(x, _channels(mean, x), _channels(inverse, x))
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
    """y[:, c] = (x[:, c] - mean[c]) * scale[c] + shift[c]: batch normalization by given statistics; without a mean it
    is 0

    x (N, C, ...), scale (C,), shift (C,), mean (C,)  ->  (N, C, ...)
    """
    away = x if mean is None else x - _channels(mean, x)
    return affine(away, _channels(scale, x), _channels(shift, x))


@ieee
def channel_affine_clamp(
    x: np.ndarray, other: np.ndarray | None, scale: np.ndarray, shift: np.ndarray, low: float, high: float
) -> np.ndarray:
    """y[:, c] = min(max(x[:, c] * scale[c] + shift[c] + other[:, c], low), high); a limit of NaN is none

    x, other (N, C, ...), scale, shift (C,)  ->  (N, C, ...)
    """
    z = channel_affine(x, scale, shift)
    return clamp(z if other is None else z + other, low, high)


def normalized(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float, axes: tuple[int, ...], centered: bool = True
) -> Three:
    """y, mean and biased variance over ``axes``, which keep extent 1; without ``centered`` the mean is 0."""
    mean = x.mean(axes, keepdims=True)
    if not centered:
        mean = np.zeros_like(mean)
    variance = np.square(x - mean).mean(axes, keepdims=True)
    return affine(standardized(x, mean, inverse_deviation(variance, eps)), weight, bias), mean, variance


def normalized_grad(
    g: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    axes: tuple[int, ...],
    outer: tuple[int, ...],
    centered: bool = True,
) -> Three:
    """The gradients to x, weight and bias; those of weight and bias are sums over ``outer``."""
    z, h = standardized(x, mean, inverse), g * weight
    mean_h = h.mean(axes, keepdims=True) if centered else 0.0
    gx = input_grad(h, z, inverse, mean_h, (h * z).mean(axes, keepdims=True))
    return gx, (g * z).sum(outer), g.sum(outer)


def _axes(x: np.ndarray) -> tuple[int, ...]:
    """All axes but that of the channels."""
    return (0, *range(2, x.ndim))


def _channels(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(C,) -> (C, 1, ..., 1): the same at every position of x."""
    return values.reshape(-1, *(1,) * (x.ndim - 2))


# ---- Normalization of each sample by its own statistics -------------------------------------------------------------


@ieee
def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float, centered: bool) -> Three:
    """y = (x - mean) inverse weight + bias with inverse = 1 / sqrt(variance + eps), over the last axes of x.

    weight and bias have the extents of these axes. Without ``centered`` the mean is 0: root mean square norm.

    x (M..., L...), weight, bias (L...) -> y like x, mean, inverse (M...)
    """
    axes = tuple(range(x.ndim - weight.ndim, x.ndim))
    y, mean, variance = normalized(x, weight, bias, eps, axes, centered)
    return y, mean.squeeze(axes), inverse_deviation(variance, eps).squeeze(axes)


@ieee
def layer_norm_grad(
    g: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    centered: bool,
    affine: bool,
) -> Three:
    """The gradients of layer_norm to x, weight and bias; with z = (x - mean) inverse and h = g weight:

        gbias = sum g
        gweight = sum g z
        gx = inverse (h - mean(h) - z mean(h z))

    The last two terms are the gradients through the mean and through the variance. Without ``centered`` there is no
    mean(h); without ``affine`` gweight and gbias are zeros.
    """
    axes, outer = tuple(range(x.ndim - weight.ndim, x.ndim)), tuple(range(x.ndim - weight.ndim))
    column = (...,) + (np.newaxis,) * weight.ndim
    gx, *others = normalized_grad(g, x, weight, mean[column], inverse[column], axes, outer, centered)
    gweight, gbias = others if affine else np.zeros((2, *weight.shape), weight.dtype, like=weight)
    return gx, gweight, gbias


@ieee
def group_norm(x: np.ndarray, groups: int, weight: np.ndarray, bias: np.ndarray, eps: float) -> Three:
    """y = (x - mean) inverse weight + bias with inverse = 1 / sqrt(variance + eps), over each group of channels.

    x (N, C, ...), weight, bias (C,) -> y (N, C, ...), mean, inverse (N, groups)
    """
    seen = _grouped(x, groups)  # (N, groups, C / groups, positions)
    y, mean, variance = normalized(seen, _per_channel(weight, groups), _per_channel(bias, groups), eps, (2, 3))
    return y.reshape(x.shape), mean[:, :, 0, 0], inverse_deviation(variance, eps)[:, :, 0, 0]


@ieee
def group_norm_grad(
    g: np.ndarray, x: np.ndarray, groups: int, weight: np.ndarray, mean: np.ndarray, inverse: np.ndarray
) -> Three:
    """The gradients of group_norm to x, weight and bias; as for layer_norm, with means over each group.

    g, x (N, C, ...), weight (C,), mean, inverse (N, groups) -> gx (N, C, ...), gweight, gbias (C,)
    """
    mean, inverse = mean[:, :, np.newaxis, np.newaxis], inverse[:, :, np.newaxis, np.newaxis]
    seen = _grouped(g, groups), _grouped(x, groups)
    gx, gweight, gbias = normalized_grad(*seen, _per_channel(weight, groups), mean, inverse, (2, 3), (0, 3))
    return gx.reshape(x.shape), gweight.reshape(-1), gbias.reshape(-1)


def _grouped(x: np.ndarray, groups: int) -> np.ndarray:
    N, C, *positions = x.shape
    return x.reshape(N, groups, C // groups, int(np.prod(positions)))


def _per_channel(weight: np.ndarray, groups: int) -> np.ndarray:
    return weight.reshape(groups, -1, 1)
