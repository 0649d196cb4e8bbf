"""RAdam."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any, Unpack

from ..formulas.optimizers import radam
from .optimizer import Group, Optimizer
from .options import Forms, options

__all__ = ["RAdam"]


class RAdam(Optimizer):
    """Adam with a rectified variance. For every parameter p with gradient g, in its t-th step (betas = (b1, b2)):

        g = g + weight_decay * p            or, with decoupled_weight_decay, p = p - lr * weight_decay * p
        m = b1 * m + (1 - b1) * g           (exp_avg)
        v = b2 * v + (1 - b2) * g**2        (exp_avg_sq)
        R = 2 / (1 - b2) - 1;  s = R - 2 * t * b2**t / (1 - b2**t)
        if s > 5:  r = sqrt((s - 4) * (s - 2) * R / ((R - 4) * (R - 2) * s))
                   p = p - lr * m / (1 - b1**t) * r * sqrt(1 - b2**t) / (sqrt(v) + eps)
        else:      p = p - lr * m / (1 - b1**t)

    Source: Liu et al. 2020 (arXiv:1908.03265), algorithm 2.

    Raises: as Optimizer.
    """

    formulas = (radam,)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **forms: Unpack[Forms],
    ) -> None:
        super().__init__(params, options("RAdam", locals()))

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        beta2, step = float(group["betas"][1]), counters["step"]
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / (1 - beta2**step)
        rectification = 0.0
        if length > 5:
            rectification = sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))
        return {**super().settings(group, counters, fresh), "rectification": rectification}
