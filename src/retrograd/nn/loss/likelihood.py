"""Likelihood and divergence losses as layers."""

from __future__ import annotations

from ...engine.tensor import Tensor
from ...ops.loss.likelihood import gaussian_nll_loss, kl_div, poisson_nll_loss
from .base import Loss

__all__ = ["GaussianNLLLoss", "KLDivLoss", "PoissonNLLLoss"]


class KLDivLoss(Loss):
    """target (log(target) - input); see ``kl_div``.

    log_target: the target holds logarithms. reduction: "batchmean" (the definition), "mean" (over all elements),
    "sum" or "none".

    Raises:
        ValueError: the reduction is unknown.
    """

    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction, "batchmean")
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return kl_div(input, target, log_target=self.log_target, reduction=self.reduction)


class PoissonNLLLoss(Loss):
    """exp(input) - target input; see ``poisson_nll_loss``.

    log_input: the input is the logarithm of the rate; else input - target log(input + eps). full: add Stirling's
    approximation. reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the reduction is unknown.
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, *, eps: float = 1e-8, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return poisson_nll_loss(input, target, self.log_input, self.full, eps=self.eps, reduction=self.reduction)


class GaussianNLLLoss(Loss):
    """(log(v) + (input - target)^2 / v) / 2 with v = max(var, eps); see ``gaussian_nll_loss``.

    full: add log(2 pi) / 2. reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the reduction is unknown.
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return gaussian_nll_loss(input, target, var, self.full, self.eps, reduction=self.reduction)
