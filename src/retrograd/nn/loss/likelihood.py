"""Likelihood and divergence losses as layers."""

from __future__ import annotations

from dataclasses import KW_ONLY

from ...engine.tensor import Tensor
from ...ops.loss.likelihood import gaussian_nll_loss, kl_div, poisson_nll_loss
from ..layer import layer
from .base import Loss

__all__ = ["GaussianNLLLoss", "KLDivLoss", "PoissonNLLLoss"]


@layer
class KLDivLoss(Loss):
    """target (log(target) - input); see ``kl_div``.

    log_target: the target holds logarithms. reduction: "batchmean" (the definition), "mean" (over all elements),
    "sum" or "none".
    """

    _: KW_ONLY
    log_target: bool = False

    _more_reductions = ("batchmean",)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return kl_div(input, target, log_target=self.log_target, reduction=self.reduction)


@layer
class PoissonNLLLoss(Loss):
    """exp(input) - target input; see ``poisson_nll_loss``.

    log_input: the input is the logarithm of the rate; else input - target log(input + eps). full: add Stirling's
    approximation.
    """

    log_input: bool = True
    full: bool = False
    _: KW_ONLY
    eps: float = 1e-8

    _older = ("size_average", "eps", "reduce", "reduction")

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return poisson_nll_loss(input, target, self.log_input, self.full, eps=self.eps, reduction=self.reduction)


@layer
class GaussianNLLLoss(Loss):
    """(log(v) + (input - target)^2 / v) / 2 with v = max(var, eps); see ``gaussian_nll_loss``.

    full: add log(2 pi) / 2.
    """

    _: KW_ONLY
    full: bool = False
    eps: float = 1e-6

    _older = ()

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return gaussian_nll_loss(input, target, var, self.full, self.eps, reduction=self.reduction)
