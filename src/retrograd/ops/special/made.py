"""Special functions as operators: a kernel computes the values, other operators the derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..arguments.checks import as_float

__all__: list[str] = []

Values = Callable[..., np.ndarray]


class Special(Function):
    """y = kernel(x, *numbers) of single elements, with the gradient g * slope(x, y, *numbers)."""

    kernel: ClassVar[str]  # its name
    slope: ClassVar[Callable[..., Any]]  # of Tensors, made of differentiable operators

    @classmethod
    def forward(cls, ctx: Any, x: Tensor, *numbers: Any) -> Tensor:
        y = wrap(getattr(kernels, cls.kernel)(x.array, *numbers))
        ctx.save_for_backward(x, y)
        ctx.numbers = numbers
        return y

    @classmethod
    def backward(cls, ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        return (g * cls.slope(x, y, *ctx.numbers), *(None for _ in ctx.numbers))


def applied(function: type[Function], name: str, x: Tensor, *numbers: Any) -> Tensor:
    """The operator of a Tensor; integers and truth values become float32; TypeError for anything else."""
    return function.apply(as_float(name, x), *numbers)
