"""Adadelta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..formulas.optimizers import adadelta
from .optimizer import Optimizer
from .options import Forms, options

__all__ = ["Adadelta"]


class Adadelta(Optimizer):
    """For every parameter p with gradient g:

        g = g + weight_decay * p
        v = rho * v + (1 - rho) * g**2      (square_avg)
        u = sqrt(a + eps) / sqrt(v + eps) * g
        a = rho * a + (1 - rho) * u**2      (acc_delta)
        p = p - lr * u

    Source: Zeiler 2012 (arXiv:1212.5701).

    Raises: as Optimizer.
    """

    formulas = (adadelta,)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **forms: Unpack[Forms],
    ) -> None:
        super().__init__(params, options("Adadelta", locals()))
