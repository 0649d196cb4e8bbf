"""Adafactor, an optimizer with a factored second moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from ..arrays import zeros
from ..engine.aliasing import mark_changed
from ..engine.grad_mode import enable_grad
from ..engine.tensor import Tensor
from ..kernel_set import kernels
from .optimizer import Group, Optimizer, Params
from .options import ImplementationOptions, options, require_number

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Adafactor: steps relative to the size of the parameter, with a variance factored into row and column means.

    For every parameter p with gradient g, in its t-th step, with rms(x) = sqrt(mean(x**2)) and eps = (e1, e2):

        b = 1 - t**beta2_decay
        r = b * r + (1 - b) * mean(g**2, -1)        (row_var)
        c = b * c + (1 - b) * mean(g**2, -2)        (col_var)
        v = r * c / max(mean(r, -2), e1)            for vectors v = b * v + (1 - b) * g**2   (variance)
        u = g / sqrt(max(v, e1**2))
        p = p * (1 - lr * weight_decay)
        p = p - max(e2, rms(p)) * min(lr, 1 / sqrt(t)) * u / max(1, rms(u) / d)

    eps: if e1 is None, it is the machine epsilon of the parameter's type.

    Source: Shazeer and Stern 2018 (arXiv:1804.04235), algorithms 4 and 5, in PyTorch's form.

    Raises: as Optimizer; and ValueError: eps is not a pair of a number or None and a number.
    """

    buffer_names: tuple[str, ...] = ("row_var", "col_var", "variance")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **implementation: Unpack[ImplementationOptions],
    ) -> None:
        super().__init__(params, options("Adafactor", locals()))

    def check_options(self, group: Group) -> None:
        eps = group["eps"]
        if not isinstance(eps, (tuple, list)) or len(eps) != 2:
            raise ValueError(f"Adafactor: eps={eps!r} is invalid; it must be a pair: a number or None, and a number")
        for position, number in enumerate(eps):
            if position or number is not None:
                require_number(f"Adafactor: eps[{position}]", number)
        others = {name: value for name, value in group.items() if name != "eps"}
        self.check_numbers(others)
        group.update(others)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, except those whose grad_req is "null".

        closure: recomputes the loss (zero_grad, forward, backward); its result is returned.

        Raises:
            RuntimeError: shape or dtype of a gradient is not that of its parameter; nothing is updated.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        work = []
        for group in self.param_groups:
            trained = [p for p in group["params"] if p._grad is not None and p._grad_req != "null"]
            self._check_gradients(trained, [p._grad.array for p in trained])
            work += [(p, group, self._state_of(p, group, self.buffers_for(group, p))[0]) for p in trained]
        changed: list[np.ndarray] = []
        for parameter, group, state in work:
            state["step"] += 1
            buffers = [state[name].array for name in self.buffers_for(group, parameter)]
            _update(parameter.array, parameter.grad.array, buffers, state["step"], group)
            changed += parameter.array, *buffers
        mark_changed(changed, "Adafactor.step")
        return loss

    def buffers_for(self, group: Group, parameter: Tensor) -> tuple[str, ...]:
        return ("row_var", "col_var") if parameter.array.ndim > 1 else ("variance",)

    def shape_of(self, name: str, parameter: Tensor) -> tuple[int, ...]:
        shape = parameter.array.shape
        if name == "row_var":
            return (*shape[:-1], 1)
        return (*shape[:-2], 1, shape[-1]) if name == "col_var" else shape

    def start_of(self, name: str, parameter: Tensor, group: Group) -> Tensor:
        return Tensor(zeros(self.shape_of(name, parameter), parameter.array.dtype, like=parameter.array))


def _update(p: np.ndarray, g: np.ndarray, buffers: list[np.ndarray], step: int, group: Group) -> None:
    least, floor = group["eps"]
    kernels.adafactor_update(
        (p, g, *buffers),
        step=step,
        lr=group["lr"],
        beta2_decay=group["beta2_decay"],
        least=float(np.finfo(p.dtype).eps) if least is None else least,
        floor=floor,
        d=group["d"],
        weight_decay=group["weight_decay"],
        maximize=group["maximize"],
    )
