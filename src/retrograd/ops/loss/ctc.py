"""Connectionist temporal classification (CTC): a loss for sequences with unaligned labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import first_true, from_host, integers, number
from ...engine.function import Function, once_differentiable
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import as_counts, as_flag, copy_for_backward, require_float
from ..pointwise.pointwise import Gradients
from ..reduce.reduction import mean
from ..shape.shape import Reshape
from .base import check_reduction, reduce

__all__ = ["ctc_loss"]

Lengths = Tensor | Sequence[int]


class CTC(Function):
    """-log of the total probability of all paths that collapse to the target, for each sample

    The gradient is PyTorch's: exp(log_probs) - (probability of a label at a time, given the target). It is the true
    derivative only together with the ``log_softmax`` that log_probs must come from.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, labels: tuple[Any, ...], zero_infinity: bool) -> Tensor:
        loss, alpha = kernels.ctc_loss(x.array, *labels)
        ctx.save_for_backward(x, loss, alpha)
        ctx.labels, ctx.zero_infinity = labels, zero_infinity
        return wrap(kernels.zero_infinite(loss) if zero_infinity else loss)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Gradients:
        x, loss, alpha = ctx.saved_tensors
        targets, inputs, lengths, blank = ctx.labels
        gx = kernels.ctc_loss_grad(
            g.array, x.array, targets, inputs, lengths, blank, loss, alpha, zero_infinity=ctx.zero_infinity
        )
        return wrap(gx), None, None


@operator(records=CTC)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability of all paths that collapse to the target when repetitions, then blanks, are removed.

    log_probs (T, N, C), or (T, C) for one sample: log-probabilities, as of ``log_softmax``. targets int64: (N, S), each
    row used up to its length, or (sum of target_lengths,), concatenated; no label may be ``blank``.
    input_lengths, target_lengths: N ints in a Tensor or a sequence. A target that no path can produce (too long for its
    input) has loss inf and NaN gradients, or 0 for both with ``zero_infinity``. reduction: "mean" divides each
    loss by its target's length (at least 1) and averages; "sum"; "none" (N,). There is no second derivative.
    Source: Graves, Fernandez, Gomez and Schmidhuber 2006.

    Raises:
        TypeError: log_probs is not a floating-point Tensor, or targets or lengths are not integers.
        ValueError: shapes or lengths do not fit, ``blank`` is not a class, or the reduction is unknown.
        IndexError: a target is not a class.
    """
    if interpreters and (seen := interpreted(ctc_loss, locals())) is not None:
        return seen
    name = "ctc_loss"
    check_reduction(name, reduction)
    require_float(name, log_probs, "log_probs")
    shape = log_probs.array.shape
    if len(shape) not in (2, 3):
        raise ValueError(f"{name}: log_probs.shape={shape} must be (T, N, C), or (T, C) for one sample")
    x = log_probs if len(shape) == 3 else Reshape.apply(log_probs, (shape[0], 1, shape[1]))
    T, N, C = x.array.shape
    if not 0 <= blank < C:
        raise ValueError(f"{name}: blank={blank} is not a class: log_probs.shape={shape} has classes 0 to {C - 1}")
    inputs = _lengths(name, "input_lengths", input_lengths, x.array)
    lengths = _lengths(name, "target_lengths", target_lengths, x.array)
    most = max(integers(inputs, "whether lengths fit"), default=0)
    if most > T:
        raise ValueError(f"{name}: input_lengths contains {most}, but log_probs.shape={shape} has {T} steps")
    rows = _rows(name, targets, lengths, len(shape) == 2)
    wrong = first_true(kernels.row_labels_outside(rows, lengths, C), "whether labels are classes")
    if wrong is not None:
        n, k = wrong
        label = number(rows[n, k], "a message")
        raise IndexError(f"{name}: label {k} of target {n} is {label}; the classes are 0 to {C - 1}")
    losses = CTC.apply(x, (rows, inputs, lengths, int(blank)), as_flag(name, "zero_infinity", zero_infinity))
    if reduction == "mean":
        return mean(losses * wrap(kernels.inverse_lengths(lengths, losses.array.dtype)))
    return reduce(name, losses if len(shape) == 3 else Reshape.apply(losses, ()), reduction)


def _lengths(name: str, label: str, value: Any, x: np.ndarray) -> np.ndarray:
    """Return one length for each sample of x (T, N, C), on x's device."""
    found = as_counts(name, label, value)
    if len(found) != x.shape[1]:
        raise ValueError(f"{name}: {label} has {len(found)} entries, log_probs has {x.shape[1]} samples")
    least = min(integers(found, "whether lengths fit"), default=0)
    if least < 0:
        raise ValueError(f"{name}: {label} contains {least}; lengths must be at least 0")
    return from_host(found, like=x)


def _rows(name: str, targets: Any, lengths: np.ndarray, single: bool) -> np.ndarray:
    """Return the targets as (N, S), where S is the greatest length."""
    if not isinstance(targets, Tensor) or targets.array.dtype.kind not in "iu":
        kind = targets.array.dtype if isinstance(targets, Tensor) else type(targets).__name__
        raise TypeError(f"{name}: targets is {kind}, needs a Tensor of int64 class indices")
    labels, counts = copy_for_backward(targets.array), integers(lengths, "the extent of the targets")
    if labels.dtype != np.int64:
        labels = kernels.cast(labels, np.dtype(np.int64))
    longest = max(counts, default=0)
    if labels.ndim == 2 and not (single and len(labels) != 1):
        if len(labels) != len(lengths) or labels.shape[1] < longest:
            raise ValueError(
                f"{name}: targets.shape={labels.shape}, needs ({len(lengths)}, S) with S at least {longest}, "
                f"the greatest of target_lengths"
            )
        return labels[:, :longest]
    total = sum(counts)
    if labels.ndim != 1 or len(labels) != total:
        raise ValueError(f"{name}: targets.shape={labels.shape}, needs (N, S) or ({total},), the sum of target_lengths")
    return kernels.pad_rows(labels, lengths, longest)
