"""Layer, RMS, group and local response normalization, and the base class of all normalization operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import any_below, full, zeros
from ...engine.backward_rules import is_overridden
from ...engine.function import Function
from ...engine.grad_mode import is_grad_enabled
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...formulas.normalization import input_grad, inverse_deviation, standardized
from ...kernel_set import is_copy, kernels
from ..argument_checks import as_real, is_number, require_float, require_number, require_same
from ..pointwise.arithmetic import add, mul, sub
from ..pointwise.exponential import exp, log, rsqrt
from ..pointwise.rounding import floor_divide
from ..product.matmul import matmul
from ..reduce.norms import vector_norm_of
from ..reduce.reduction import Dim, Mean, axes, mean
from ..shape.broadcasting import Sum
from ..shape.shape import Permute, Reshape, sizes

__all__ = ["group_norm", "layer_norm", "local_response_norm", "normalize", "rms_norm"]


# ---- Base class and helpers of the normalization operators ----------------------------------------------------------

Gradients = tuple[Tensor | None, ...]
NeedsGrad = tuple[bool, bool, bool]  # the gradients with respect to x, weight and bias


class Norm(Function):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias; the arguments start with x, weight and bias.

    forward saves x, weight and two arrays of statistics. ctx.view is the shape of x as four axes, the middle two being
    those of weight and bias. ctx.over are the axes of the statistics. ``fused`` calls the gradient kernel. Without
    ctx.centered the mean is 0.
    """

    gradient = "x: (h - mean(h) - z mean(h z)) / sqrt(variance + eps), h = g weight; weight: sum(g z); bias: sum(g)"

    @classmethod
    def backward(cls, ctx: Any, g: Tensor) -> Gradients:
        """Use the fused kernel, or ``norm_grad`` if the gradient must be differentiable or x needs none."""
        needs_grad, (x, weight, *statistics) = ctx.needs_input_grad[:3], ctx.saved_tensors
        rest = (None,) * (len(ctx.needs_input_grad) - 3)
        if is_grad_enabled() or not needs_grad[0]:
            return *norm_grad(g, x, weight, ctx.eps, ctx.view, ctx.over, ctx.centered, needs_grad), *rest
        found = cls.fused(ctx, g.array, x.array, weight.array, *statistics)
        return *[wrap(array) if needed else None for array, needed in zip(found, needs_grad, strict=True)], *rest

    @staticmethod
    def backward_with(edited: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return a backward that calls an edited copy of ``norm_grad``, or None for any other function."""
        if not is_copy(edited, norm_grad):
            return None

        def backward(ctx: Any, g: Tensor) -> Any:
            x, weight, *_ = ctx.saved_tensors
            return edited(g, x, weight, ctx.eps, ctx.view, ctx.over, ctx.centered, ctx.needs_input_grad[:3])

        return backward

    @staticmethod
    def fused(ctx: Any, g: np.ndarray, x: np.ndarray, weight: np.ndarray, *statistics: np.ndarray) -> Any:
        """The gradients with respect to x, weight and bias."""
        raise NotImplementedError


def norm_grad(
    g: Tensor,
    x: Tensor,
    weight: Tensor,
    eps: float,
    view: tuple[int, int, int, int],
    over: tuple[int, ...],
    centered: bool = True,
    needs_grad: NeedsGrad = (True, True, True),
) -> Gradients:
    """The gradient with respect to x, weight and bias, composed of operators. The fused kernels must match it.

    With z = (x - mean) / sqrt(variance + eps) and h = g * weight:
    gx = (h - mean(h) - z * mean(h * z)) / sqrt(variance + eps),  gw = sum(g * z),  gb = sum(g)
    """
    (want_x, want_w, want_b), outer, shape = needs_grad, (0, 3), weight.array.shape
    g, given = Reshape.apply(g, view), x.array.shape
    gb = Reshape.apply(Sum.apply(g, outer, False), shape) if want_b else None
    if not want_x and not want_w:
        return None, None, gb
    x = Reshape.apply(x, view)
    mean = Mean.apply(x, over, True) if centered else 0.0
    centered_x = x - mean
    inverse = inverse_deviation(Mean.apply(centered_x * centered_x, over, True), eps)
    z = standardized(x, mean, inverse)
    gw = Reshape.apply(Sum.apply(g * z, outer, False), shape) if want_w else None
    if not want_x:
        return None, gw, gb
    h = g * Reshape.apply(weight, (1, view[1], view[2], 1))
    mean_h = Mean.apply(h, over, True) if centered else 0.0
    return Reshape.apply(input_grad(h, z, inverse, mean_h, Mean.apply(h * z, over, True)), given), gw, gb


def per_channel(name: str, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the checked weight and bias (C,) for x (N, C, ...), with ones and zeros in place of None."""
    require_channels(name, x, weight=weight, bias=bias)
    return or_constant(weight, x, x.array.shape[1:2], 1.0), or_constant(bias, x, x.array.shape[1:2], 0.0)


def or_constant(given: Tensor | None, x: Tensor, shape: tuple[int, ...], number: float) -> Tensor:
    """Return ``given``, or a Tensor of x's type filled with ``number`` if it is None."""
    if given is None:
        dtype = x.array.dtype
        return wrap(full(shape, number, dtype, like=x.array) if number else zeros(shape, dtype, like=x.array))
    return given


def require_channels(name: str, x: Tensor, **given: Tensor | None) -> None:
    """Require each operand to be None, or of shape (C,) and the type of x (N, C, ...).

    Raises:
        TypeError: the types differ.
        ValueError: a shape does not fit.
    """
    shape = x.array.shape
    dtype, wanted = x.array.dtype, shape[1:2]
    real = dtype.char in "fd"
    for label, value in given.items():
        if value is not None:
            if real and isinstance(value, Tensor) and value.array.dtype is dtype and value.array.shape == wanted:
                continue
            require_same(name, "input", x, label, value)
            if value.array.shape != shape[1:2]:
                raise ValueError(
                    f"{name}: {label}.shape={value.array.shape}, needs ({shape[1]},), one per channel; "
                    f"input.shape={shape}; a layer for it has num_features={shape[1]}"
                )


# ---- Normalization of each sample: layer, RMS, group and local response norm ----------------------------------------

_BELOW_EPS = "whether norms are below eps"


class LayerNorm(Norm):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias over the last axes, those of weight and bias.

    Without ``centered`` the mean is 0. Without ``affine`` weight and bias are 1 and 0 and get no gradient.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, centered: bool, affine: bool) -> Tensor:
        y, *statistics = kernels.layer_norm(x.array, weight.array, bias.array, eps, centered)
        ctx.save_for_backward(x, weight, *statistics)
        rows = math.prod(x.array.shape[: x.array.ndim - weight.array.ndim])
        ctx.eps, ctx.centered, ctx.view, ctx.over = eps, centered, (rows, 1, weight.array.size, 1), (2, 3)
        ctx.affine = affine
        return wrap(y)

    @staticmethod
    def fused(ctx: Any, g: np.ndarray, x: np.ndarray, weight: np.ndarray, *statistics: np.ndarray) -> Any:
        """The gradients with respect to x, weight and bias."""
        affine = ctx.affine and any(ctx.needs_input_grad[1:3])
        mean, inverse = statistics
        return kernels.layer_norm_grad(g, x, weight, mean, inverse, ctx.centered, affine)


class GroupNorm(Norm):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias per sample and group of channels.

    x (N, C, *I), weight, bias (C,) -> y like x; mean and inverse deviation (N, groups) are added to ``statistics``.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, groups: int, statistics: list[np.ndarray]
    ) -> Tensor:
        y, *found = kernels.group_norm(x.array, groups, weight.array, bias.array, eps)
        ctx.save_for_backward(x, weight, *found)
        N, C, *positions = x.array.shape
        ctx.eps, ctx.centered, ctx.view, ctx.over = eps, True, (N, groups, C // groups, math.prod(positions)), (2, 3)
        statistics += found
        return wrap(y)

    @staticmethod
    def fused(ctx: Any, g: np.ndarray, x: np.ndarray, weight: np.ndarray, *statistics: np.ndarray) -> Any:
        """The gradients with respect to x, weight and bias."""
        return kernels.group_norm_grad(g, x, ctx.view[1], weight, *statistics)


class Unit(Function):
    """y = x / size with size = max(norm, eps), the 2-norm over ``axes``; returns both.

    gx = (g - y * sum(g * y)) / size + gsize * y, and g / eps where the norm is below eps.
    """

    gradient = "x: (g - y sum(g y)) / size where the norm exceeds eps, g / eps elsewhere"

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
        norm = kernels.norm(x.array, 2, axes, True)
        size = wrap(kernels.clamp(norm, eps, math.inf))
        y = wrap(kernels.div(x.array, size.array))
        ctx.save_for_backward(y, size, norm)
        ctx.axes, ctx.eps = axes, eps
        ctx.set_materialize_grads(False)
        return y, size

    @staticmethod
    def backward(ctx: Any, g: Tensor, gsize: Tensor | None) -> Gradients:
        y, size, norm = ctx.saved_tensors
        along = Sum.apply(g * y, ctx.axes, True)
        if gsize is not None:
            along = along - gsize * size
        if any_below(norm, ctx.eps, _BELOW_EPS):
            along = along * wrap(kernels.clamp_parts(norm, ctx.eps)[0])
        return (g - y * along) / size, None, None


@operator(records=LayerNorm, dtypes="hf")
def layer_norm(
    input: Tensor,
    normalized_shape: int | tuple[int, ...] | list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, with each sample's statistics over its last axes.

    input (*M, *L), normalized_shape L, weight and bias (*L) -> (*M, *L). The variance is the biased one.
    Source: J. Ba, J. Kiros, G. Hinton, "Layer Normalization", 2016 (arXiv:1607.06450).

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: the shapes do not fit.
    """
    if interpreters and (seen := interpreted(layer_norm, locals())) is not None:
        return seen
    return _last_axes("layer_norm", input, normalized_shape, weight, bias, eps, True)


@operator(records=LayerNorm)
def rms_norm(
    input: Tensor,
    normalized_shape: int | tuple[int, ...] | list[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """y = x / sqrt(mean(x^2) + eps) * weight, with each sample's mean over its last axes.

    input (*M, *L), normalized_shape L, weight (*L) -> (*M, *L). If eps is
    None, it is the machine epsilon of input's type.
    Source: B. Zhang, R. Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv:1910.07467).

    Raises: as ``layer_norm``.
    """
    if interpreters and (seen := interpreted(rms_norm, locals())) is not None:
        return seen
    require_float("rms_norm", input)
    if eps is None:
        eps = float(np.finfo(input.array.dtype).eps)
    return _last_axes("rms_norm", input, normalized_shape, weight, None, eps, False)


@operator(records=GroupNorm)
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, with each sample's statistics over channel groups.

    input (N, C, *I), weight and bias (C,) per channel -> (N, C, *I). The variance is the biased one.
    Source: Y. Wu, K. He, "Group Normalization", 2018 (arXiv:1803.08494).

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: the shapes do not fit, or one sample has groups of one element.
    """
    if interpreters and (seen := interpreted(group_norm, locals())) is not None:
        return seen
    require_float("group_norm", input)
    shape = input.array.shape
    if len(shape) < 2:
        raise ValueError(f"group_norm: input.shape={shape} needs at least 2 axes (batch, channels)")
    is_int = isinstance(num_groups, (int, np.integer)) and not isinstance(num_groups, bool)
    if not is_int or num_groups < 1 or shape[1] % num_groups:
        raise ValueError(
            f"group_norm: num_groups={num_groups!r} must be an int that divides the {shape[1]} channels of "
            f"input.shape={shape}"
        )
    if math.prod(shape) == num_groups:  # as in PyTorch, larger inputs may have groups of one element
        raise ValueError(
            f"group_norm: each of {num_groups} groups of input.shape={shape} has 1 element to take statistics over, "
            f"needs more than 1"
        )
    weight, bias = per_channel("group_norm", input, weight=weight, bias=bias)
    if type(eps) is not float:
        eps = as_real("group_norm", "eps", eps)
    y: Tensor = GroupNorm.apply(input, weight, bias, eps, num_groups, [])
    return y


@operator(records=Unit)
def normalize(input: Tensor, p: float = 2.0, dim: Dim = 1, eps: float = 1e-12) -> Tensor:
    """input / max(norm, eps), the p-norm along axis ``dim`` (or several).

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: p is not a number, or an axis is named twice.
        IndexError: input has no such axis.
    """
    if interpreters and (seen := interpreted(normalize, locals())) is not None:
        return seen
    over = axes("normalize", dim, getattr(input, "ndim", 0))
    eps = as_real("normalize", "eps", eps)
    if p == 2 and is_number(p):
        require_float("normalize", input)
        y: Tensor = Unit.apply(input, over, eps)[0]
        return y
    norm = vector_norm_of("normalize", input, p, over, True, None)
    if any_below(norm.array, eps, _BELOW_EPS):
        kept, added = kernels.clamp_parts(norm.array, eps)
        norm = norm * wrap(kept) + wrap(added)
    return input / norm


@operator
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """y = x / (k + alpha/size * sum x^2)^beta, the sum over the ``size`` channels around each channel.

    input (N, C, *I) -> (N, C, *I). With an even size, the window has one more channel before than after.
    Missing channels count as 0. A NaN or infinity makes channels outside its windows NaN too.
    Source: A. Krizhevsky, I. Sutskever, G. Hinton, "ImageNet classification with deep convolutional neural networks",
    2012, section 3.3.

    Raises:
        TypeError: input is not a Tensor of numbers.
        ValueError: size is below 1, or input has fewer than 3 axes.
    """
    if interpreters and (seen := interpreted(local_response_norm, locals())) is not None:
        return seen
    require_number("local_response_norm", input)
    if input.array.dtype != np.int64:
        require_float("local_response_norm", input)
    shape = input.array.shape
    if len(shape) < 3:
        raise ValueError(f"local_response_norm: input.shape={shape} needs at least 3 axes (batch, channels, positions)")
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        raise ValueError(f"local_response_norm: size={size!r} must be an int of at least 1")
    alpha, beta, k = (
        as_real("local_response_norm", label, number) for label, number in (("alpha", alpha), ("beta", beta), ("k", k))
    )
    # a sum over adjacent channels is a product with a band matrix
    last = (0, *range(2, len(shape)), 1)
    x = Permute.apply(input, last)
    if input.array.dtype.kind == "f":
        shares = matmul(x * x, wrap(kernels.channel_band(input.array, size, alpha / size)))
    else:  # means of integers are integers
        band = wrap(kernels.channel_band(input.array, size, 1))
        shares = floor_divide(matmul(x * x, band), size) * alpha
    y = x * exp(log(shares + k) * -beta)
    return Permute.apply(y, (0, len(shape) - 1, *range(1, len(shape) - 1)))


def _last_axes(
    name: str, x: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float, centered: bool
) -> Tensor:
    if not isinstance(x, Tensor) or x.array.dtype.kind != "f":
        require_float(name, x)
    extents = sizes(name, "normalized_shape", (normalized_shape,))
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
    if interpreters and is_overridden(mean, rsqrt, sub, mul, add):
        return _composed(x, len(extents), weight, bias, eps, centered)
    affine = weight is not None or bias is not None
    weight, bias = or_constant(weight, x, extents, 1.0), or_constant(bias, x, extents, 0.0)
    return LayerNorm.apply(x, weight, bias, eps, centered, affine)


def _composed(x: Tensor, ndim: int, weight: Tensor | None, bias: Tensor | None, eps: float, centered: bool) -> Tensor:
    """``layer_norm`` or ``rms_norm`` composed of operators. ``LayerNorm`` must match it."""
    over = tuple(range(-ndim, 0))
    centered_x = x - mean(x, over, True) if centered else x
    y = centered_x * rsqrt(mean(centered_x * centered_x, over, True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _require_shape(name: str, x: Tensor, extents: tuple[int, ...], **given: Tensor | None) -> None:
    for label, value in given.items():
        if value is not None:
            require_same(name, "input", x, label, value)
            if value.array.shape != extents:
                raise ValueError(f"{name}: {label}.shape={value.array.shape} must be normalized_shape={extents}")
