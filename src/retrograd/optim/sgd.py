"""Stochastic gradient descent with momentum and weight decay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..formulas.optimizers import sgd, sgd_momentum
from .optimizer import Group, Optimizer, Update
from .options import Forms, options

__all__ = ["SGD"]


class SGD(Optimizer):
    """For every parameter p with gradient g:

        d = g + weight_decay * p
        m = momentum * m + (1 - dampening) * d        (only with momentum; m = d in the first step)
        d = m, or with nesterov d + momentum * m
        p = p - lr * d

    Source: Sutskever et al. 2013, in PyTorch's form, where lr multiplies the momentum.

    Raises: as Optimizer; and ValueError: nesterov comes without momentum or with dampening.
    """

    formulas = (sgd, sgd_momentum)
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
        **forms: Unpack[Forms],
    ) -> None:
        super().__init__(params, options("SGD", locals()))

    def check_options(self, group: Group) -> None:
        super().check_options(group)
        if group["nesterov"] and (group["momentum"] == 0 or group["dampening"] != 0):
            raise ValueError(
                f"SGD: nesterov=True with momentum={group['momentum']} and dampening={group['dampening']}; "
                "nesterov needs momentum above 0 and no dampening"
            )

    def formula(self, group: Group) -> Update:
        return sgd_momentum if group["momentum"] else sgd

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        values = super().settings(group, counters, fresh)
        return {**values, "dampening": 0.0} if fresh else values
