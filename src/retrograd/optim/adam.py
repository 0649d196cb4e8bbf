"""Adam and AdamW, with AMSGrad."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..formulas.optimizers import adam, amsgrad
from .optimizer import Group, Optimizer, Update
from .options import Forms, options

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """For every parameter p with gradient g, in its t-th step (betas = (b1, b2)):

        g = g + weight_decay * p            or, with decoupled_weight_decay, p = p - lr * weight_decay * p
        m = b1 * m + (1 - b1) * g           (exp_avg)
        v = b2 * v + (1 - b2) * g**2        (exp_avg_sq)
        p = p - lr * (m / (1 - b1**t)) / (sqrt(v / (1 - b2**t)) + eps)

    amsgrad: use the maximum of v so far (max_exp_avg_sq) in the last line.

    Source: Kingma and Ba 2015 (arXiv:1412.6980), algorithm 1; Reddi et al. 2018 (arXiv:1904.09237) for amsgrad;
    weight_decay as in PyTorch's Adam.

    Raises: as Optimizer.
    """

    formulas = (adam, amsgrad)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
        **forms: Unpack[Forms],
    ) -> None:
        super().__init__(params, options(type(self).__name__, locals()))

    def formula(self, group: Group) -> Update:
        return amsgrad if group["amsgrad"] else adam


class AdamW(Adam):
    """Adam with decoupled weight decay: p = p - lr * weight_decay * p before Adam's step, with nothing added to g.

    Source: Loshchilov and Hutter 2019 (arXiv:1711.05101).

    Raises: as Adam.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **forms: Unpack[Forms],
    ) -> None:
        own: Any = {"maximize": maximize, "decoupled_weight_decay": True, **forms}
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **own)

    def check_options(self, group: Group) -> None:
        super().check_options(group)
        if not group["decoupled_weight_decay"]:
            raise ValueError("AdamW: decoupled_weight_decay=False is Adam; use Adam")
