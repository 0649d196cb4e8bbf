"""Adagrad."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from .optimizer import Group, Optimizer, require_flags, require_number

__all__ = ["Adagrad"]


class Adagrad(Optimizer):
    """For every parameter p with gradient g, in its t-th step:

        g = g + weight_decay * p
        s = s + g**2                        (sum; it starts as initial_accumulator_value)
        p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)

    maximize: maximise, as if the gradient had the opposite sign. The state is created in __init__.

    Source: Duchi, Hazan and Singer 2011, "Adaptive subgradient methods".

    Raises:
        ValueError: lr, lr_decay, weight_decay, initial_accumulator_value or eps is negative or not a number, or
            maximize is not a bool.
        TypeError, ValueError: for params, see Optimizer.
    """

    kernel = "adagrad_step"
    buffer_names = ("sum",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: Group) -> None:
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in group["params"]:
            self._state_of(parameter, group, self.buffer_names)

    def check_options(self, group: Group) -> None:
        for option in ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"):
            require_number(f"Adagrad: {option}", group[option])
        require_flags("Adagrad", group, "maximize")

    def start_of(self, parameter: Tensor, group: Group) -> Tensor:
        return Tensor(np.full_like(parameter.array, group["initial_accumulator_value"]))

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        return {
            "lr": float(group["lr"]) / (1 + (counters["step"] - 1) * float(group["lr_decay"])),
            "eps": float(group["eps"]),
            "weight_decay": float(group["weight_decay"]),
            "maximize": bool(group["maximize"]),
        }
