"""RMSprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .optimizer import Group, Optimizer, require_flags, require_number

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """For every parameter p with gradient g:

        g = g + weight_decay * p
        v = alpha * v + (1 - alpha) * g**2              (square_avg)
        a = alpha * a + (1 - alpha) * g                 (grad_avg, if centered; a = 0 if not)
        u = g / (sqrt(max(v - a**2, 0)) + eps)
        m = momentum * m + u;  u = m                    (momentum_buffer, only with momentum)
        p = p - lr * u

    maximize: maximise, as if the gradient had the opposite sign.
    PyTorch lacks max(..., 0): if rounding makes v - a**2 negative, it returns NaN.

    Source: Tieleman and Hinton 2012, lecture 6.5; centered: Graves 2013 (arXiv:1308.0850).

    Raises:
        ValueError: lr, alpha, eps, weight_decay or momentum is negative or not a number, alpha is above 1, or a flag is
            no bool.
        TypeError, ValueError: for params, see Optimizer.
    """

    kernel = "rmsprop_step"
    buffer_names = ("square_avg", "grad_avg", "momentum_buffer")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, group: Group) -> None:
        for option in ("lr", "eps", "weight_decay", "momentum"):
            require_number(f"RMSprop: {option}", group[option])
        require_number("RMSprop: alpha", group["alpha"], upto=1.0)
        require_flags("RMSprop", group, "centered", "maximize")

    def buffers_for(self, group: Group) -> tuple[str, ...]:
        extra = ("grad_avg",) * bool(group["centered"]) + ("momentum_buffer",) * bool(group["momentum"])
        return ("square_avg", *extra)

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        return {
            "lr": float(group["lr"]),
            "alpha": float(group["alpha"]),
            "eps": float(group["eps"]),
            "weight_decay": float(group["weight_decay"]),
            "momentum": float(group["momentum"]),
            "maximize": bool(group["maximize"]),
        }
