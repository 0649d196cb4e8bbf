"""Base class and helpers of the normalization operators: the gradient, and checks of weight and bias."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import full, zeros
from ...engine.function import Function
from ...engine.grad_mode import is_grad_enabled
from ...engine.tensor import Tensor, wrap
from ...formulas.normalization import input_grad, inverse_deviation, standardised
from ...kernel_set import is_copy
from ..arguments.checks import require_same
from ..reduce.reduction import Mean
from ..shape.broadcasting import Sum
from ..shape.shape import Reshape

__all__: list[str] = []

Gradients = tuple[Tensor | None, ...]
Wanted = tuple[bool, bool, bool]  # the gradients to x, weight and bias


class Norm(Function):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias; arguments x, weight, bias and others.

    forward saves x, weight and two arrays of statistics. ctx.view is x's shape as four axes, the middle two those of
    weight and bias; ctx.over are the axes of the statistics. ``fused`` calls the kernel of the gradient. Without
    ctx.centred the mean is 0.
    """

    gradient = "x: (h - mean(h) - z mean(h z)) / sqrt(variance + eps), h = g weight; weight: sum(g z); bias: sum(g)"

    @classmethod
    def backward(cls, ctx: Any, g: Tensor) -> Gradients:
        """The fused gradient, or the composed one where it must be differentiable or need not reach x."""
        wanted, (x, weight, *statistics) = ctx.needs_input_grad[:3], ctx.saved_tensors
        rest = (None,) * (len(ctx.needs_input_grad) - 3)
        if is_grad_enabled() or not wanted[0]:
            return *norm_grad(g, x, weight, ctx.eps, ctx.view, ctx.over, ctx.centred, wanted), *rest
        found = cls.fused(ctx, g.array, x.array, weight.array, *statistics)
        return *[wrap(array) if want else None for array, want in zip(found, wanted, strict=True)], *rest

    @staticmethod
    def backward_with(text: Callable[..., Any]) -> Callable[..., Any] | None:
        """The backward in which a changed copy of ``norm_grad`` replaces it; None if it is no such copy."""
        if not is_copy(text, norm_grad):
            return None

        def backward(ctx: Any, g: Tensor) -> Any:
            x, weight, *_ = ctx.saved_tensors
            return text(g, x, weight, ctx.eps, ctx.view, ctx.over, ctx.centred, ctx.needs_input_grad[:3])

        return backward

    @staticmethod
    def fused(ctx: Any, g: np.ndarray, x: np.ndarray, weight: np.ndarray, *statistics: np.ndarray) -> Any:
        """The gradients to x, weight and bias."""
        raise NotImplementedError


def norm_grad(
    g: Tensor,
    x: Tensor,
    weight: Tensor,
    eps: float,
    view: tuple[int, int, int, int],
    over: tuple[int, ...],
    centred: bool = True,
    wanted: Wanted = (True, True, True),
) -> Gradients:
    """The gradient to x, weight and bias composed of operators; the fused kernels must equal it.

    With z = (x - mean) / sqrt(variance + eps) and h = g * weight:
    gx = (h - mean(h) - z * mean(h * z)) / sqrt(variance + eps),  gw = sum(g * z),  gb = sum(g)
    """
    (want_x, want_w, want_b), outer, shape = wanted, (0, 3), weight.array.shape
    g, given = Reshape.apply(g, view), x.array.shape
    gb = Reshape.apply(Sum.apply(g, outer, False), shape) if want_b else None
    if not want_x and not want_w:
        return None, None, gb
    x = Reshape.apply(x, view)
    mean = Mean.apply(x, over, True) if centred else 0.0
    away = x - mean
    inverse = inverse_deviation(Mean.apply(away * away, over, True), eps)
    z = standardised(x, mean, inverse)
    gw = Reshape.apply(Sum.apply(g * z, outer, False), shape) if want_w else None
    if not want_x:
        return None, gw, gb
    h = g * Reshape.apply(weight, (1, view[1], view[2], 1))
    mean_h = Mean.apply(h, over, True) if centred else 0.0
    return Reshape.apply(input_grad(h, z, inverse, mean_h, Mean.apply(h * z, over, True)), given), gw, gb


def per_channel(name: str, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """weight and bias (C,) for x (N, C, ...), checked; ones and zeros where they are None."""
    require_channels(name, x, weight=weight, bias=bias)
    return or_constant(weight, x, x.array.shape[1:2], 1.0), or_constant(bias, x, x.array.shape[1:2], 0.0)


def or_constant(given: Tensor | None, x: Tensor, shape: tuple[int, ...], number: float) -> Tensor:
    """``given``, or a Tensor of x's type filled with ``number``."""
    if given is None:
        dtype = x.array.dtype
        return wrap(full(shape, number, dtype, like=x.array) if number else zeros(shape, dtype, like=x.array))
    return given


def require_channels(name: str, x: Tensor, **given: Tensor | None) -> None:
    """Refuse operands that are neither None nor (C,) in the type of x (N, C, ...).

    Raises:
        TypeError: the types differ.
        ValueError: a shape does not fit.
    """
    shape = x.array.shape
    for label, value in given.items():
        if value is not None:
            require_same(name, "input", x, label, value)
            if value.array.shape != shape[1:2]:
                raise ValueError(
                    f"{name}: {label}.shape={value.array.shape}, needs ({shape[1]},), one per channel; "
                    f"input.shape={shape}"
                )
