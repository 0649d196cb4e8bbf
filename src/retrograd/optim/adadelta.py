"""Adadelta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .optimizer import Group, Optimizer, require_flags, require_number

__all__ = ["Adadelta"]


class Adadelta(Optimizer):
    """For every parameter p with gradient g:

        g = g + weight_decay * p
        v = rho * v + (1 - rho) * g**2      (square_avg)
        u = sqrt(a + eps) / sqrt(v + eps) * g
        a = rho * a + (1 - rho) * u**2      (acc_delta)
        p = p - lr * u

    maximize: maximise, as if the gradient had the opposite sign.

    Source: Zeiler 2012 (arXiv:1212.5701).

    Raises:
        ValueError: lr, rho, eps or weight_decay is negative or not a number, rho is above 1, or maximize is not a bool.
        TypeError, ValueError: for params, see Optimizer.
    """

    kernel = "adadelta_step"
    buffer_names = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults)

    def check_options(self, group: Group) -> None:
        for option in ("lr", "eps", "weight_decay"):
            require_number(f"Adadelta: {option}", group[option])
        require_number("Adadelta: rho", group["rho"], upto=1.0)
        require_flags("Adadelta", group, "maximize")

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        return {
            "lr": float(group["lr"]),
            "rho": float(group["rho"]),
            "eps": float(group["eps"]),
            "weight_decay": float(group["weight_decay"]),
            "maximize": bool(group["maximize"]),
        }
