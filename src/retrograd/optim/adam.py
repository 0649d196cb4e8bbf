"""Adam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..ops.kernel_set import kernels
from .optimizer import Group, Optimizer, require_number

__all__ = ["Adam"]


class Adam(Optimizer):
    """For every parameter p with gradient g, in its t-th step (betas = (b1, b2)):

        g = g + weight_decay * p
        m = b1 * m + (1 - b1) * g           (exp_avg)
        v = b2 * v + (1 - b2) * g**2        (exp_avg_sq)
        p = p - lr * (m / (1 - b1**t)) / (sqrt(v / (1 - b2**t)) + eps)

    Source: Kingma and Ba 2015 (arXiv:1412.6980), algorithm 1; weight_decay as in PyTorch's Adam.

    Raises:
        ValueError: lr, eps or weight_decay is negative or no number, a beta lies outside [0, 1), or amsgrad,
            which this class does not have, is set.
        TypeError, ValueError: for params, see Optimizer.
    """

    buffer_names = ("exp_avg", "exp_avg_sq")
    counter_names = ("step",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        super().__init__(params, defaults)

    def check_options(self, group: Group) -> None:
        for option in ("lr", "eps", "weight_decay"):
            require_number(f"Adam: {option}", group[option])
        if not isinstance(group["betas"], (tuple, list)) or len(group["betas"]) != 2:
            raise ValueError(f"Adam: betas={group['betas']!r} is invalid; it must be two numbers")
        for position, beta in enumerate(group["betas"]):
            require_number(f"Adam: betas[{position}]", beta, below=1.0)
        if group["amsgrad"]:
            raise ValueError("Adam: amsgrad=True is not supported; leave it at False")

    def update(
        self, group: Group, parameters: list[Tensor], arrays: list[np.ndarray], gradients: list[np.ndarray]
    ) -> None:
        states = [self.state_of(parameter) for parameter in parameters]
        beta1, beta2 = group["betas"]
        # A parameter that was without a gradient for a while is at an earlier step: one call for each step.
        for taken in {state["step"] for state in states}:
            chosen = [position for position, state in enumerate(states) if state["step"] == taken]
            kernels.adam_step(
                [arrays[position] for position in chosen],
                [gradients[position] for position in chosen],
                [states[position]["exp_avg"].data for position in chosen],
                [states[position]["exp_avg_sq"].data for position in chosen],
                step=taken + 1,
                lr=float(group["lr"]),
                beta1=float(beta1),
                beta2=float(beta2),
                eps=float(group["eps"]),
                weight_decay=float(group["weight_decay"]),
            )
        for state in states:
            state["step"] += 1
