"""Normalisation of each sample by itself: layer, root-mean-square, group and instance norm; and by neighbours.

The fused gradients are kernels; ``norm_grad`` says the same in operators and takes over for second derivatives.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.grad_mode import is_grad_enabled
from ..engine.tensor import Tensor, wrap
from .broadcasting import Sum
from .dtype import is_number, require_float, require_number, require_same
from .kernel_set import kernels
from .matmul import matmul
from .norms import Norm2, vector_norm_of
from .reduction import Mean, axes
from .rounding import floor_divide
from .shape import Permute, Reshape, sizes
from .transcendental import exp, log

__all__ = ["group_norm", "layer_norm", "local_response_norm", "normalize", "rms_norm"]

Gradients = tuple[Tensor | None, ...]


class LayerNorm(Function):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias over the last axes, those of weight and bias.

    Without ``centred`` the mean is 0. Without ``affine`` weight and bias stand for 1 and 0 and get no gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, centred: bool, affine: bool
    ) -> Tensor:
        y, mean, inverse = kernels.layer_norm(x.array, weight.array, bias.array, eps, centred)
        ctx.save_for_backward(x, weight, mean, inverse)
        ctx.eps, ctx.centred, ctx.affine = eps, centred, affine
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """The fused gradient, or the composed one where it must be differentiable or need not reach x."""
        want_x, want_w, want_b, *_ = ctx.needs_input_grad
        x, weight, mean, inverse = ctx.saved_tensors
        if is_grad_enabled() or not want_x:
            rows = math.prod(x.array.shape[: x.array.ndim - weight.array.ndim])
            view = (rows, 1, weight.array.size, 1)
            return *norm_grad(g, x, weight, ctx.eps, view, ctx.centred, (want_x, want_w, want_b)), None, None, None
        gx, gw, gb = kernels.layer_norm_grad(
            g.array, x.array, weight.array, mean, inverse, ctx.centred, ctx.affine and (want_w or want_b)
        )
        return wrap(gx), wrap(gw) if want_w else None, wrap(gb) if want_b else None, None, None, None


class GroupNorm(Function):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias per sample and group of channels.

    x (N, C, *I), weight, bias (C,) -> y like x; mean and inverse deviation (N, groups) are added to ``statistics``.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float, statistics: list[np.ndarray]
    ) -> Tensor:
        y, mean, inverse = kernels.group_norm(x.array, groups, weight.array, bias.array, eps)
        ctx.save_for_backward(x, weight, mean, inverse)
        ctx.eps, ctx.groups = eps, groups
        statistics += mean, inverse
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """The fused gradient, or the composed one where it must be differentiable or need not reach x."""
        want_x, _, want_w, want_b, *_ = ctx.needs_input_grad
        x, weight, mean, inverse = ctx.saved_tensors
        if is_grad_enabled() or not want_x:
            N, C, *positions = x.array.shape
            view = (N, ctx.groups, C // ctx.groups, math.prod(positions))
            gx, gw, gb = norm_grad(g, x, weight, ctx.eps, view, True, (want_x, want_w, want_b))
            return gx, None, gw, gb, None, None
        fused_x, fused_w, fused_b = kernels.group_norm_grad(g.array, x.array, ctx.groups, weight.array, mean, inverse)
        gw, gb = wrap(fused_w) if want_w else None, wrap(fused_b) if want_b else None
        return wrap(fused_x), None, gw, gb, None, None


class Unit(Function):
    """y = x / max(norm, eps), the 2-norm over ``axes``.

    gx = (g - y * sum(g * y)) / norm, and g / eps where the norm is below eps.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
        norm = kernels.norm(x.array, 2, axes, True)
        y = wrap(kernels.div(x.array, np.asarray(np.maximum(norm, norm.dtype.type(eps)))))
        ctx.save_for_backward(x, y, norm)
        ctx.axes, ctx.eps = axes, eps
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        x, y, found = ctx.saved_tensors
        norm = Norm2.apply(x, ctx.axes, True) if is_grad_enabled() else wrap(found)
        along = Sum.apply(g * y, ctx.axes, True)
        small = found < ctx.eps
        if small.any():
            kept = wrap(np.asarray(~small, found.dtype))
            norm, along = norm * kept + wrap(np.asarray(ctx.eps * small, found.dtype)), along * kept
        return (g - y * along) / norm, None, None


def norm_grad(
    g: Tensor,
    x: Tensor,
    weight: Tensor,
    eps: float,
    view: tuple[int, int, int, int],
    centred: bool,
    wanted: tuple[bool, bool, bool],
) -> Gradients:
    """The gradient to x, weight and bias in operators; what ``kernels.layer_norm_grad`` and ``group_norm_grad`` equal.

    x is seen as ``view``: samples, groups, channels of a group, positions. With z = (x - mean) / sqrt(variance + eps)
    and h = g * weight:  gx = (h - mean(h) - z * mean(h * z)) / sqrt(variance + eps),  gw = sum(g * z),  gb = sum(g)
    """
    want_x, want_w, want_b = wanted
    over, outer, shape = (2, 3), (0, 3), x.array.shape
    g = Reshape.apply(g, view)
    gb = Reshape.apply(Sum.apply(g, outer, False), weight.array.shape) if want_b else None
    if not want_x and not want_w:
        return None, None, gb
    x = Reshape.apply(x, view)
    centred_x = x - Mean.apply(x, over, True) if centred else x
    inverse = (Mean.apply(centred_x * centred_x, over, True) + eps) ** -0.5
    z = centred_x * inverse
    gw = Reshape.apply(Sum.apply(g * z, outer, False), weight.array.shape) if want_w else None
    if not want_x:
        return None, gw, gb
    h = g * Reshape.apply(weight, (1, view[1], view[2], 1))
    level = h - Mean.apply(h, over, True) if centred else h
    gx = inverse * (level - z * Mean.apply(h * z, over, True))
    return Reshape.apply(gx, shape), gw, gb


def layer_norm(
    input: Tensor,
    normalized_shape: int | tuple[int, ...] | list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, the statistics of each sample over its last axes.

    input (*M, *L), normalized_shape L, weight and bias (*L) -> (*M, *L). The variance is the biased one.
    Source: J. Ba, J. Kiros, G. Hinton, "Layer Normalization", 2016 (arXiv:1607.06450).

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: the shapes do not fit.
    """
    return _last_axes("layer_norm", input, normalized_shape, weight, bias, eps, True)


def rms_norm(
    input: Tensor,
    normalized_shape: int | tuple[int, ...] | list[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """y = x / sqrt(mean(x^2) + eps) * weight, the mean of each sample over its last axes.

    input (*M, *L), normalized_shape L, weight (*L) -> (*M, *L). eps None is the smallest step above 1 of input's type.
    Source: B. Zhang, R. Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv:1910.07467).

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: the shapes do not fit.
    """
    require_float("rms_norm", input)
    if eps is None:
        eps = float(np.finfo(input.array.dtype).eps)
    return _last_axes("rms_norm", input, normalized_shape, weight, None, eps, False)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, the statistics of each sample over groups of channels.

    input (N, C, *I), weight and bias (C,) per channel -> (N, C, *I). The variance is the biased one.
    Source: Y. Wu, K. He, "Group Normalization", 2018 (arXiv:1803.08494).

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: the shapes do not fit, or one sample has groups of one element.
    """
    require_float("group_norm", input)
    shape = input.array.shape
    if len(shape) < 2:
        raise ValueError(f"group_norm: input.shape={shape} needs at least 2 axes (batch, channels)")
    if isinstance(num_groups, bool) or not isinstance(num_groups, int) or num_groups < 1 or shape[1] % num_groups:
        raise ValueError(
            f"group_norm: num_groups={num_groups!r} must be an int that divides the {shape[1]} channels of "
            f"input.shape={shape}"
        )
    if math.prod(shape) == num_groups:  # PyTorch lets others pass, whose groups of one element become their bias
        raise ValueError(
            f"group_norm: each of {num_groups} groups of input.shape={shape} has 1 element to take statistics over, "
            f"needs more than 1"
        )
    weight, bias = per_channel("group_norm", input, weight=weight, bias=bias)
    y: Tensor = GroupNorm.apply(input, num_groups, weight, bias, eps, [])
    return y


def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Tensor:
    """input / max(norm, eps), the p-norm along axis ``dim`` (or several).

    Raises:
        TypeError: input is no floating-point Tensor.
        ValueError: p is no number, or an axis is named twice.
        IndexError: input has no such axis.
    """
    over = axes("normalize", dim, getattr(input, "ndim", 0))
    if p == 2 and is_number(p):
        require_float("normalize", input)
        y: Tensor = Unit.apply(input, over, eps)
        return y
    norm = vector_norm_of("normalize", input, p, over, True, None)
    small = norm.array < eps
    if small.any():
        kept = np.asarray(1 - small, norm.array.dtype)
        norm = norm * wrap(kept) + wrap(np.asarray(eps * small, norm.array.dtype))
    return input / norm


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """y = x / (k + alpha/size * sum x^2)^beta, the sum over the ``size`` channels around each one.

    input (N, C, *I) -> (N, C, *I). Of an even size, one channel more is before than behind. Channels that are not there
    count as 0.
    Source: A. Krizhevsky, I. Sutskever, G. Hinton, "ImageNet classification with deep convolutional neural networks",
    2012, section 3.3.

    Raises:
        TypeError: input is no Tensor of numbers.
        ValueError: size is below 1, or input has fewer than 3 axes.
    """
    require_number("local_response_norm", input)
    shape = input.array.shape
    if len(shape) < 3:
        raise ValueError(f"local_response_norm: input.shape={shape} needs at least 3 axes (batch, channels, positions)")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"local_response_norm: size={size!r} must be an int of at least 1")
    # a sum over neighbouring channels is a product with a band matrix
    distance = np.arange(shape[1]) - np.arange(shape[1])[:, np.newaxis]  # from the channel summed to that of the sum
    near = (distance <= size // 2) & (-distance <= (size - 1) // 2)
    last = (0, *range(2, len(shape)), 1)
    x = Permute.apply(input, last)
    if input.array.dtype.kind == "f":
        shares = matmul(x * x, wrap((near * (alpha / size)).astype(input.array.dtype)))
    else:  # the means of integers are integers
        shares = floor_divide(matmul(x * x, wrap(near.astype(np.int64))), size) * float(alpha)
    y = x * exp(log(shares + k) * -beta)
    return Permute.apply(y, (0, len(shape) - 1, *range(1, len(shape) - 1)))


def per_channel(name: str, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """weight and bias (C,) for x (N, C, ...), checked; ones and zeros where they are None."""
    require_channels(name, x, weight=weight, bias=bias)
    channels, dtype = x.array.shape[1], x.array.dtype
    return (
        wrap(np.ones(channels, dtype)) if weight is None else weight,
        wrap(np.zeros(channels, dtype)) if bias is None else bias,
    )


def require_channels(name: str, x: Tensor, **given: Tensor | None) -> None:
    """Refuse what is neither None nor one number per channel of x (N, C, ...), in x's type.

    Raises:
        TypeError: the types differ.
        ValueError: a shape does not fit.
    """
    shape = x.array.shape
    for label, value in given.items():
        if value is not None:
            require_same(name, "x", x, label, value)
            if value.array.shape != shape[1:2]:
                raise ValueError(
                    f"{name}: {label}.shape={value.array.shape}, needs ({shape[1]},), one per channel; x.shape={shape}"
                )


def _last_axes(
    name: str, x: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool
) -> Tensor:
    if not isinstance(x, Tensor) or x.array.dtype.kind != "f":
        require_float(name, x)
    extents = sizes((normalized_shape,))
    shape, dtype = x.array.shape, x.array.dtype
    if not extents or shape[-len(extents) :] != extents:
        raise ValueError(
            f"{name}: normalized_shape={extents} must be the last extents of input.shape={shape}, at least one of them"
        )
    for value in (weight, bias):
        if value is not None and (
            not isinstance(value, Tensor) or value.array.dtype is not dtype or value.array.shape != extents
        ):
            _require_shape(name, x, extents, weight=weight, bias=bias)
    if type(eps) is not float and not is_number(eps):
        raise TypeError(f"{name}: eps={eps!r} must be a number")
    affine = weight is not None or bias is not None
    if weight is None:
        weight = wrap(np.ones(extents, dtype))
    if bias is None:
        bias = wrap(np.zeros(extents, dtype))
    return LayerNorm.apply(x, weight, bias, eps, centred, affine)


def _require_shape(name: str, x: Tensor, extents: tuple[int, ...], **given: Tensor | None) -> None:
    for label, value in given.items():
        if value is not None:
            require_same(name, "input", x, label, value)
            if value.array.shape != extents:
                raise ValueError(f"{name}: {label}.shape={value.array.shape} must be normalized_shape={extents}")
