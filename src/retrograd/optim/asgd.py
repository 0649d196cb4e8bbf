"""ASGD."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..formulas.optimizers import asgd
from .optimizer import Group, Optimizer, State
from .options import Forms, options

__all__ = ["ASGD"]


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

    formulas = (asgd,)
    counters = {"step": 0, "eta": 0.0, "mu": 1.0}  # eta and mu are those of the next step

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **forms: Unpack[Forms],
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
