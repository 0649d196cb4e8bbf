"""Regression and likelihood losses: squared, absolute, Huber, Gaussian, Poisson, Kullback-Leibler."""

from __future__ import annotations

import warnings
from math import log as logarithm
from math import nan, pi
from typing import Any

from ...arrays import any_below, full, ones, to_host
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..argument_checks import (
    are_floats,
    are_integers,
    as_flag,
    as_real,
    as_truth,
    is_number,
    require_float,
    require_number,
    require_same,
)
from ..dtypes.dtype import cast
from ..dtypes.promotion import floats
from ..pointwise.exponential import log
from ..pointwise.rounding import abs
from ..reduce.reduction import sum
from ..shape.broadcasting import expand
from ..shape.shape import Reshape
from .base import ElementLoss, accepts_size_average, check_reduction, choice, matched, of_one_shape, reduce

__all__ = ["gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss"]


# ---- Squared error, absolute error, and losses between the two -------------------------------------------------------


class SquaredError(ElementLoss, term="squared_error"):
    """(x - t)**2"""


class AbsoluteError(ElementLoss, term="absolute_error"):
    """|x - t|"""


class SmoothAbsoluteError(ElementLoss, term="smooth_absolute_error"):
    """z**2 / (2 beta) where z = |x - t| < beta, else z - beta / 2"""


class Huber(ElementLoss, term="huber"):
    """z**2 / 2 where z = |x - t| < delta, else delta (z - delta / 2)"""


@accepts_size_average
@operator(records=SquaredError)
def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(input - target)^2, averaged ("mean"), summed ("sum") or unreduced ("none").

    input, target: of equal shapes, otherwise they are broadcast with a warning; one may contain integers.
    weight: factors of the losses in input's shape; "mean" then divides by their sum. All three may require gradients.

    Raises:
        TypeError: an operand is not a Tensor, or neither input nor target is floating-point.
        ValueError: the shapes do not fit, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(mse_loss, locals())) is not None:
        return seen
    return _distance("mse_loss", SquaredError, (), input, target, reduction, weight)


@accepts_size_average
@operator(records=AbsoluteError)
def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|input - target|, averaged, summed or unreduced; its slope is 0 where they are equal. See ``mse_loss``.

    Losses of integers are integers, which have no mean. Booleans cannot be subtracted.

    Raises:
        TypeError: an operand is not a Tensor of numbers, or reduction="mean" with integers.
        ValueError: the shapes do not fit, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(l1_loss, locals())) is not None:
        return seen
    require_number("l1_loss", input)
    require_number("l1_loss", target, "target")
    if weight is None and reduction in ("sum", "none") and are_integers(input, target):
        x, t = of_one_shape("l1_loss", input, target, warn=True, stacklevel=4)
        return reduce("l1_loss", abs(x - t), reduction)
    return _distance("l1_loss", AbsoluteError, (), input, target, reduction, weight)


@accepts_size_average
@operator(records=(SmoothAbsoluteError, AbsoluteError))
def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """0.5 z^2 / beta where z = |input - target| < beta, else z - 0.5 beta; averaged, summed or unreduced.

    beta: at least 0; 0 gives ``l1_loss``. Shapes as in ``mse_loss``. Source: Girshick, Fast R-CNN, 2015.

    Raises:
        TypeError: an operand is not a Tensor, or neither is floating-point.
        ValueError: beta is negative, the shapes do not fit, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(smooth_l1_loss, locals())) is not None:
        return seen
    if not as_real("smooth_l1_loss", "beta", beta) >= 0:
        raise ValueError(f"smooth_l1_loss: beta={beta} must be at least 0")
    loss, numbers = (SmoothAbsoluteError, (float(beta),)) if beta else (AbsoluteError, ())
    return _distance("smooth_l1_loss", loss, numbers, input, target, reduction, None)


@operator(records=Huber)
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """0.5 z^2 where z = |input - target| < delta, else delta (z - 0.5 delta); averaged, summed or unreduced.

    delta: above 0. Shapes as in ``mse_loss``; with a weight, "mean" divides by the number of elements. The target may
    be of any type; the loss has input's type. Source: Huber 1964.

    Raises:
        TypeError: an operand is not a Tensor, or input is not floating-point.
        ValueError: delta is not above 0, the shapes do not fit, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(huber_loss, locals())) is not None:
        return seen
    if not as_real("huber_loss", "delta", delta) > 0:
        raise ValueError(f"huber_loss: delta={delta} must be above 0")
    require_float("huber_loss", input)
    losses = _distance("huber_loss", Huber, (float(delta),), input, target, reduction, weight, by_weight=False)
    return cast(losses, input.array.dtype)


def _distance(
    name: str,
    loss: type[Function],
    numbers: tuple[float, ...],
    input: Tensor,
    target: Tensor,
    reduction: str,
    weight: Tensor | None,
    by_weight: bool = True,
) -> Tensor:
    check_reduction(name, reduction)
    x, t = matched(name, input, target, warn=True, stacklevel=5 if by_weight else 4)
    if weight is None:
        return loss.apply(reduction, numbers, x, t)
    require_same(name, "input", x, "weight", weight)
    if weight.array.shape != input.array.shape:
        raise ValueError(
            f"{name}: weight.shape={weight.array.shape} and input.shape={input.array.shape} must be equal; expand it"
        )
    losses = loss.apply("none", numbers, x, t) * weight
    if reduction == "mean" and by_weight:
        return sum(losses) / sum(weight)
    return reduce(name, losses, reduction)


# ---- Poisson and Gaussian negative log-likelihoods, Kullback-Leibler divergence --------------------------------------


class KullbackLeibler(ElementLoss, term="kullback_leibler"):
    """t (log(t) - x), 0 where t is 0"""


class KullbackLeiblerOfLogs(ElementLoss, term="kullback_leibler_of_logs"):
    """exp(t) (t - x)"""


class Poisson(ElementLoss, term="poisson"):
    """x - t log(x + eps)"""


class PoissonOfLogs(ElementLoss, term="poisson_of_logs"):
    """exp(x) - t x"""


class Gaussian(ElementLoss, term="gaussian"):
    """(log(w) + (x - t)**2 / w) / 2, with the variance w"""


@accepts_size_average
@operator(records=(KullbackLeiblerOfLogs, KullbackLeibler))
def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target (log(target) - input): the divergence of target from the distribution whose logarithm is input.

    target: probabilities, or with ``log_target`` their logarithms. Shapes are broadcast. reduction: "batchmean" (the
    sum divided by the batch size: the divergence as defined), "mean" (over all elements, with a warning), "sum",
    "none". Both may require gradients.

    Raises:
        TypeError: an operand is not a floating-point Tensor.
        ValueError: the shapes do not broadcast, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(kl_div, locals())) is not None:
        return seen
    name = "kl_div"
    check_reduction(name, reduction, "batchmean")
    if reduction == "mean":
        warnings.warn(
            f"{name}: reduction='mean' divides by the number of elements; "
            f"'batchmean' divides by the batch, as the divergence is defined",
            stacklevel=3,
        )
    for label, value in (("input", input), ("target", target)):
        require_float(name, value, label)
    x, t = matched(name, input, target)
    loss = KullbackLeiblerOfLogs if as_flag(name, "log_target", log_target) else KullbackLeibler
    y = loss.apply("sum" if reduction == "batchmean" else reduction, (), x, t)
    if reduction == "batchmean" and input.array.ndim:
        batch = input.array.shape[0]
        return y * (1.0 / batch if batch else nan)
    return y


@accepts_size_average
@operator(records=(PoissonOfLogs, Poisson), dtypes="bif")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    *,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of counts: exp(input) - target input, averaged, summed or unreduced.

    log_input: if False, input is the rate itself, and the loss is input - target log(input + eps).

    full: add Stirling's approximation of log(target!), target log(target) - target + log(2 pi target) / 2, where
    target > 1. Shapes are broadcast. Both may require gradients.

    Raises:
        TypeError: an operand is not a Tensor.
        ValueError: the shapes do not broadcast, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(poisson_nll_loss, locals())) is not None:
        return seen
    name = "poisson_nll_loss"
    check_reduction(name, reduction)
    if not are_floats(input, target):
        input, target = floats(name, integers=True, input=input, target=target)
    x, t = of_one_shape(name, input, target)
    log_input, full = as_flag(name, "log_input", log_input), as_flag(name, "full", full)
    eps = as_real(name, "eps", eps)
    loss = PoissonOfLogs.apply(reduction, (), x, t) if log_input else Poisson.apply(reduction, (eps,), x, t)
    if not full:
        return loss
    large = exact("lt")(ones((), t.array.dtype, like=t.array), t.array)
    # masked elements become 1, since log(0) would make the gradient NaN
    n = t * choice(t.array, large, 1, 0) + choice(t.array, large, 0, 1)
    stirling = n * log(n) - n + log(n * (2 * pi)) * 0.5
    return loss + reduce(name, stirling * choice(t.array, large, 1, 0), reduction)


@operator(records=Gaussian)
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log(v) + (input - target)^2 / v) / 2 with v = max(var, eps); averaged, summed or unreduced.

    var: variances, at least 0: a number, or a Tensor of input's shape, without its last axis, or with one extent of 1.
    The gradient ignores the clamp to ``eps``. full: add log(2 pi) / 2. All may require gradients.
    Source: Nix and Weigend 1994.

    Raises:
        TypeError: an operand is not a Tensor, var holds integers, or no operand is floating-point.
        ValueError: the shapes do not fit, a variance is negative, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(gaussian_nll_loss, locals())) is not None:
        return seen
    name = "gaussian_nll_loss"
    check_reduction(name, reduction)
    if isinstance(var, Tensor) and not (are_floats(input, target) and are_floats(input, var)):
        require_float(name, var, "var")
        input, target, var = floats(name, input=input, target=target, var=var)
    x, t = matched(name, input, target)
    v = _variances(name, input, var)
    eps = as_real(name, "eps", eps)
    if any_below(v.array, eps, "whether variances are below eps"):
        v = v + wrap(kernels.shortfall(v.array, eps))
    full = as_truth(name, "full", full)
    loss = Gaussian.apply(reduction, (), x, t, expand(v, x.array.shape))
    if not full:
        return loss
    constant = 0.5 * logarithm(2 * pi)
    return loss + constant * (x.array.size if reduction == "sum" else 1)


def _variances(name: str, x: Tensor, var: Any) -> Tensor:
    """Return the variances as a Tensor that broadcasts to x."""
    shape = x.array.shape
    if is_number(var):
        v = wrap(full(shape, var, x.array.dtype, like=x.array))
    else:
        require_same(name, "input", x, "var", var)
        v = var
        if v.array.shape != shape and shape[:-1] == v.array.shape:
            v = Reshape.apply(v, (*v.array.shape, 1))
        differing = [n for m, n in zip(shape, v.array.shape, strict=False) if m != n]
        if len(v.array.shape) != len(shape) or differing not in ([], [1]):
            raise ValueError(
                f"{name}: var.shape={var.array.shape}, input.shape={shape}; var must have input's shape, "
                f"lack its last axis, or have one extent of 1"
            )
    if any_below(v.array, 0, "whether variances are negative"):
        least = to_host(v.array, "a message").min()
        raise ValueError(f"{name}: var contains {least}; variances must be at least 0")
    return v
