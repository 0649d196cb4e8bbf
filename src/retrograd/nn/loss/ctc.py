"""Connectionist temporal classification as a layer."""

from __future__ import annotations

from collections.abc import Sequence

from ...engine.tensor import Tensor
from ...ops.loss.ctc import ctc_loss
from .base import Loss

__all__ = ["CTCLoss"]


class CTCLoss(Loss):
    """-log of the probability that a path gives the target once repetitions and then blanks are removed; see
    ``ctc_loss``.

    blank: the class for no label. reduction: "mean" (each loss over its target's length), "sum" or "none".
    zero_infinity: a target that no path can give has loss 0 and no gradient, instead of inf and NaN.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    _older = ()

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int],
        target_lengths: Tensor | Sequence[int],
    ) -> Tensor:
        return ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
