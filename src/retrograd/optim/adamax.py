"""Adamax."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .optimizer import Group, Optimizer, require_betas, require_flags, require_number

__all__ = ["Adamax"]


class Adamax(Optimizer):
    """Adam with the infinity norm. For every parameter p with gradient g, in its t-th step (betas = (b1, b2)):

        g = g + weight_decay * p
        m = b1 * m + (1 - b1) * g           (exp_avg)
        u = max(b2 * u, abs(g) + eps)       (exp_inf)
        p = p - lr / (1 - b1**t) * m / u

    maximize: maximise, as if the gradient had the opposite sign.

    Source: Kingma and Ba 2015 (arXiv:1412.6980), section 7.1, with eps where PyTorch has it.

    Raises:
        ValueError: lr, eps or weight_decay is negative or not a number, a beta is outside [0, 1), or maximize
            is not a bool.
        TypeError, ValueError: for params, see Optimizer.
    """

    kernel = "adamax_step"
    buffer_names = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults)

    def check_options(self, group: Group) -> None:
        for option in ("lr", "eps", "weight_decay"):
            require_number(f"Adamax: {option}", group[option])
        require_betas("Adamax", group["betas"])
        require_flags("Adamax", group, "maximize")

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        beta1, beta2 = group["betas"]
        return {
            "step": counters["step"],
            "lr": float(group["lr"]),
            "beta1": float(beta1),
            "beta2": float(beta2),
            "eps": float(group["eps"]),
            "weight_decay": float(group["weight_decay"]),
            "maximize": bool(group["maximize"]),
        }
