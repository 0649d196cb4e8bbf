"""Batch normalisation over channels-last memory: statistics per channel, over all positions."""

from __future__ import annotations

import numpy as np

from ..memory.channels_last import channels_last
from .planes import affine_columns, columns_grad, columns_sums, normalise_planes, normalise_planes_grad
from .row_norm import Three

__all__ = ["batch_norm", "batch_norm_grad", "batch_norm_input_grad", "batch_norm_sums", "channel_affine"]


def batch_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float) -> tuple[np.ndarray, ...]:
    x, channels = channels_last(x), x.shape[1]
    if not x.size:
        return np.empty_like(x), *(np.full(channels, np.nan, x.dtype, like=x) for _ in range(3))
    y, found = normalise_planes(x, 1, channels, channels, True, weight, bias, eps)
    return y, *found[:, 0]


def batch_norm_grad(g: np.ndarray, x: np.ndarray, weight: np.ndarray, mean: np.ndarray, inverse: np.ndarray) -> Three:
    g, x, channels = channels_last(g), channels_last(x), x.shape[1]
    if not x.size:
        return np.empty_like(x), np.zeros(channels, x.dtype, like=x), np.zeros(channels, x.dtype, like=x)
    gx, sums = normalise_planes_grad(g, x, 1, channels, channels, True, weight, mean, inverse)
    return gx, sums[1, 0], sums[0, 0]


def batch_norm_sums(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, inverse: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    g, x, channels = channels_last(g), channels_last(x), x.shape[1]
    if not x.size:
        return np.zeros(channels, x.dtype, like=x), np.zeros(channels, x.dtype, like=x)
    sums = columns_sums(g, x, channels, mean, inverse)
    return sums[0], sums[1]


def batch_norm_input_grad(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, factor: np.ndarray, slope: np.ndarray, level: np.ndarray
) -> np.ndarray:
    g, x = channels_last(g), channels_last(x)
    return columns_grad(g, x, x.shape[1], (mean, factor, slope, level)) if x.size else np.empty_like(x)


def channel_affine(x: np.ndarray, scale: np.ndarray, shift: np.ndarray, mean: np.ndarray | None = None) -> np.ndarray:
    x = channels_last(x)
    return affine_columns(x, x.shape[1], scale, shift, mean) if x.size else np.empty_like(x)
