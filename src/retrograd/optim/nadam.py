"""NAdam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .optimizer import Group, Optimizer, State, require_betas, require_flags, require_number

__all__ = ["NAdam"]


class NAdam(Optimizer):
    """Adam with Nesterov momentum. For every parameter p with gradient g, in its t-th step (betas = (b1, b2)):

        mu(t) = b1 * (1 - 0.5 * 0.96**(t * momentum_decay));  P(t) = mu(1) * ... * mu(t)    (mu_product)
        g = g + weight_decay * p            or, with decoupled_weight_decay, p = p - lr * weight_decay * p
        m = b1 * m + (1 - b1) * g           (exp_avg)
        v = b2 * v + (1 - b2) * g**2        (exp_avg_sq)
        n = mu(t+1) * m / (1 - P(t+1)) + (1 - mu(t)) * g / (1 - P(t))
        p = p - lr * n / (sqrt(v / (1 - b2**t)) + eps)

    maximize: maximise, as if the gradient had the opposite sign.

    Source: Dozat 2016, "Incorporating Nesterov momentum into Adam".

    Raises:
        ValueError: lr, eps, weight_decay or momentum_decay is negative or not a number, a beta is outside [0, 1), or a
            flag is not a bool.
        TypeError, ValueError: for params, see Optimizer.
    """

    kernel = "nadam_step"
    buffer_names = ("exp_avg", "exp_avg_sq")
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
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, group: Group) -> None:
        for option in ("lr", "eps", "weight_decay", "momentum_decay"):
            require_number(f"NAdam: {option}", group[option])
        require_betas("NAdam", group["betas"])
        require_flags("NAdam", group, "decoupled_weight_decay", "maximize")

    @staticmethod
    def _mu(group: Group, step: int) -> float:
        return float(group["betas"][0]) * (1 - 0.5 * 0.96 ** (step * float(group["momentum_decay"])))

    def count(self, group: Group, state: State) -> dict[str, Any]:
        step = state["step"] + 1
        return {"step": step, "mu_product": state["mu_product"] * self._mu(group, step)}

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        beta1, beta2 = group["betas"]
        return {
            "step": counters["step"],
            "lr": float(group["lr"]),
            "beta1": float(beta1),
            "beta2": float(beta2),
            "mu": self._mu(group, counters["step"]),
            "mu_next": self._mu(group, counters["step"] + 1),
            "mu_product": counters["mu_product"],
            "eps": float(group["eps"]),
            "weight_decay": float(group["weight_decay"]),
            "decoupled": bool(group["decoupled_weight_decay"]),
            "maximize": bool(group["maximize"]),
        }
