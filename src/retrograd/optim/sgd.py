"""Stochastic gradient descent with momentum and weight decay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..ops.kernel_set import kernels
from .optimizer import Group, Optimizer, require_number

__all__ = ["SGD"]


class SGD(Optimizer):
    """For every parameter p with gradient g:

        d = g + weight_decay * p
        m = momentum * m + d;  d = m        (only with momentum; m starts as zeros)
        p = p - lr * d

    Source: Sutskever et al. 2013, in PyTorch's form, where lr multiplies the momentum.

    Raises:
        ValueError: lr, momentum or weight_decay is negative or no number, or dampening or nesterov is set,
            which this class does not have.
        TypeError, ValueError: for params, see Optimizer.
    """

    buffer_names = ("momentum_buffer",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults)

    def check_options(self, group: Group) -> None:
        for option in ("lr", "momentum", "weight_decay"):
            require_number(f"SGD: {option}", group[option])
        if group["dampening"] != 0:
            raise ValueError(f"SGD: dampening={group['dampening']} is not supported; leave it at 0")
        if group["nesterov"]:
            raise ValueError("SGD: nesterov=True is not supported; leave it at False")

    def update(
        self, group: Group, parameters: list[Tensor], arrays: list[np.ndarray], gradients: list[np.ndarray]
    ) -> None:
        momentum = float(group["momentum"])
        momenta = []
        if momentum:
            momenta = [self.state_of(parameter)["momentum_buffer"].data for parameter in parameters]
        kernels.sgd_step(
            arrays,
            gradients,
            momenta,
            lr=float(group["lr"]),
            momentum=momentum,
            weight_decay=float(group["weight_decay"]),
        )
