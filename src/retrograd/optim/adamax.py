"""Adamax."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..formulas.optimizers import adamax
from .optimizer import Optimizer
from .options import Forms, options

__all__ = ["Adamax"]


class Adamax(Optimizer):
    """Adam with the infinity norm. For every parameter p with gradient g, in its t-th step (betas = (b1, b2)):

        g = g + weight_decay * p
        m = b1 * m + (1 - b1) * g           (exp_avg)
        u = max(b2 * u, abs(g) + eps)       (exp_inf)
        p = p - lr / (1 - b1**t) * m / u

    Source: Kingma and Ba 2015 (arXiv:1412.6980), section 7.1, with eps where PyTorch has it.

    Raises: as Optimizer.
    """

    formulas = (adamax,)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **forms: Unpack[Forms],
    ) -> None:
        super().__init__(params, options("Adamax", locals()))
