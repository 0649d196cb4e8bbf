"""Variance, standard deviation and logsumexp over some or all axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...arrays import any_true, ones
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import as_flag, as_float, is_number, require_float
from ..pointwise.exponential import exp
from ..shape.broadcasting import Sum
from ..shape.shape import Reshape
from .reduction import Dim, Mean, axes, left_shape, operands

__all__ = ["logsumexp", "std", "std_mean", "var", "var_mean"]

Gradients = tuple[Tensor | None, ...]


class VarMean(Function):
    """(variance, mean) over ``axes``: sum (x - mean)^2 / (count - correction), or its square root (``root``).

    The gradient of a standard deviation of 0 is 0.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool, correction: float, root: bool
    ) -> tuple[Tensor, Tensor]:
        shape = x.array.shape
        ctx.count = math.prod([shape[i] for i in axes])
        ctx.rest = max(ctx.count - correction, 0)
        found, y = kernels.moments(x.array, axes, 1.0 / ctx.rest if ctx.rest else 1.0)
        if not ctx.rest:  # y / 0 for too few elements
            y = kernels.scale(y, math.inf)
        if root:
            y = kernels.sqrt(y)
        ctx.axes, ctx.root, ctx.kept = axes, root, y.shape
        left = left_shape(shape, axes, keepdims)
        result, mean = wrap(y.reshape(left)), wrap(found.reshape(left))
        ctx.save_for_backward(x, result, mean)
        ctx.set_materialize_grads(False)
        return result, mean

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, gmean: Tensor | None) -> Gradients:
        """2 g (x - mean) / (count - correction) [/ 2 deviation] + gmean / count"""
        x, y, mean = ctx.saved_tensors
        gx = None
        if g is not None:
            factor = Reshape.apply(g, ctx.kept) * ((1.0 if ctx.root else 2.0) / ctx.rest if ctx.rest else math.nan)
            if ctx.root:
                factor = quotient_or_zero(factor, Reshape.apply(y, ctx.kept))
            gx = AboutMean.apply(factor, x, ctx.axes, mean.array.reshape(ctx.kept))
        if gmean is not None:
            more = Reshape.apply(gmean, ctx.kept) * (1.0 / ctx.count if ctx.count else math.nan)
            gx = gx + more if gx is not None else more.expand(x.array.shape)
        return gx, None, None, None, None


class AboutMean(Function):
    """factor (x - mean), with the mean of x over ``axes``; factor has extent 1 there."""

    @staticmethod
    def forward(ctx: Any, factor: Tensor, x: Tensor, axes: tuple[int, ...], mean: np.ndarray | None) -> Tensor:
        if mean is None:
            mean = kernels.mean(x.array, axes, True)
        ctx.save_for_backward(factor, x)
        ctx.axes = axes
        return wrap(kernels.moments_grad(factor.array, x.array, mean))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (want_factor, want_x, *_), (factor, x), axes = ctx.needs_input_grad, ctx.saved_tensors, ctx.axes
        gfactor = Sum.apply(v * (x - Mean.apply(x, axes, True)), axes, True) if want_factor else None
        return gfactor, AboutMean.apply(factor, v, axes, None) if want_x else None, None, None


class LogSumExp(Function):
    """log(sum(exp(x))) over ``axes``"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        known = kernels.logsumexp(x.array, axes)
        y = wrap(known.reshape(left_shape(x.array.shape, axes, keepdims)))
        ctx.save_for_backward(x, y)
        ctx.axes, ctx.kept = axes, known.shape
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        x, y = ctx.saved_tensors
        return LogSumExpGrad.apply(Reshape.apply(g, ctx.kept), x, Reshape.apply(y, ctx.kept), ctx.axes), None, None


class LogSumExpGrad(Function):
    """g exp(x - y); g and y have extent 1 along ``axes``"""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor, y: Tensor, axes: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(g, x, y)
        ctx.axes = axes
        return wrap(kernels.logsumexp_grad(g.array, x.array, y.array))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (want_g, want_x, want_y, _), (g, x, y) = ctx.needs_input_grad, ctx.saved_tensors
        weighted = v * exp(x - y)
        along = Sum.apply(weighted, ctx.axes, True) if want_g or want_y else None
        return along if want_g else None, g * weighted if want_x else None, -(g * along) if want_y else None, None


def quotient_or_zero(x: Tensor, y: Tensor) -> Tensor:
    """Return x / y, or 0 where y is 0, whatever x is. Its derivatives are 0 there too."""
    at_zero = kernels.at_zero(y.array)
    if not any_true(at_zero, "whether a divisor is 0"):
        return x / y
    kept = wrap(kernels.sub(ones((), y.array.dtype, like=y.array), at_zero))
    return x * kept / (y * kept + wrap(at_zero))


@operator(records=VarMean, methods="var", dtypes="bif")
def var(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Variance of input over ``dim`` (all axes if None): sum (input - mean)^2 / (count - correction)

    correction is 1 by default; ``unbiased`` True means 1 and False 0. A bool passed as dim is ``unbiased``.

    Raises:
        TypeError: input is not a floating-point Tensor, or correction is not a number.
        ValueError: both unbiased and correction are given, or an axis is named twice.
        IndexError: input has no such axis.
    """
    if interpreters and (seen := interpreted(var, locals())) is not None:
        return seen
    return VarMean.apply(*_arguments("var", input, dim, unbiased, keepdim, correction, False))[0]


@operator(records=VarMean, methods="std")
def std(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Standard deviation of input over ``dim``: the square root of ``var``. Where it is 0, its gradient is 0.

    Raises: as ``var``.
    """
    if interpreters and (seen := interpreted(std, locals())) is not None:
        return seen
    return VarMean.apply(*_arguments("std", input, dim, unbiased, keepdim, correction, True))[0]


@operator(records=VarMean, methods="var_mean")
def var_mean(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(variance, mean) of input over ``dim``, in one pass; see ``var``.

    Raises: as ``var``.
    """
    if interpreters and (seen := interpreted(var_mean, locals())) is not None:
        return seen
    return VarMean.apply(*_arguments("var_mean", input, dim, unbiased, keepdim, correction, False))


@operator(records=VarMean, methods="std_mean")
def std_mean(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(standard deviation, mean) of input over ``dim``, in one pass; see ``std``.

    Raises: as ``var``.
    """
    if interpreters and (seen := interpreted(std_mean, locals())) is not None:
        return seen
    return VarMean.apply(*_arguments("std_mean", input, dim, unbiased, keepdim, correction, True))


@operator(records=LogSumExp, methods="logsumexp", dtypes="bif")
def logsumexp(input: Tensor, dim: Dim, keepdim: bool = False) -> Tensor:
    """log(sum(exp(input))) over ``dim``, computed without overflow; -inf over no elements.

    Raises:
        TypeError: input is not a Tensor.
        IndexError: input has no such axis.
        ValueError: an axis is named twice.
    """
    if interpreters and (seen := interpreted(logsumexp, locals())) is not None:
        return seen
    return LogSumExp.apply(*operands("logsumexp", as_float("logsumexp", input), dim, keepdim))


def _arguments(
    name: str, x: Tensor, dim: Any, unbiased: bool | None, keepdim: bool, correction: float | None, root: bool
) -> tuple[Any, ...]:
    """Return the arguments of ``VarMean``."""
    require_float(name, x)
    if isinstance(dim, bool):
        if unbiased is not None:
            raise TypeError(f"{name}: dim={dim} must be an int, ints or None")
        dim, unbiased = None, dim
    if unbiased is not None:
        unbiased = as_flag(name, "unbiased", unbiased)
    if keepdim is not False:
        keepdim = as_flag(name, "keepdim", keepdim)
    if unbiased is not None and correction is not None:
        raise ValueError(f"{name}: unbiased={unbiased} and correction={correction} are alternatives; give one of them")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    elif not is_number(correction):
        raise TypeError(f"{name}: correction={correction!r} must be a number")
    return x, axes(name, dim, x.array.ndim), keepdim, correction, root
