"""Adam and AdamW, with AMSGrad."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .optimizer import Group, Optimizer, require_betas, require_flags, require_number

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """For every parameter p with gradient g, in its t-th step (betas = (b1, b2)):

        g = g + weight_decay * p            or, with decoupled_weight_decay, p = p - lr * weight_decay * p
        m = b1 * m + (1 - b1) * g           (exp_avg)
        v = b2 * v + (1 - b2) * g**2        (exp_avg_sq)
        p = p - lr * (m / (1 - b1**t)) / (sqrt(v / (1 - b2**t)) + eps)

    amsgrad: use the maximum of v so far (max_exp_avg_sq) in the last line.
    maximize: maximise, as if the gradient had the opposite sign.

    Source: Kingma and Ba 2015 (arXiv:1412.6980), algorithm 1; Reddi et al. 2018 (arXiv:1904.09237) for amsgrad;
    weight_decay as in PyTorch's Adam.

    Raises:
        ValueError: lr, eps or weight_decay is negative or not a number, a beta is outside [0, 1), or a flag is
            not a bool.
        TypeError, ValueError: for params, see Optimizer.
    """

    kernel = "adam_step"
    buffer_names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")

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
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def check_options(self, group: Group) -> None:
        name = type(self).__name__
        for option in ("lr", "eps", "weight_decay"):
            require_number(f"{name}: {option}", group[option])
        require_betas(name, group["betas"])
        require_flags(name, group, "amsgrad", "maximize", "decoupled_weight_decay")

    def buffers_for(self, group: Group) -> tuple[str, ...]:
        return self.buffer_names if group["amsgrad"] else self.buffer_names[:2]

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        beta1, beta2 = group["betas"]
        return {
            "step": counters["step"],
            "lr": float(group["lr"]),
            "beta1": float(beta1),
            "beta2": float(beta2),
            "eps": float(group["eps"]),
            "weight_decay": float(group["weight_decay"]),
            "decoupled": bool(group["decoupled_weight_decay"]),
            "maximize": bool(group["maximize"]),
        }


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
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True
        )

    def check_options(self, group: Group) -> None:
        super().check_options(group)
        if not group["decoupled_weight_decay"]:
            raise ValueError("AdamW: decoupled_weight_decay=False is Adam; use Adam")
