"""Optimizers with a learning rate per element: Adagrad, Adadelta, RMSprop and Rprop."""

from __future__ import annotations

from typing import Any, Unpack

from ..arrays import full_like
from ..engine.tensor import Tensor
from ..formulas.optimizers import (
    adadelta,
    adagrad,
    rmsprop,
    rmsprop_centered,
    rmsprop_centered_momentum,
    rmsprop_momentum,
    rprop,
)
from .optimizer import Group, Optimizer, Params, Update
from .options import ImplementationOptions, options

__all__ = ["Adadelta", "Adagrad", "RMSprop", "Rprop"]


# ---- Adagrad --------------------------------------------------------------------------------------------------------


class Adagrad(Optimizer):
    """Adagrad. For every parameter p with gradient g, in its t-th step:

        g = g + weight_decay * p
        s = s + g**2                        (sum; it starts as initial_accumulator_value)
        p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)

    The state is created in __init__.

    Source: Duchi, Hazan and Singer 2011, "Adaptive subgradient methods".

    Raises: as Optimizer.
    """

    formulas: tuple[Any, ...] = (adagrad,)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **implementation: Unpack[ImplementationOptions],
    ) -> None:
        super().__init__(params, options("Adagrad", locals()))

    def add_param_group(self, param_group: Group) -> None:
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in group["params"]:
            self._state_of(parameter, group, self.buffer_names)

    def start_of(self, name: str, parameter: Tensor, group: Group) -> Tensor:
        return Tensor(full_like(parameter.array, group["initial_accumulator_value"]))


# ---- Adadelta -------------------------------------------------------------------------------------------------------


class Adadelta(Optimizer):
    """Adadelta. For every parameter p with gradient g:

        g = g + weight_decay * p
        v = rho * v + (1 - rho) * g**2      (square_avg)
        u = sqrt(a + eps) / sqrt(v + eps) * g
        a = rho * a + (1 - rho) * u**2      (acc_delta)
        p = p - lr * u

    Source: Zeiler 2012 (arXiv:1212.5701).

    Raises: as Optimizer.
    """

    formulas: tuple[Any, ...] = (adadelta,)

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **implementation: Unpack[ImplementationOptions],
    ) -> None:
        super().__init__(params, options("Adadelta", locals()))


# ---- RMSprop --------------------------------------------------------------------------------------------------------


class RMSprop(Optimizer):
    """RMSprop. For every parameter p with gradient g:

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

    formulas: tuple[Any, ...] = (rmsprop, rmsprop_momentum, rmsprop_centered, rmsprop_centered_momentum)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
        **implementation: Unpack[ImplementationOptions],
    ) -> None:
        super().__init__(params, options("RMSprop", locals()))

    def formula(self, group: Group) -> Update:
        if group["centered"]:
            return rmsprop_centered_momentum if group["momentum"] else rmsprop_centered
        return rmsprop_momentum if group["momentum"] else rmsprop


# ---- Rprop ----------------------------------------------------------------------------------------------------------


class Rprop(Optimizer):
    """Rprop: a step size for each element that depends only on the sign of the gradient. For full batches.

    For every parameter p with gradient g (etas = (low, high)), with s = lr and h = 0 in the first step:

        s = s * high where g * h > 0, s * low where g * h < 0, within step_sizes    (step_size)
        g = 0 where g * h < 0
        p = p - s * sign(g);  h = g                                                 (prev)

    Source: Riedmiller and Braun 1993, "A direct adaptive method for faster backpropagation learning"; without
    backtracking (iRprop-).

    Raises: as Optimizer; and ValueError: etas are not 0 < low < 1 < high.
    """

    formulas: tuple[Any, ...] = (rprop,)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        maximize: bool = False,
        **implementation: Unpack[ImplementationOptions],
    ) -> None:
        super().__init__(params, options("Rprop", locals()))

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        (shrink, grow), (smallest, largest) = group["etas"], group["step_sizes"]
        values = super().settings(group, counters, fresh)
        return {**values, "shrink": shrink, "grow": grow, "smallest": smallest, "largest": largest}

    def start_of(self, name: str, parameter: Tensor, group: Group) -> Tensor:
        return Tensor(full_like(parameter.array, group["lr"] if name == "step_size" else 0))
