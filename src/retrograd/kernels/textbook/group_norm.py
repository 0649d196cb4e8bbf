"""Normalisation of each sample by its own statistics: over its last axes, or over groups of its channels.

Sources: J. Ba, J. Kiros, G. Hinton, "Layer normalization", 2016 (arXiv:1607.06450); Y. Wu, K. He, "Group
normalization", 2018 (arXiv:1803.08494); B. Zhang, R. Sennrich, "Root mean square layer normalization", 2019
(arXiv:1910.07467).
"""

from __future__ import annotations

import numpy as np

from ...formulas.normalization import inverse_deviation
from .ieee import ieee
from .normalization import Three, normalised, normalised_grad

__all__ = ["group_norm", "group_norm_grad", "layer_norm", "layer_norm_grad"]


@ieee
def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float, centred: bool) -> Three:
    """y = (x - mean) inverse weight + bias with inverse = 1 / sqrt(variance + eps), over the last axes of x.

    weight and bias have the extents of these axes. Without ``centred`` the mean is 0: root mean square norm.

    x (M..., L...), weight, bias (L...) -> y like x, mean, inverse (M...)
    """
    axes = tuple(range(x.ndim - weight.ndim, x.ndim))
    y, mean, variance = normalised(x, weight, bias, eps, axes, centred)
    return y, mean.squeeze(axes), inverse_deviation(variance, eps).squeeze(axes)


@ieee
def layer_norm_grad(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray, mean: np.ndarray, inverse: np.ndarray, centred: bool, affine: bool
) -> Three:
    """The gradients of layer_norm to x, weight and bias; with z = (x - mean) inverse and h = g weight:

        gbias = sum g
        gweight = sum g z
        gx = inverse (h - mean(h) - z mean(h z))

    The last two terms are the gradients through the mean and through the variance. Without ``centred`` there is no
    mean(h); without ``affine`` gweight and gbias are zeros.
    """
    axes, outer = tuple(range(x.ndim - weight.ndim, x.ndim)), tuple(range(x.ndim - weight.ndim))
    column = (...,) + (np.newaxis,) * weight.ndim
    gx, *others = normalised_grad(g, x, weight, mean[column], inverse[column], axes, outer, centred)
    gweight, gbias = others if affine else np.zeros((2, *weight.shape), weight.dtype, like=weight)
    return gx, gweight, gbias


@ieee
def group_norm(x: np.ndarray, groups: int, weight: np.ndarray, bias: np.ndarray, eps: float) -> Three:
    """y = (x - mean) inverse weight + bias with inverse = 1 / sqrt(variance + eps), over each group of channels.

    x (N, C, ...), weight, bias (C,) -> y (N, C, ...), mean, inverse (N, groups)
    """
    seen = _grouped(x, groups)  # (N, groups, C / groups, positions)
    y, mean, variance = normalised(seen, _per_channel(weight, groups), _per_channel(bias, groups), eps, (2, 3))
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
    gx, gweight, gbias = normalised_grad(*seen, _per_channel(weight, groups), mean, inverse, (2, 3), (0, 3))
    return gx.reshape(x.shape), gweight.reshape(-1), gbias.reshape(-1)


def _grouped(x: np.ndarray, groups: int) -> np.ndarray:
    N, C, *positions = x.shape
    return x.reshape(N, groups, C // groups, int(np.prod(positions)))


def _per_channel(weight: np.ndarray, groups: int) -> np.ndarray:
    return weight.reshape(groups, -1, 1)
