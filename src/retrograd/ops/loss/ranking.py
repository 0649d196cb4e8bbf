"""Losses of distances and similarities: ranking, pairs, triplets."""

from __future__ import annotations

from collections.abc import Callable

from ...arrays import ones
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..arguments.checks import (
    are_floats,
    are_integers,
    as_callable,
    as_flag,
    as_real,
    as_truth,
    require_float,
    require_number,
    require_tensor,
    whole,
)
from ..dtypes.promotion import floats, promote
from ..pointwise.piecewise import clamp, minimum, where
from ..product.distance import as_float_pair, pairwise_distance, row_cosine
from ..shape.broadcasting import broadcast_shape, expand
from .elements import ElementLoss, check_reduction, matched, reduce, refuse_gradient, signs
from .older import averaged

__all__ = [
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]

_NEVER_ZERO = 1e-12  # added to squared lengths: PyTorch's
Metric = Callable[[Tensor, Tensor], Tensor]


class Hinge(ElementLoss, term="hinge"):
    """x where t = 1, max(0, margin - x) where t = -1; another t gets both"""


class Ranking(ElementLoss, term="ranking"):
    """max(0, margin - w (x - t))"""


@averaged
@operator(records=Hinge)
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """input where the target is 1, max(0, margin - input) where it is -1; averaged, summed or unreduced.

    input: distances; target: 1 for similar pairs, -1 for dissimilar ones, int64, bool or of input's type, without
    gradient. Shapes are broadcast. Integer input gives integer losses; the margin is truncated.

    Raises:
        TypeError: input is not a Tensor of numbers, target is floating-point of another type, or reduction="mean" with
            integers.
        ValueError: the target requires a gradient, the shapes do not broadcast, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(hinge_embedding_loss, locals())) is not None:
        return seen
    name = "hinge_embedding_loss"
    check_reduction(name, reduction)
    if are_integers(input):
        return _hinge_of_integers(name, input, target, whole(name, "margin", margin), reduction)
    require_float(name, input)
    x, t = matched(name, input, refuse_gradient(name, "target", signs(name, target, input)))
    return Hinge.apply(reduction, (as_real(name, "margin", margin),), x, t)


@averaged
@operator(records=Ranking, dtypes="if")
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - target (input1 - input2)): target 1 ranks input1 higher, -1 input2.

    The three have the same number of axes and are broadcast. The inputs may hold integers; target: int64 or of the
    inputs' type. Averaged, summed or unreduced.

    Raises:
        TypeError: an operand is not a Tensor of numbers, or target is floating-point of another type than the inputs.
        ValueError: the shapes do not fit, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(margin_ranking_loss, locals())) is not None:
        return seen
    name = "margin_ranking_loss"
    check_reduction(name, reduction)
    x1, x2 = (input1, input2) if are_floats(input1, input2) else as_float_pair(name, input1=input1, input2=input2)
    require_number(name, target, "target")
    t = signs(name, target, x1)
    if not input1.array.ndim == input2.array.ndim == t.array.ndim:
        raise ValueError(
            f"{name}: input1.shape={input1.array.shape}, input2.shape={input2.array.shape} and "
            f"target.shape={t.array.shape} must have the same number of axes"
        )
    shape = broadcast_shape(name, broadcast_shape(name, x1.array.shape, x2.array.shape), t.array.shape)
    numbers = (as_real(name, "margin", margin),)
    return Ranking.apply(reduction, numbers, expand(x1, shape), expand(x2, shape), expand(t, shape))


@averaged
@operator(dtypes="bif")
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """1 - cos(input1, input2) where the target is 1, max(0, cos(input1, input2) - margin) where it is -1.

    input1, input2 (N, D), target (N,); or (D,), (D,) and (). target: int64 or of the inputs' type, without gradient;
    another value gives 0. Averaged, summed or unreduced.

    Raises:
        TypeError: an operand is not a Tensor, or target is floating-point of another type than the inputs.
        ValueError: the shapes do not fit, the target requires a gradient, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(cosine_embedding_loss, locals())) is not None:
        return seen
    name = "cosine_embedding_loss"
    check_reduction(name, reduction)
    x1, x2 = input1, input2
    if not are_floats(x1, x2):
        x1, x2 = floats(name, integers=True, input1=x1, input2=x2)
    t = refuse_gradient(name, "target", signs(name, target, x1)).array
    if t.ndim > 1 or {x1.array.ndim, x2.array.ndim} != {t.ndim + 1}:
        raise ValueError(
            f"{name}: input1.shape={x1.array.shape}, input2.shape={x2.array.shape}, target.shape={t.shape}; "
            f"(N, D), (N, D) and (N,), or (D,), (D,) and () are needed"
        )
    shape = broadcast_shape(name, x1.array.shape, x2.array.shape)
    rows = shape if t.ndim else (1, *shape)
    x1, x2 = (expand(x, shape).reshape(rows) for x in (x1, x2))
    cosine = row_cosine(x1, x2, _NEVER_ZERO).reshape(shape[:-1])
    broadcast_shape(name, cosine.array.shape, t.shape)
    margin = as_real(name, "margin", margin)
    slope, start = kernels.cosine_embedding_slopes(cosine.array, t, margin, x1.array.dtype)
    return reduce(name, cosine * wrap(slope) + wrap(start), reduction)


@averaged
@operator(records=Ranking, dtypes="if")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + d(anchor, positive) - d(anchor, negative)), d the ``pairwise_distance`` along the last axis.

    The three (N, D) or (D,), broadcast. p, eps: of the distance. swap: where the positive is nearer to the
    negative than the anchor is, use that distance (Balntas et al. 2016). Averaged, summed or unreduced.

    Raises:
        TypeError: an operand is not a Tensor of numbers.
        ValueError: the margin is not above 0, the shapes do not fit, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(triplet_margin_loss, locals())) is not None:
        return seen

    def metric(x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, p, eps)

    return _triplet("triplet_margin_loss", anchor, positive, negative, metric, margin, swap, reduction)


@operator(records=Ranking, dtypes="if")
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Metric | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """As ``triplet_margin_loss`` with any function of two tensors as the distance (default: ``pairwise_distance``).

    Raises: as ``triplet_margin_loss``.
    """
    if interpreters and (seen := interpreted(triplet_margin_with_distance_loss, locals())) is not None:
        return seen
    name = "triplet_margin_with_distance_loss"
    metric = pairwise_distance if distance_function is None else distance_function
    swap = as_truth(name, "swap", swap)
    return _triplet(name, anchor, positive, negative, metric, margin, swap, reduction)


def _triplet(
    name: str,
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    metric: Metric,
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    check_reduction(name, reduction)
    as_callable(name, "distance_function", metric)
    margin = as_real(name, "margin", margin)
    if not margin > 0:
        raise ValueError(f"{name}: margin={margin:g} must be above 0")
    for label, x in (("anchor", anchor), ("positive", positive), ("negative", negative)):
        require_number(name, x, label)
    if not anchor.array.ndim == positive.array.ndim == negative.array.ndim:
        raise ValueError(
            f"{name}: anchor.shape={anchor.array.shape}, positive.shape={positive.array.shape} and "
            f"negative.shape={negative.array.shape} must have the same number of axes"
        )
    near, far = metric(anchor, positive), metric(anchor, negative)
    if as_flag(name, "swap", swap):
        far = minimum(far, metric(positive, negative))
    far, near = promote(name, far, near)
    shape = broadcast_shape(name, far.array.shape, near.array.shape)
    always = wrap(ones(shape, near.array.dtype, like=near.array))
    return Ranking.apply(reduction, (margin,), expand(far, shape), expand(near, shape), always)


def _hinge_of_integers(name: str, x: Tensor, target: Tensor, margin: int, reduction: str) -> Tensor:
    require_tensor(name, target, "target")
    broadcast_shape(name, x.array.shape, target.array.shape)
    losses = where(target == 1, x, 0) + where(target == -1, clamp(margin - x, 0), 0)
    return reduce(name, losses, reduction)
