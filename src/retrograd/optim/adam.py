"""Adam and its variants: AdamW, Adamax, NAdam and RAdam."""

from __future__ import annotations

from math import sqrt
from typing import Any, Unpack

from ..formulas.optimizers import adam, adamax, amsgrad, nadam, nadam_momentum, radam
from .optimizer import Group, Optimizer, Params, State, Update
from .options import ImplementationOptions, options

__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam"]


# ---- Adam and AdamW, with AMSGrad -----------------------------------------------------------------------------------


class Adam(Optimizer):
    """Adam. For every parameter p with gradient g, in its t-th step (betas = (b1, b2)):

        g = g + weight_decay * p            or, with decoupled_weight_decay, p = p - lr * weight_decay * p
        m = b1 * m + (1 - b1) * g           (exp_avg)
        v = b2 * v + (1 - b2) * g**2        (exp_avg_sq)
        p = p - lr * (m / (1 - b1**t)) / (sqrt(v / (1 - b2**t)) + eps)

    amsgrad: use the maximum of v so far (max_exp_avg_sq) in the last line.

    Source: Kingma and Ba 2015 (arXiv:1412.6980), algorithm 1; Reddi et al. 2018 (arXiv:1904.09237) for amsgrad;
    weight_decay as in PyTorch's Adam.

    Raises: as Optimizer.
    """

    formulas: tuple[Any, ...] = (adam, amsgrad)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
        **implementation: Unpack[ImplementationOptions],
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
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **implementation: Unpack[ImplementationOptions],
    ) -> None:
        own: Any = {"maximize": maximize, "decoupled_weight_decay": True, **implementation}
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **own)

    def check_options(self, group: Group) -> None:
        super().check_options(group)
        if not group["decoupled_weight_decay"]:
            raise ValueError("AdamW: decoupled_weight_decay=False is Adam; use Adam")


# ---- Adamax ---------------------------------------------------------------------------------------------------------


class Adamax(Optimizer):
    """Adam with the infinity norm. For every parameter p with gradient g, in its t-th step (betas = (b1, b2)):

        g = g + weight_decay * p
        m = b1 * m + (1 - b1) * g           (exp_avg)
        u = max(b2 * u, abs(g) + eps)       (exp_inf)
        p = p - lr / (1 - b1**t) * m / u

    Source: Kingma and Ba 2015 (arXiv:1412.6980), section 7.1, with eps where PyTorch has it.

    Raises: as Optimizer.
    """

    formulas: tuple[Any, ...] = (adamax,)

    def __init__(
        self,
        params: Params,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **implementation: Unpack[ImplementationOptions],
    ) -> None:
        super().__init__(params, options("Adamax", locals()))


# ---- NAdam ----------------------------------------------------------------------------------------------------------


class NAdam(Optimizer):
    """Adam with Nesterov momentum. For every parameter p with gradient g, in its t-th step (betas = (b1, b2)):

        mu(t) = b1 * (1 - 0.5 * 0.96**(t * momentum_decay));  P(t) = mu(1) * ... * mu(t)    (mu_product)
        g = g + weight_decay * p            or, with decoupled_weight_decay, p = p - lr * weight_decay * p
        m = b1 * m + (1 - b1) * g           (exp_avg)
        v = b2 * v + (1 - b2) * g**2        (exp_avg_sq)
        n = mu(t+1) * m / (1 - P(t+1)) + (1 - mu(t)) * g / (1 - P(t))
        p = p - lr * n / (sqrt(v / (1 - b2**t)) + eps)

    Source: Dozat 2016, "Incorporating Nesterov momentum into Adam".

    Raises: as Optimizer.
    """

    formulas: tuple[Any, ...] = (nadam,)
    counters: dict[str, float] = {"step": 0, "mu_product": 1.0}

    def __init__(
        self,
        params: Params,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **implementation: Unpack[ImplementationOptions],
    ) -> None:
        super().__init__(params, options("NAdam", locals()))

    def count(self, group: Group, state: State) -> dict[str, Any]:
        step = state["step"] + 1
        mu = nadam_momentum(step, float(group["betas"][0]), float(group["momentum_decay"]))
        return {"step": step, "mu_product": state["mu_product"] * mu}


# ---- RAdam ----------------------------------------------------------------------------------------------------------


class RAdam(Optimizer):
    """Adam with a rectified variance. For every parameter p with gradient g, in its t-th step (betas = (b1, b2)):

        g = g + weight_decay * p            or, with decoupled_weight_decay, p = p - lr * weight_decay * p
        m = b1 * m + (1 - b1) * g           (exp_avg)
        v = b2 * v + (1 - b2) * g**2        (exp_avg_sq)
        R = 2 / (1 - b2) - 1;  s = R - 2 * t * b2**t / (1 - b2**t)
        if s > 5:  r = sqrt((s - 4) * (s - 2) * R / ((R - 4) * (R - 2) * s))
                   p = p - lr * m / (1 - b1**t) * r * sqrt(1 - b2**t) / (sqrt(v) + eps)
        else:      p = p - lr * m / (1 - b1**t)

    Source: Liu et al. 2020 (arXiv:1908.03265), algorithm 2.

    Raises: as Optimizer.
    """

    formulas: tuple[Any, ...] = (radam,)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **implementation: Unpack[ImplementationOptions],
    ) -> None:
        super().__init__(params, options("RAdam", locals()))

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        beta2, step = float(group["betas"][1]), counters["step"]
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / (1 - beta2**step)
        rectification = 0.0
        if length > 5:
            rectification = sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))
        return {**super().settings(group, counters, fresh), "rectification": rectification}
