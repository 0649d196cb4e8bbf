"""Negative log-likelihoods of counts and of measurements, and the Kullback-Leibler divergence."""

from __future__ import annotations

import warnings
from math import log as logarithm
from math import nan, pi
from typing import Any

from ...arrays import any_below, full, ones, to_host
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..arguments.checks import are_floats, as_flag, as_real, as_truth, is_number, require_float, require_same
from ..dtypes.promotion import floats
from ..pointwise.transcendental import log
from ..shape.broadcasting import expand
from ..shape.shape import Reshape
from .elements import ElementLoss, check_reduction, choice, matched, of_one_shape, reduce
from .older import averaged

__all__ = ["gaussian_nll_loss", "kl_div", "poisson_nll_loss"]


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


@averaged
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


@averaged
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
    """The negative log-likelihood of counts: exp(input) - target input, or with the rate itself as the input
    (``log_input=False``) input - target log(input + eps); averaged, summed or unreduced.

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
    # masked elements become 1: log(0) would spoil the gradient
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
    """(log(v) + (input - target)^2 / v) / 2 with v = max(var, eps), averaged, summed or unreduced.

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
    if any_below(v.array, eps, "whether variances are below eps"):
        v = v + wrap(kernels.shortfall(v.array, eps))
    full = as_truth(name, "full", full)
    loss = Gaussian.apply(reduction, (), x, t, expand(v, x.array.shape))
    if not full:
        return loss
    constant = 0.5 * logarithm(2 * pi)
    return loss + constant * (x.array.size if reduction == "sum" else 1)


def _variances(name: str, x: Tensor, var: Any) -> Tensor:
    """The variances as a Tensor that broadcasts to x."""
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
        raise ValueError(f"{name}: var has an entry of {least}; variances are at least 0")
    return v
