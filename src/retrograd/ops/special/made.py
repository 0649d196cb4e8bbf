"""How a special function becomes an operator: its values by NumPy in float64, its derivative by other operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ..arguments.checks import as_float

__all__: list[str] = []

Values = Callable[..., np.ndarray]


class Special(Function):
    """y = value(x, *numbers) of single elements, with the gradient g * slope(x, y, *numbers)."""

    value: ClassVar[Values]  # of a float64 array
    slope: ClassVar[Callable[..., Any]]  # of Tensors, made of differentiable operators
    formulas: ClassVar[tuple[Any, ...]]  # what the documentation shows

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.formulas = (cls.value,)

    @classmethod
    def forward(cls, ctx: Any, x: Tensor, *numbers: Any) -> Tensor:
        with np.errstate(all="ignore"):
            y = wrap(np.asarray(cls.value(x.array.astype(np.float64), *numbers)).astype(x.array.dtype))
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


def each(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    """Python's function of every element: NumPy has none. Where that has no value, inf."""
    numbers = x.ravel().tolist()
    try:
        found = [*map(function, numbers)]
    except (ValueError, OverflowError):  # of one of them
        found = [_or_infinite(function, number) for number in numbers]
    return np.array(found, np.float64).reshape(x.shape)


def _or_infinite(function: Callable[[float], float], number: float) -> float:
    try:
        return function(number)
    except (ValueError, OverflowError):
        return math.inf
