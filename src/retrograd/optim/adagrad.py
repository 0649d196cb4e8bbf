"""Adagrad."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..arrays import full_like
from ..engine.tensor import Tensor
from ..formulas.optimizers import adagrad
from .optimizer import Group, Optimizer
from .options import Forms, options

__all__ = ["Adagrad"]


class Adagrad(Optimizer):
    """For every parameter p with gradient g, in its t-th step:

        g = g + weight_decay * p
        s = s + g**2                        (sum; it starts as initial_accumulator_value)
        p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)

    The state is created in __init__.

    Source: Duchi, Hazan and Singer 2011, "Adaptive subgradient methods".

    Raises: as Optimizer.
    """

    formulas = (adagrad,)

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
        **forms: Unpack[Forms],
    ) -> None:
        super().__init__(params, options("Adagrad", locals()))

    def add_param_group(self, param_group: Group) -> None:
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in group["params"]:
            self._state_of(parameter, group, self.buffer_names)

    def start_of(self, name: str, parameter: Tensor, group: Group) -> Tensor:
        return Tensor(full_like(parameter.array, group["initial_accumulator_value"]))
