"""RMSprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..formulas.optimizers import rmsprop, rmsprop_centered, rmsprop_centered_momentum, rmsprop_momentum
from .optimizer import Group, Optimizer, Update
from .options import Forms, options

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """For every parameter p with gradient g:

        g = g + weight_decay * p
        v = alpha * v + (1 - alpha) * g**2              (square_avg)
        a = alpha * a + (1 - alpha) * g                 (grad_avg, if centered; a = 0 if not)
        u = g / (sqrt(max(v - a**2, 0)) + eps)
        m = momentum * m + u;  u = m                    (momentum_buffer, only with momentum)
        p = p - lr * u

    PyTorch lacks max(..., 0): if rounding makes v - a**2 negative, it returns NaN.

    Source: Tieleman and Hinton 2012, lecture 6.5; centered: Graves 2013 (arXiv:1308.0850).

    Raises: as Optimizer.
    """

    formulas = (rmsprop, rmsprop_momentum, rmsprop_centered, rmsprop_centered_momentum)

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
        **forms: Unpack[Forms],
    ) -> None:
        super().__init__(params, options("RMSprop", locals()))

    def formula(self, group: Group) -> Update:
        if group["centered"]:
            return rmsprop_centered_momentum if group["momentum"] else rmsprop_centered
        return rmsprop_momentum if group["momentum"] else rmsprop
