"""Losses: cross entropy, negative log-likelihood and mean squared error."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.grad_mode import is_grad_enabled
from ..engine.tensor import Tensor, wrap
from .broadcasting import Sum
from .dtype import require_float, require_same
from .gather import Gather
from .kernel_set import kernels
from .reduction import mean, sum
from .shape import Permute, Reshape
from .softmax import log_softmax
from .transcendental import exp

__all__ = ["cross_entropy", "mse_loss", "nll_loss"]

IGNORE_INDEX = -100  # PyTorch's default: no class


class CrossEntropy(Function):
    """-log(softmax(x))[n, labels[n]] per row; x (N, C), labels (N,) int64 in range -> (N,)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, labels: Tensor) -> Tensor:
        loss, log_probabilities = kernels.cross_entropy(x.data, labels.data)
        ctx.save_for_backward(x, labels, log_probabilities)
        return wrap(loss)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, labels, known = ctx.saved_tensors
        # a second derivative flows through the logarithms, so they are computed again as a function of x
        log_probabilities = log_softmax(x, 1) if is_grad_enabled() else wrap(known)
        return CrossEntropyGrad.apply(g, log_probabilities, labels), None


class CrossEntropyGrad(Function):
    """g[n] * (exp(log_probabilities[n, c]) - [c == labels[n]])"""

    @staticmethod
    def forward(ctx: Any, g: Tensor, log_probabilities: Tensor, labels: Tensor) -> Tensor:
        ctx.save_for_backward(g, log_probabilities, labels)
        return wrap(kernels.cross_entropy_grad(g.data, log_probabilities.data, labels.data))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (want_g, want_p, _), (g, log_probabilities, labels) = ctx.needs_input_grad, ctx.saved_tensors
        weighted = v * exp(log_probabilities)
        gg = Sum.apply(weighted, (1,), False) - _pick(v, labels) if want_g else None
        gp = weighted * Reshape.apply(g, g.data.shape + (1,)) if want_p else None
        return gg, gp, None


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = IGNORE_INDEX,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of softmax(x) over axis 1 against class indices or class probabilities; x is the input.

    x (N, C, *D) or (C,); target int64 (N, *D) or (), or like x with probabilities.
    Per element: -weight[t] * log(softmax(x))[t]; with label smoothing e, each target is a mixture of (1-e) of the class
    and e of the uniform distribution. "mean" divides by the sum of the weights of the targets, or by the number of
    elements where targets are probabilities; targets equal to ``ignore_index`` count nowhere.

    Raises:
        TypeError: x or weight are not of one floating-point type, or the target is of a wrong one.
        ValueError: the shapes do not fit, the reduction is unknown, or label_smoothing is not in [0, 1].
        IndexError: a label is no class, named with its place.
    """
    name = "cross_entropy"
    require_float(name, input)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"{name}: label_smoothing={label_smoothing} must lie in [0, 1]")
    if isinstance(target, Tensor) and target.data.dtype.kind == "f":
        return _against_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    return _against_labels(name, CrossEntropy.apply, input, target, weight, ignore_index, reduction, label_smoothing)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = IGNORE_INDEX,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood -weight[t] * x[t] for log-probabilities x; otherwise as ``cross_entropy``."""
    require_float("nll_loss", input)
    return _against_labels("nll_loss", lambda rows, t: -_pick(rows, t), input, target, weight, ignore_index, reduction)


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """(input - target)**2, averaged ("mean"), summed ("sum") or as it is ("none").

    Raises:
        TypeError: an operand is no Tensor.
        ValueError: the shapes do not broadcast or the reduction is unknown.
    """
    for label, value in (("input", input), ("target", target)):
        require_float("mse_loss", value, label)
    if input.data.shape != target.data.shape:
        warnings.warn(
            f"mse_loss: input.shape={input.data.shape} and target.shape={target.data.shape} differ and are broadcast; "
            f"reshape one if this is not meant",
            stacklevel=2,
        )
    return reduce("mse_loss", (input - target) ** 2, reduction)


def reduce(name: str, losses: Tensor, reduction: str) -> Tensor:
    """The mean or sum of the losses, or all of them.

    Raises:
        ValueError: the reduction is none of "mean", "sum", "none".
    """
    if reduction == "mean":
        return mean(losses)
    if reduction == "sum":
        return sum(losses)
    if reduction == "none":
        return losses
    raise ValueError(f"{name}: reduction={reduction!r} must be 'mean', 'sum' or 'none'")


def _against_labels(
    name: str,
    per_row: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float = 0.0,
) -> Tensor:
    _check_labels(name, x, target)
    rows, labels = _as_rows(x), target.data.reshape(-1)
    classes = rows.data.shape[1]
    # a negative label is a huge one when its bits are read without a sign: one comparison for both ends
    inside = np.maximum.reduce(labels.view(np.uint64), initial=0) < classes
    if not inside:
        _refuse_labels(name, x, target.data, classes, ignore_index)
    plain = weight is None and not label_smoothing and (not 0 <= ignore_index < classes) and inside
    if plain:
        losses = per_row(rows, target if target.data.ndim == 1 else wrap(labels))
        if reduction != "none" or target.data.ndim == 1:
            return reduce(name, losses, reduction)
        return Reshape.apply(losses, target.data.shape)

    counted = labels != ignore_index
    # an ignored row gets its most likely class, whose loss is finite, and the weight 0
    chosen = labels if counted.all() else np.where(counted, labels, rows.data.argmax(1))
    per_class = _class_weights(name, weight, rows)
    weights = wrap(np.multiply(counted, 1.0 if per_class is None else per_class.data[chosen], dtype=rows.data.dtype))
    losses = per_row(rows, wrap(chosen)) * weights
    if label_smoothing:
        logs = log_softmax(rows, 1)
        spread = sum(logs if per_class is None else logs * per_class, 1)
        spread = spread * wrap(counted.astype(rows.data.dtype))
        losses = losses * (1.0 - label_smoothing) - spread * (label_smoothing / classes)
    if reduction == "mean":
        return sum(losses) / sum(weights)
    return reduce(name, Reshape.apply(losses, target.data.shape), reduction)


def _against_probabilities(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    name, shape = "cross_entropy", x.data.shape
    require_same(name, "x", x, "target", target)
    if target.data.shape != shape or not shape:
        raise ValueError(
            f"{name}: target of probabilities has shape {target.data.shape}, x has {shape}; they must be equal "
            f"(class indices are int64)"
        )
    if ignore_index != IGNORE_INDEX:
        raise ValueError(f"{name}: ignore_index={ignore_index} is for class indices, target holds probabilities")
    rows, goals = _as_rows(x), _as_rows(target)
    if label_smoothing:
        goals = goals * (1.0 - label_smoothing) + label_smoothing / rows.data.shape[1]
    per_class = _class_weights(name, weight, rows)
    if per_class is not None:
        goals = goals * per_class
    losses = -sum(goals * log_softmax(rows, 1), 1)
    return reduce(name, Reshape.apply(losses, shape[:1] + shape[2:] if len(shape) > 1 else ()), reduction)


def _as_rows(x: Tensor) -> Tensor:
    """x (N, C, *D) as (N * D, C), x (C,) as (1, C)."""
    shape = x.data.shape
    if len(shape) == 2:
        return x
    if len(shape) == 1:
        return Reshape.apply(x, (1,) + shape)
    last = Permute.apply(x, (0,) + tuple(range(2, len(shape))) + (1,))
    return Reshape.apply(last, (x.data.size // shape[1] if shape[1] else 0, shape[1]))


def _pick(x: Tensor, labels: Tensor) -> Tensor:
    """x[n, labels[n]]"""
    places = labels.data.reshape(-1, 1)
    return Reshape.apply(Gather.apply(x, places, 1), (places.shape[0],))


def _class_weights(name: str, weight: Tensor | None, rows: Tensor) -> Tensor | None:
    if weight is None:
        return None
    require_same(name, "x", rows, "weight", weight)
    if weight.data.shape != rows.data.shape[1:]:
        raise ValueError(f"{name}: weight.shape={weight.data.shape}, needs ({rows.data.shape[1]},), one per class")
    if weight.requires_grad:
        raise ValueError(f"{name}: weight requires a gradient, which this loss does not give; use weight.detach()")
    return weight


def _check_labels(name: str, x: Tensor, target: Any) -> None:
    if not isinstance(target, Tensor):
        raise TypeError(f"{name}: target is {type(target).__name__}, needs a Tensor of int64 class indices")
    if target.data.dtype != np.int64:
        raise TypeError(f"{name}: target is {target.data.dtype}, x is {x.data.dtype}; class indices must be int64")
    shape = x.data.shape
    if not shape or target.data.shape != (shape[:1] + shape[2:] if len(shape) > 1 else ()):
        raise ValueError(
            f"{name}: x.shape={shape}, target.shape={target.data.shape}; "
            f"x (N, C, *D) needs target (N, *D), x (C,) needs ()"
        )


def _refuse_labels(name: str, x: Tensor, labels: np.ndarray, classes: int, ignore_index: int) -> None:
    wrong = np.argwhere(((labels < 0) | (labels >= classes)) & (labels != ignore_index))
    if len(wrong):
        place = tuple(map(int, wrong[0]))
        where = f"target[{', '.join(map(str, place))}]" if place else "target"
        raise IndexError(
            f"{name}: {where} = {labels[place]} is no class: x.shape={x.data.shape} has classes 0 to {classes - 1} "
            f"({len(wrong)} such labels; one that shall not count must be ignore_index={ignore_index})"
        )
