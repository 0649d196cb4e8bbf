"""Variance, standard deviation and the logarithm of a sum of exponentials, over all axes or some of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.grad_mode import is_grad_enabled
from ..engine.tensor import Tensor, wrap
from .dtype import as_flag, as_float, is_number, require_float
from .kernel_set import kernels
from .reduction import Dim, Mean, axes, left_shape
from .shape import Reshape
from .transcendental import exp

__all__ = ["logsumexp", "std", "std_mean", "var", "var_mean"]

Gradients = tuple[Tensor | None, ...]


class Var(Function):
    """The variance over ``axes``: sum (x - mean)^2 / (count - correction), or the root of it (``root``).

    The gradient of a deviation of 0 is 0.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool, correction: float, root: bool) -> Tensor:
        return _variance(ctx, x, axes, keepdims, correction, root)[0]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return _variance_grad(ctx, g), None, None, None, None


class VarMean(Function):
    """(variance, mean) over ``axes``; see ``Var``."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool, correction: float, root: bool
    ) -> tuple[Tensor, Tensor]:
        y, mean = _variance(ctx, x, axes, keepdims, correction, root)
        ctx.count = math.prod([x.array.shape[i] for i in axes])
        ctx.set_materialize_grads(False)
        return y, wrap(mean.reshape(y.array.shape))

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, gmean: Tensor | None) -> Gradients:
        """As of ``Var``, + gmean / count"""
        gx = None if g is None else _variance_grad(ctx, g)
        if gmean is not None:
            more = Reshape.apply(gmean, ctx.kept) * (1.0 / ctx.count if ctx.count else math.nan)
            gx = gx + more if gx is not None else more.expand(ctx.saved_tensors[0].array.shape)
        return gx, None, None, None, None


def _variance(
    ctx: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool, correction: float, root: bool
) -> tuple[Tensor, np.ndarray]:
    """The result of ``Var``, and the mean."""
    shape = x.array.shape
    rest = max(math.prod([shape[i] for i in axes]) - correction, 0)
    mean, y = kernels.moments(x.array, axes, 1.0 / rest if rest else 1.0)
    if not rest:  # over too few elements
        with np.errstate(all="ignore"):
            np.divide(y, 0.0, out=y)
    if root:
        np.sqrt(y, out=y)
    ctx.axes, ctx.root, ctx.kept, ctx.rest = axes, root, y.shape, rest
    result = wrap(y if keepdims else y.reshape(left_shape(shape, axes, False)))
    ctx.save_for_backward(x, mean, result)
    return result, mean


def _variance_grad(ctx: Any, g: Tensor) -> Tensor:
    """2 g (x - mean) / (count - correction) [/ 2 deviation]"""
    x, mean, y = ctx.saved_tensors
    factor = Reshape.apply(g, ctx.kept) * ((1.0 if ctx.root else 2.0) / ctx.rest if ctx.rest else math.nan)
    if ctx.root:
        factor = quotient_or_zero(factor, Reshape.apply(y, ctx.kept))
    if is_grad_enabled():
        return (x - Mean.apply(x, ctx.axes, True)) * factor
    return wrap(kernels.moments_grad(factor.array, x.array, mean))


class LogSumExp(Function):
    """log(sum(exp(x))) over ``axes``"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        known = kernels.logsumexp(x.array, axes)
        y = wrap(known.reshape(left_shape(x.array.shape, axes, keepdims)))
        ctx.save_for_backward(x, y)
        ctx.kept = known.shape
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """gx = g exp(x - y)"""
        x, y = ctx.saved_tensors
        g, y = Reshape.apply(g, ctx.kept), Reshape.apply(y, ctx.kept)
        if is_grad_enabled():
            return g * exp(x - y), None, None
        return wrap(kernels.logsumexp_grad(g.array, x.array, y.array)), None, None


def quotient_or_zero(x: Tensor, y: Tensor) -> Tensor:
    """x / y, and 0 where y is 0, whatever x is there; the same of its derivatives."""
    zero = y.array == 0
    if not zero.any():
        return x / y
    kept = wrap(np.asarray(1 - zero, y.array.dtype))
    return x * kept / (y * kept + wrap(np.asarray(zero, y.array.dtype)))


def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Variance of input over ``dim`` (all axes if None): sum (input - mean)^2 / (count - correction)

    correction is 1 by default; ``unbiased`` True means 1 and False 0. A bool in the place of dim is ``unbiased``.

    Raises:
        TypeError: input is no floating-point Tensor, or correction is no number.
        ValueError: both unbiased and correction are given, or an axis is named twice.
        IndexError: input has no such axis.
    """
    return Var.apply(*_arguments("var", input, dim, unbiased, keepdim, correction, False))


def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Standard deviation of input over ``dim``: the root of ``var``. Where it is 0, its gradient is 0.

    Raises:
        TypeError: input is no floating-point Tensor, or correction is no number.
        ValueError: both unbiased and correction are given, or an axis is named twice.
        IndexError: input has no such axis.
    """
    return Var.apply(*_arguments("std", input, dim, unbiased, keepdim, correction, True))


def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(variance, mean) of input over ``dim``, in one pass; see ``var``.

    Raises:
        TypeError: input is no floating-point Tensor, or correction is no number.
        ValueError: both unbiased and correction are given, or an axis is named twice.
        IndexError: input has no such axis.
    """
    return VarMean.apply(*_arguments("var_mean", input, dim, unbiased, keepdim, correction, False))


def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(standard deviation, mean) of input over ``dim``, in one pass; see ``std``.

    Raises:
        TypeError: input is no floating-point Tensor, or correction is no number.
        ValueError: both unbiased and correction are given, or an axis is named twice.
        IndexError: input has no such axis.
    """
    return VarMean.apply(*_arguments("std_mean", input, dim, unbiased, keepdim, correction, True))


def logsumexp(input: Tensor, dim: Dim, keepdim: bool = False) -> Tensor:
    """log(sum(exp(input))) over ``dim``, computed without overflow; -inf over no elements.

    Raises:
        TypeError: input is no Tensor.
        IndexError: input has no such axis.
        ValueError: an axis is named twice.
    """
    input = as_float("logsumexp", input)
    if keepdim is not False:
        keepdim = as_flag("logsumexp", "keepdim", keepdim)
    return LogSumExp.apply(input, axes("logsumexp", dim, input.array.ndim), keepdim)


def _arguments(
    name: str, x: Tensor, dim: Any, unbiased: bool | None, keepdim: bool, correction: float | None, root: bool
) -> tuple[Any, ...]:
    """What ``Var`` is applied to."""
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
        raise ValueError(f"{name}: unbiased={unbiased} and correction={correction} say the same; give one of them")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    elif not is_number(correction):
        raise TypeError(f"{name}: correction={correction!r} must be a number")
    return x, axes(name, dim, x.array.ndim), keepdim, correction, root
