"""NAdam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..formulas.optimizers import nadam, nadam_momentum
from .optimizer import Group, Optimizer, State
from .options import Forms, options

__all__ = ["NAdam"]


class NAdam(Optimizer):
    """Adam with Nesterov momentum. For every parameter p with gradient g, in its t-th step (betas = (b1, b2)):

        mu(t) = b1 * (1 - 0.5 * 0.96**(t * momentum_decay));  P(t) = mu(1) * ... * mu(t)    (mu_product)
        g = g + weight_decay * p            or, with decoupled_weight_decay, p = p - lr * weight_decay * p
        m = b1 * m + (1 - b1) * g           (exp_avg)
        v = b2 * v + (1 - b2) * g**2        (exp_avg_sq)
        n = mu(t+1) * m / (1 - P(t+1)) + (1 - mu(t)) * g / (1 - P(t))
        p = p - lr * n / (sqrt(v / (1 - b2**t)) + eps)

    Source: Dozat 2016, "Incorporating Nesterov momentum into Adam".

    Raises: as Optimizer.
    """

    formulas = (nadam,)
    counters = {"step": 0, "mu_product": 1.0}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **forms: Unpack[Forms],
    ) -> None:
        super().__init__(params, options("NAdam", locals()))

    def count(self, group: Group, state: State) -> dict[str, Any]:
        step = state["step"] + 1
        mu = nadam_momentum(step, float(group["betas"][0]), float(group["momentum_decay"]))
        return {"step": step, "mu_product": state["mu_product"] * mu}
