"""Stochastic gradient descent with momentum and weight decay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .optimizer import Group, Optimizer, require_flags, require_number

__all__ = ["SGD"]


class SGD(Optimizer):
    """For every parameter p with gradient g:

        d = g + weight_decay * p
        m = momentum * m + (1 - dampening) * d        (only with momentum; m = d in the first step)
        d = m, or with nesterov d + momentum * m
        p = p - lr * d

    maximize: maximise, as if the gradient had the opposite sign.

    Source: Sutskever et al. 2013, in PyTorch's form, where lr multiplies the momentum.

    Raises:
        ValueError: lr, momentum or weight_decay is negative or not a number, dampening is not a number, a flag is not a
            bool, or nesterov comes without momentum or with dampening.
        TypeError, ValueError: for params, see Optimizer.
    """

    kernel = "sgd_step"
    buffer_names = ("momentum_buffer",)
    counters: dict[str, float] = {}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, group: Group) -> None:
        for option in ("lr", "momentum", "weight_decay"):
            require_number(f"SGD: {option}", group[option])
        require_number("SGD: dampening", group["dampening"], low=float("-inf"))
        require_flags("SGD", group, "nesterov", "maximize")
        if group["nesterov"] and (group["momentum"] == 0 or group["dampening"] != 0):
            raise ValueError(
                f"SGD: nesterov=True with momentum={group['momentum']} and dampening={group['dampening']}; "
                "nesterov needs momentum above 0 and no dampening"
            )

    def buffers_for(self, group: Group) -> tuple[str, ...]:
        return self.buffer_names if group["momentum"] else ()

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        return {
            "lr": float(group["lr"]),
            "momentum": float(group["momentum"]),
            "dampening": 0.0 if fresh else float(group["dampening"]),
            "weight_decay": float(group["weight_decay"]),
            "nesterov": bool(group["nesterov"]),
            "maximize": bool(group["maximize"]),
        }
