"""Classification losses: cross-entropy, negative log-likelihood, binary cross-entropy."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...arrays import count_true, first_outside, first_true, is_recorded, number, numbers, within, zeros
from ...engine.arguments import kind_name
from ...engine.backward_rules import is_overridden
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..argument_checks import are_integers, as_real, copy_for_backward, require_float, require_same
from ..dtypes.dtype import cast, int64
from ..normalization.softmax import log_softmax, softmax
from ..pointwise.piecewise import where
from ..reduce.reduction import sum
from ..shape.broadcasting import broadcast_shape, expand
from ..shape.shape import Reshape
from .base import (
    ElementLoss,
    accepts_size_average,
    check_reduction,
    constant,
    reduce,
    refuse_gradient,
    same_shape,
    weighted,
)

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "multilabel_soft_margin_loss",
    "nll_loss",
]


# ---- Multi-class losses: cross-entropy and negative log-likelihood ---------------------------------------------------

IGNORE_INDEX = -100  # PyTorch's default


class Labels(NamedTuple):
    """Class labels at each position, and the weights a loss derives from them."""

    name: str  # name of the loss
    shape: tuple[int, ...]  # shape of its input as passed by the caller
    classes: np.ndarray  # (N, *D) int64
    weight: np.ndarray | None  # one per class
    ignored: int

    def factor(self, sums: np.ndarray, reduction: str) -> float | None:
        """Return the factor of the sum of the losses; None if they are not summed.

        sums: from the kernel; the third is nonzero if a label is invalid
        """
        if is_recorded() and self._are_all_classes():
            weights, wrong = float(self.classes.size), 0.0
        else:
            _, weights, wrong = numbers(sums, "the sum of weights, and whether labels are classes")
        if wrong:
            labels = self.classes if len(self.shape) > 1 else self.classes.reshape(())
            refuse_labels(self.name, self.shape, labels, self.shape[min(1, len(self.shape) - 1)], self.ignored)
        if reduction == "mean":
            return 1.0 / weights if weights else math.nan
        return None if reduction == "none" else 1.0

    def _are_all_classes(self) -> bool:
        """Whether all positions have a label and weight 1, so that the sum of weights is known without the kernel."""
        count = self.shape[min(1, len(self.shape) - 1)]
        if self.weight is not None or 0 <= self.ignored < count or self.classes.size >= 1 << 24:
            return False
        return within(self.classes, 0, count - 1, "whether labels are classes")

    def shares(self, factor: float | None, classes: int, dtype: Any) -> np.ndarray:
        """Return the weight of each position, 0 if ignored, times the factor."""
        factor = 1.0 if factor is None else factor
        return kernels.label_weights(self.classes, self.weight, self.ignored, classes, factor, dtype)


class CrossEntropy(Function):
    """w[label] (-(1 - e) log p[label] - e mean(log p)) at each position, p = softmax(x) over axis 1, e the smoothing

    x (N, C, *D) -> (N, *D), or their sum or mean, which divides by the sum of the weights.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, labels: Labels, smoothing: float, reduction: str) -> Tensor:
        _, _, classes, weight, ignored = labels
        loss, tops, logs, sums = kernels.cross_entropy(x.array, classes, smoothing, ignored, weight)
        ctx.save_for_backward(x, classes, weight, tops, logs)
        ctx.labels, ctx.smoothing = labels, smoothing
        ctx.factor = labels.factor(sums, reduction)
        return wrap(_reduced(loss, sums, ctx.factor))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, _, _, tops, logs = ctx.saved_tensors
        gx = CrossEntropyGrad.apply(g, x, ctx.labels, tops, logs, ctx.smoothing, ctx.factor)
        return gx, None, None, None


class CrossEntropyGrad(Function):
    """factor g w[label] (p - (1 - e) [class == label] - e / C), and 0 at ignored positions

    tops, logs: the maximum of x and log sum exp(x - maximum), arrays from which p is computed; they have no gradient.
    """

    @staticmethod
    def forward(
        g: Tensor,
        x: Tensor,
        labels: Labels,
        tops: np.ndarray,
        logs: np.ndarray,
        smoothing: float,
        factor: float | None,
    ) -> Tensor:
        _, _, classes, weight, ignored = labels
        factor = 1.0 if factor is None else factor
        return wrap(
            kernels.cross_entropy_grad(g.array, x.array, classes, smoothing, tops, logs, ignored, weight, factor)
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        g, x, ctx.labels, _, _, ctx.smoothing, ctx.factor = inputs
        ctx.save_for_backward(g, x)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (want_g, want_x, *_), (g, x), labels = ctx.needs_input_grad, ctx.saved_tensors, ctx.labels
        classes, dtype = x.array.shape[1], x.array.dtype
        goal = kernels.label_goals(labels.classes, classes, ctx.smoothing, dtype)
        shares = labels.shares(ctx.factor, classes, dtype)
        v = v * wrap(shares[:, None])
        p = softmax(x, 1)
        gg = sum(v * (p - wrap(goal)), 1 if ctx.factor is None else None) if want_g else None
        # ignored positions are 0, even where g is NaN
        counts = exact("ne")(shares, zeros((), dtype, like=shares))
        each_g = _with_classes(where(wrap(counts), g, 0.0)) if ctx.factor is None else g
        gx = each_g * p * (v - sum(v * p, 1, True)) if want_x else None
        return gg, gx, None, None, None, None, None


class NegativeLogLikelihood(Function):
    """-w[label] x[n, label, d], label = labels[n, d]; x (N, C, *D) -> (N, *D), or their sum or mean

    The mean divides by the sum of the weights; a sum is multiplied by ``factor``.
    """

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, labels: Labels, reduction: str, factor: float = 1.0) -> Tensor:
        _, _, classes, weight, ignored = labels
        loss, sums = kernels.nll_loss(x.array, classes, ignored, weight)
        ctx.save_for_backward(x.array, classes, weight)
        ctx.labels, ctx.factor = labels, labels.factor(sums, reduction)
        if ctx.factor is not None:
            ctx.factor *= factor
        return wrap(_reduced(loss, sums, ctx.factor))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return NegativeLogLikelihoodGrad.apply(g, ctx.saved_tensors[0], ctx.labels, ctx.factor), None, None, None


class NegativeLogLikelihoodGrad(Function):
    """-factor g w[label] at the labels, 0 elsewhere, in x's shape: the transpose of NegativeLogLikelihood"""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: np.ndarray, labels: Labels, factor: float | None) -> Tensor:
        _, _, classes, weight, ignored = labels
        ctx.save_for_backward(classes, weight)
        ctx.labels, ctx.factor = labels, factor
        return wrap(kernels.nll_loss_grad(g.array, x, classes, ignored, weight, 1.0 if factor is None else factor))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        classes, weight = ctx.saved_tensors
        labels = ctx.labels._replace(classes=classes, weight=weight)
        rest = ("none",) if ctx.factor is None else ("sum", ctx.factor)
        return NegativeLogLikelihood.apply(v, labels, *rest), None, None, None


@accepts_size_average
@operator(records=CrossEntropy)
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = IGNORE_INDEX,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross-entropy of softmax(input) over axis 1 against class indices or class probabilities.

    input (N, C, *D) or (C,); target int64 (N, *D) or (), or probabilities in input's shape.
    Per element: -weight[t] * log(softmax(input))[t]; label smoothing e mixes each target, times 1 - e, with e times the
    uniform distribution. "mean" divides by the sum of the weights of the targets, or by the number of elements if
    targets are probabilities. Targets equal to ``ignore_index`` are ignored.

    Raises:
        TypeError: input and weight are not of one floating-point type, or target has a wrong type.
        ValueError: the shapes do not fit, the reduction is unknown, or label_smoothing is not in [0, 1].
        IndexError: a label is not a class; the message names its position.
    """
    if interpreters and (seen := interpreted(cross_entropy, locals())) is not None:
        return seen
    name = "cross_entropy"
    try:
        require_float(name, input)
    except TypeError as error:
        raise TypeError(f"{error}{_not_scores(input, target)}") from None
    if not 0.0 <= as_real(name, "label_smoothing", label_smoothing) <= 1.0:
        raise ValueError(f"{name}: label_smoothing={label_smoothing} must lie in [0, 1]")
    check_reduction(name, reduction)
    if isinstance(target, Tensor) and target.array.dtype.kind == "f":
        return _against_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    if interpreters and is_overridden(log_softmax, nll_loss):
        return _composed(input, target, weight, ignore_index, reduction, label_smoothing)
    return _against_labels(name, CrossEntropy, input, target, weight, ignore_index, reduction, label_smoothing)


@accepts_size_average
@operator(records=(CrossEntropy, NegativeLogLikelihood))
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = IGNORE_INDEX,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood -weight[t] * input[t] of log-probabilities.

    input (N, C, *D) or (C,), target int64 (N, *D) or (); weight, ``ignore_index`` and "mean" as in ``cross_entropy``.

    Raises:
        TypeError: input and weight are not of one floating-point type, or target is not int64.
        ValueError: the shapes do not fit, the weight requires a gradient, or the reduction is unknown.
        IndexError: a label is not a class; the message names its position.
    """
    if interpreters and (seen := interpreted(nll_loss, locals())) is not None:
        return seen
    require_float("nll_loss", input)
    return _against_labels("nll_loss", NegativeLogLikelihood, input, target, weight, ignore_index, reduction, None)


def _composed(
    x: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, smoothing: float
) -> Tensor:
    """``cross_entropy`` against labels, composed of operators; ``CrossEntropy`` must give the same values."""
    axis = 1 if x.array.ndim > 1 else 0
    log_p = log_softmax(x, axis)
    if not smoothing:
        return nll_loss(log_p, target, weight, ignore_index=ignore_index, reduction=reduction)
    losses = nll_loss(log_p, target, weight, ignore_index=ignore_index, reduction="none")
    count, dtype = x.array.shape[axis], x.array.dtype
    counts = kernels.label_weights(target.array, None, ignore_index, count, 1.0, dtype)
    spread = sum(log_p if weight is None else log_p * _along_classes(weight, x), axis) * wrap(counts)
    losses = losses * (1.0 - smoothing) - spread * (smoothing / count)
    if reduction != "mean":
        return reduce("cross_entropy", losses, reduction)
    if weight is not None:
        counts = kernels.label_weights(target.array, weight.array, ignore_index, count, 1.0, dtype)
    return sum(losses) / wrap(_total(counts))


def _against_labels(
    name: str,
    loss: type[Function],
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    smoothing: float | None,
) -> Tensor:
    check_reduction(name, reduction)
    target = check_labels(name, input, target)
    per_class = _class_weights(name, weight, input, differentiable=False)
    x, classes, shape = input, copy_for_backward(target.array, input.requires_grad), input.array.shape
    if len(shape) == 1:
        x, classes = Reshape.apply(x, (1, *shape)), classes.reshape(1)
    array = None if per_class is None else per_class.array
    labels = Labels(name, shape, classes, array, ignore_index)
    options = () if smoothing is None else (float(smoothing),)
    if smoothing and array is not None:  # the uniform part then weights each class
        losses, weights = _smoothed(x, labels, smoothing)
        if reduction == "mean":
            return sum(losses) / wrap(_total(weights))
        losses = losses if reduction == "none" else sum(losses)
    else:
        losses = loss.apply(x, labels, *options, reduction)
    return Reshape.apply(losses, ()) if reduction == "none" and len(shape) == 1 else losses


def _smoothed(x: Tensor, labels: Labels, smoothing: float) -> tuple[Tensor, np.ndarray]:
    """Return (1 - e) w[label] (-log p[label]) - e / C sum over classes of w log p at each position, and w[label]."""
    count, dtype = x.array.shape[1], x.array.dtype
    assert labels.weight is not None
    losses = CrossEntropy.apply(x, labels, 0.0, "none")
    spread = sum(log_softmax(x, 1) * _along_classes(wrap(labels.weight), x), 1)
    counts = kernels.labels_count(labels.classes, count, labels.ignored)
    spread = where(wrap(counts), spread, 0.0)  # gradient 0 at ignored positions, even if all are ignored
    return losses * (1.0 - smoothing) - spread * (smoothing / count), labels.shares(None, count, dtype)


def _against_probabilities(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    name, shape = "cross_entropy", x.array.shape
    require_same(name, "input", x, "target", target)
    if target.array.shape != shape or not shape:
        classes = target.array.shape == shape[:1] + shape[2:]
        hint = f"; target is {target.array.dtype}: for class indices pass target.long()" if classes else ""
        raise ValueError(
            f"{name}: target.shape={target.array.shape}, input.shape={shape}; probabilities need equal shapes, "
            f"class indices need int64{hint}"
        )
    if ignore_index != IGNORE_INDEX:
        raise ValueError(f"{name}: ignore_index={ignore_index} is for class indices, target holds probabilities")
    axis = 1 if len(shape) > 1 else 0
    goals = target
    if label_smoothing and shape[axis]:
        goals = goals * (1.0 - label_smoothing) + label_smoothing / shape[axis]
    per_class = _class_weights(name, weight, x, differentiable=True)
    if per_class is not None:
        goals = goals * _along_classes(per_class, x)
    losses = -sum(goals * log_softmax(x, axis), axis)
    return reduce(name, losses, reduction)


def _reduced(loss: np.ndarray, sums: np.ndarray, factor: float | None) -> np.ndarray:
    return loss if factor is None else kernels.scale(sums[0, ...], factor)


def _total(weights: np.ndarray) -> np.ndarray:
    total: np.ndarray = exact("sum")(weights, tuple(range(weights.ndim)), False)
    return total


def _with_classes(g: Tensor) -> Tensor:
    """Reshape g (N, *D) to (N, 1, *D)."""
    return Reshape.apply(g, (g.array.shape[0], 1, *g.array.shape[1:]))


def _along_classes(per_class: Tensor, x: Tensor) -> Tensor:
    """Reshape per_class (C,) to broadcast to x (N, C, *D) or (C,)."""
    return Reshape.apply(per_class, (-1,) + (1,) * (x.array.ndim - 2)) if x.array.ndim > 2 else per_class


def _class_weights(name: str, weight: Tensor | None, x: Tensor, differentiable: bool) -> Tensor | None:
    if weight is None:
        return None
    require_same(name, "input", x, "weight", weight)
    classes = x.array.shape[min(1, x.array.ndim - 1)]
    if weight.array.shape != (classes,):
        raise ValueError(f"{name}: weight.shape={weight.array.shape}, needs ({classes},), one per class")
    return weight if differentiable else refuse_gradient(name, "weight", weight)


def check_labels(name: str, x: Tensor, target: Any) -> Tensor:
    """Check a target of integers in x's shape without the class axis, and return it as int64.

    Raises:
        TypeError: it is not a Tensor of integers.
        ValueError: its shape does not fit.
    """
    if not isinstance(target, Tensor):
        raise TypeError(
            f"{name}: target is {kind_name(target)}, needs a Tensor of int64 class indices; make one with "
            "retrograd.tensor(target)"
        )
    if target.array.dtype.kind not in "iu":
        raise TypeError(f"{name}: target is {target.array.dtype}; class indices must be int64: pass target.long()")
    shape = x.array.shape
    if not shape or target.array.shape != (shape[:1] + shape[2:] if len(shape) > 1 else ()):
        raise ValueError(
            f"{name}: input.shape={shape}, target.shape={target.array.shape}; "
            f"input (N, C, *D) needs target (N, *D), input (C,) needs (){_reshaped(name, shape, target.array.shape)}"
        )
    return cast(target, int64)


def _reshaped(name: str, shape: tuple[int, ...], target: tuple[int, ...]) -> str:
    """Return how to make a target of this shape fit, for a message; "" if that is unknown."""
    if target == shape and len(shape) > 1:
        probabilities = ", or target.float() for probabilities" if name == "cross_entropy" else ""
        return f"; a one-hot target becomes class indices by target.argmax(1){probabilities}"
    return "; pass target.squeeze(1)" if target == (*shape[:1], 1, *shape[2:]) else ""


def _not_scores(input: Any, target: Any) -> str:
    """Return a hint if the first argument holds integers, such as classes."""
    if not isinstance(input, Tensor) or input.array.dtype.kind not in "iu":
        return ""
    if isinstance(target, Tensor) and target.array.dtype.kind == "f":
        return "; the output of the model comes first: cross_entropy(output, target)"
    return "; it is the scores of the classes that are needed, not the classes that argmax chooses"


def refuse_labels(name: str, shape: tuple[int, ...], labels: np.ndarray, classes: int, ignored: int | None) -> None:
    """Reject labels that are neither a class nor ``ignored``; ``shape`` is that of the loss's input.

    Raises:
        IndexError: a label is not a class; the message names the first one and its position.
    """
    if within(labels, 0, classes - 1, "whether labels are classes"):
        return
    wrong = kernels.labels_outside(labels, classes, ignored)
    place = first_true(wrong, "whether labels are classes or ignored")
    if place is not None:
        where = f"target[{', '.join(map(str, place))}]" if place else "target"
        label, count = number(labels[place], "a message"), count_true(wrong, "a message")
        from_one = "; if labels start at 1, pass target - 1" if within(labels, 1, classes, "a message") else ""
        hint = "" if ignored is None else f"; a label to ignore must be {_IGNORED[name]}{ignored}"
        raise IndexError(
            f"{name}: {where} = {label} is not a class: input.shape={shape} has classes 0 to {classes - 1} "
            f"({count} such labels{hint}){from_one}"
        )


_IGNORED = {"cross_entropy": "ignore_index=", "nll_loss": "ignore_index=", "multilabel_margin_loss": ""}


# ---- Binary cross-entropy of probabilities and of logits -------------------------------------------------------------


class BinaryCrossEntropy(ElementLoss, term="binary_cross_entropy"):
    """-t log(x) - (1 - t) log(1 - x), with logarithms of at least -100, as in PyTorch"""


class BinaryCrossEntropyWithLogits(ElementLoss, term="binary_cross_entropy_with_logits"):
    """(1 - t) x + log(1 + exp(-x))"""


class WeightedBinaryCrossEntropyWithLogits(ElementLoss, term="weighted_binary_cross_entropy_with_logits"):
    """(1 - t) x + (1 + (w - 1) t) log(1 + exp(-x)), with the weight w of positives"""


@accepts_size_average
@operator(records=BinaryCrossEntropy)
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """-target log(input) - (1 - target) log(1 - input), averaged ("mean"), summed ("sum") or unreduced ("none").

    input: probabilities in [0, 1]; target of the same shape, usually in [0, 1]; it may also require a gradient.
    weight: factors of the losses, broadcast. Logarithms are clamped to at least -100. For logits,
    ``binary_cross_entropy_with_logits`` is more accurate.

    Raises:
        TypeError: an operand is not a floating-point Tensor, or their types differ.
        ValueError: the shapes differ, input is outside [0, 1], the weight requires a gradient or does not
            broadcast, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(binary_cross_entropy, locals())) is not None:
        return seen
    name = "binary_cross_entropy"
    check_reduction(name, reduction)
    same_shape(name, input, target)
    weight = constant(name, "weight", weight, input)
    y = BinaryCrossEntropy.apply("none" if weight is not None else reduction, (), input, target)
    # the logarithm of a negative number makes the loss NaN, so valid input is not read twice
    total = number(kernels.sum(y.array, tuple(range(y.array.ndim)), False), "whether a loss is NaN")
    if math.isnan(total) and not within(input.array, 0, 1, "whether input holds probabilities"):
        place, wrong = first_outside(input.array, 0, 1, "a message")
        raise ValueError(
            f"{name}: input[{', '.join(map(str, place))}] = {wrong} must lie in [0, 1]; "
            f"for logits use binary_cross_entropy_with_logits"
        )
    return y if weight is None else weighted(name, y, weight, reduction)


@accepts_size_average
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

    input: any numbers; target of the same shape, usually in [0, 1]; it may also require a gradient. weight: factors of
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


@accepts_size_average
@operator(records=BinaryCrossEntropyWithLogits)
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """The mean over classes (the last axis) of the binary cross-entropy of logits: one binary decision per class.

    input, target (..., C), the target also as int64; weight: factors of the classes, broadcast. All three may require
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
