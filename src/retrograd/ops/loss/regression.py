"""Squared and absolute error, and losses between the two."""

from __future__ import annotations

from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..arguments.checks import are_integers, as_real, require_float, require_number, require_same
from ..dtypes.dtype import cast
from ..pointwise.rounding import abs
from ..reduce.reduction import sum
from .elements import ElementLoss, check_reduction, matched, of_one_shape, reduce
from .older import averaged

__all__ = ["huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss"]


class SquaredError(ElementLoss, term="squared_error"):
    """(x - t)**2"""


class AbsoluteError(ElementLoss, term="absolute_error"):
    """|x - t|"""


class SmoothAbsoluteError(ElementLoss, term="smooth_absolute_error"):
    """z**2 / (2 beta) where z = |x - t| < beta, else z - beta / 2"""


class Huber(ElementLoss, term="huber"):
    """z**2 / 2 where z = |x - t| < delta, else delta (z - delta / 2)"""


@averaged
@operator(records=SquaredError)
def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(input - target)^2, averaged ("mean"), summed ("sum") or unreduced ("none").

    input, target: of one shape; others are broadcast, with a warning; one of them may hold integers. weight: of
    input's shape, factors of the losses; "mean" then divides by their sum. All three may require gradients.

    Raises:
        TypeError: an operand is not a Tensor, or neither input nor target is floating-point.
        ValueError: the shapes do not fit, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(mse_loss, locals())) is not None:
        return seen
    return _distance("mse_loss", SquaredError, (), input, target, reduction, weight)


@averaged
@operator(records=AbsoluteError)
def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|input - target|, averaged, summed or unreduced; its slope is 0 where they are equal. Otherwise as ``mse_loss``.

    The losses of integers are integers, which have no mean. Truth values cannot be subtracted.

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


@averaged
@operator(records=(SmoothAbsoluteError, AbsoluteError))
def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """0.5 z^2 / beta where z = |input - target| < beta, else z - 0.5 beta; averaged, summed or unreduced.

    beta: at least 0; with 0 it is ``l1_loss``. Shapes as in ``mse_loss``. Source: Girshick, Fast R-CNN, 2015.

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
    be of any type; the loss has that of input. Source: Huber 1964.

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
