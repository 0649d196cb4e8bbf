"""Binary cross entropy of probabilities and of logits."""

from __future__ import annotations

import math
from typing import Any

from ...arrays import first_outside, number, within
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ...kernel_set import kernels
from ..arguments.checks import are_integers, require_float
from ..dtypes.dtype import cast
from ..shape.broadcasting import broadcast_shape, expand
from .elements import ElementLoss, check_reduction, constant, reduce, same_shape, weighted
from .older import averaged

__all__ = ["binary_cross_entropy", "binary_cross_entropy_with_logits", "multilabel_soft_margin_loss"]


class BinaryCrossEntropy(ElementLoss, term="binary_cross_entropy"):
    """-t log(x) - (1 - t) log(1 - x), with logarithms of at least -100, as in PyTorch"""


class BinaryCrossEntropyWithLogits(ElementLoss, term="binary_cross_entropy_with_logits"):
    """(1 - t) x + log(1 + exp(-x))"""


class WeightedBinaryCrossEntropyWithLogits(ElementLoss, term="weighted_binary_cross_entropy_with_logits"):
    """(1 - t) x + (1 + (w - 1) t) log(1 + exp(-x)), with the weight w of positives"""


@averaged
@operator(records=BinaryCrossEntropy)
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """-target log(input) - (1 - target) log(1 - input), averaged ("mean"), summed ("sum") or unreduced ("none").

    input: probabilities in [0, 1]; target of the same shape, usually in [0, 1]; it may require a gradient, too.
    weight: factors of the losses, broadcast. Logarithms are clamped to at least -100. For logits,
    ``binary_cross_entropy_with_logits`` is more accurate.

    Raises:
        TypeError: an operand is not a floating-point Tensor, or their types differ.
        ValueError: the shapes differ, input is outside of [0, 1], the weight requires a gradient or does not
            broadcast, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(binary_cross_entropy, locals())) is not None:
        return seen
    name = "binary_cross_entropy"
    check_reduction(name, reduction)
    same_shape(name, input, target)
    weight = constant(name, "weight", weight, input)
    y = BinaryCrossEntropy.apply("none" if weight is not None else reduction, (), input, target)
    # the logarithm of a negative number makes the loss NaN, so valid input is not read a second time
    total = number(kernels.sum(y.array, tuple(range(y.array.ndim)), False), "whether a loss is NaN")
    if math.isnan(total) and not within(input.array, 0, 1, "whether input holds probabilities"):
        place, wrong = first_outside(input.array, 0, 1, "a message")
        raise ValueError(
            f"{name}: input[{', '.join(map(str, place))}] = {wrong} must lie in [0, 1]; "
            f"for logits use binary_cross_entropy_with_logits"
        )
    return y if weight is None else weighted(name, y, weight, reduction)


@averaged
@operator(records=(BinaryCrossEntropyWithLogits, WeightedBinaryCrossEntropyWithLogits))
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """-w target log(sigmoid(input)) - (1 - target) log(1 - sigmoid(input)), computed without overflow.

    input: any numbers; target of the same shape, usually in [0, 1]; it may require a gradient, too. weight: factors of
    the losses; pos_weight: w, factors of their first term; both are broadcast. Averaged, summed or unreduced.

    Raises:
        TypeError: an operand is not a floating-point Tensor, or their types differ.
        ValueError: the shapes differ, a weight requires a gradient or does not broadcast, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(binary_cross_entropy_with_logits, locals())) is not None:
        return seen
    name = "binary_cross_entropy_with_logits"
    check_reduction(name, reduction)
    same_shape(name, input, target)
    weight = constant(name, "weight", weight, input)
    pos_weight = constant(name, "pos_weight", pos_weight, input)
    kernel_reduction = "none" if weight is not None else reduction
    if pos_weight is None:
        y = BinaryCrossEntropyWithLogits.apply(kernel_reduction, (), input, target)
    else:
        shape = input.array.shape
        if broadcast_shape(name, shape, pos_weight.array.shape) != shape:
            raise ValueError(f"{name}: pos_weight.shape={pos_weight.array.shape} does not broadcast to {shape}")
        y = WeightedBinaryCrossEntropyWithLogits.apply(kernel_reduction, (), input, target, expand(pos_weight, shape))
    return y if weight is None else weighted(name, y, weight, reduction)


@averaged
@operator(records=BinaryCrossEntropyWithLogits)
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """The mean over classes (the last axis) of the binary cross entropy of logits: one binary decision per class.

    input, target (..., C), the target also in int64; weight: factors of the classes, broadcast; all three may require
    gradients. The result (...) is averaged, summed or unreduced.

    Raises:
        TypeError: an operand is not a floating-point Tensor, or their types differ.
        ValueError: the shapes do not fit, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(multilabel_soft_margin_loss, locals())) is not None:
        return seen
    name = "multilabel_soft_margin_loss"
    check_reduction(name, reduction)
    require_float(name, input)
    if are_integers(target):
        target = cast(target, input.array.dtype)
    same_shape(name, input, target)
    if not input.array.ndim:
        raise ValueError(f"{name}: input has no axes, needs (..., C)")
    classes = input.array.shape[-1]
    if weight is None and reduction != "none" and classes:
        y = BinaryCrossEntropyWithLogits.apply(reduction, (), input, target)
        return y if reduction == "mean" else _over(y, classes)
    y = BinaryCrossEntropyWithLogits.apply("none", (), input, target)
    if weight is not None:
        y = weighted(name, y, weight, "none")
    return reduce(name, _over(y.sum(-1), classes), reduction)


def _over(y: Tensor, count: int) -> Any:
    return y * (1.0 / count if count else math.nan)
