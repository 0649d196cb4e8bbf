"""RAdam."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any

from .optimizer import Group, Optimizer, require_betas, require_flags, require_number

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

    maximize: maximise, as if the gradient had the opposite sign.

    Source: Liu et al. 2020 (arXiv:1908.03265), algorithm 2.

    Raises:
        ValueError: lr, eps or weight_decay is negative or not a number, a beta is outside [0, 1), or a flag is
            not a bool.
        TypeError, ValueError: for params, see Optimizer.
    """

    kernel = "radam_step"
    buffer_names = ("exp_avg", "exp_avg_sq")

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
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def check_options(self, group: Group) -> None:
        for option in ("lr", "eps", "weight_decay"):
            require_number(f"RAdam: {option}", group[option])
        require_betas("RAdam", group["betas"])
        require_flags("RAdam", group, "decoupled_weight_decay", "maximize")

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        beta1, beta2 = map(float, group["betas"])
        step = counters["step"]
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / (1 - beta2**step)
        rectification = 0.0
        if length > 5:
            rectification = sqrt(
                (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            )
        return {
            "step": step,
            "lr": float(group["lr"]),
            "beta1": beta1,
            "beta2": beta2,
            "rectification": rectification,
            "eps": float(group["eps"]),
            "weight_decay": float(group["weight_decay"]),
            "decoupled": bool(group["decoupled_weight_decay"]),
            "maximize": bool(group["maximize"]),
        }
