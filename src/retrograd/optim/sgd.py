"""Stochastic gradient descent (SGD), and its averaged form (ASGD)."""

from __future__ import annotations

from typing import Any, Unpack

from ..formulas.optimizers import asgd, sgd, sgd_momentum
from .optimizer import Group, Optimizer, Params, State, Update
from .options import ImplementationOptions, options

__all__ = ["ASGD", "SGD"]


# ---- Stochastic gradient descent with momentum and weight decay -----------------------------------------------------


class SGD(Optimizer):
    """Stochastic gradient descent. For every parameter p with gradient g:

        d = g + weight_decay * p
        m = momentum * m + (1 - dampening) * d        (only with momentum; m = d in the first step)
        d = m, or with nesterov d + momentum * m
        p = p - lr * d

    Source: Sutskever et al. 2013, in PyTorch's form, where lr multiplies the momentum.

    Raises: as Optimizer; and ValueError: nesterov without momentum or with dampening.
    """

    formulas: tuple[Any, ...] = (sgd, sgd_momentum)
    counters: dict[str, float] = {}

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **implementation: Unpack[ImplementationOptions],
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


# ---- ASGD -----------------------------------------------------------------------------------------------------------


class ASGD(Optimizer):
    """Averaged stochastic gradient descent. For every parameter p with gradient g, in its t-th step:

        g = g + weight_decay * p
        p = (1 - lambd * eta) * p - eta * g     eta = lr / (1 + lambd * lr * (t - 1))**alpha
        a = a + mu * (p - a)                    (ax; mu = 1 / max(1, t - 1 - t0))

    The average a is in ``state[parameter]["ax"]``. A change of lr counts from the step after the next one, as in
    PyTorch.

    Source: Polyak and Juditsky 1992, "Acceleration of stochastic approximation by averaging"; the rates are Bottou's.

    Raises: as Optimizer.
    """

    formulas: tuple[Any, ...] = (asgd,)
    counters: dict[str, float] = {"step": 0, "eta": 0.0, "mu": 1.0}  # eta and mu are those of the next step

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **implementation: Unpack[ImplementationOptions],
    ) -> None:
        super().__init__(params, options("ASGD", locals()))

    def count(self, group: Group, state: State) -> dict[str, Any]:
        step, lr = state["step"] + 1, group["lr"]
        return {
            "step": step,
            "eta": lr / (1 + group["lambd"] * lr * step) ** group["alpha"],
            "mu": 1 / max(1, step - group["t0"]),
            "now": {"eta": state["eta"] if state["step"] else lr, "mu": state["mu"]},
        }

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        return {**super().settings(group, counters, fresh), **counters["now"]}
