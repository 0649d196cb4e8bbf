"""Rprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..arrays import full_like
from ..engine.tensor import Tensor
from ..formulas.optimizers import rprop
from .optimizer import Group, Optimizer
from .options import Forms, options

__all__ = ["Rprop"]


class Rprop(Optimizer):
    """Steps of their own for each number, which depend on the sign of the gradient alone. For full batches.

    For every parameter p with gradient g (etas = (low, high)), with s = lr and h = 0 in the first step:

        s = s * high where g * h > 0, s * low where g * h < 0, within step_sizes    (step_size)
        g = 0 where g * h < 0
        p = p - s * sign(g);  h = g                                                 (prev)

    Source: Riedmiller and Braun 1993, "A direct adaptive method for faster backpropagation learning"; without
    backtracking (iRprop-).

    Raises: as Optimizer; and ValueError: etas are not 0 < low < 1 < high.
    """

    formulas = (rprop,)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        maximize: bool = False,
        **forms: Unpack[Forms],
    ) -> None:
        super().__init__(params, options("Rprop", locals()))

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        (shrink, grow), (smallest, largest) = group["etas"], group["step_sizes"]
        values = super().settings(group, counters, fresh)
        return {**values, "shrink": shrink, "grow": grow, "smallest": smallest, "largest": largest}

    def start_of(self, name: str, parameter: Tensor, group: Group) -> Tensor:
        return Tensor(full_like(parameter.array, group["lr"] if name == "step_size" else 0))
