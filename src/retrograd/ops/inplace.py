"""``x += y`` and its like.

Memory is changed only where that is the point: a leaf that requires a gradient, while nothing is recorded (a step of
gradient descent written by hand). Anything else becomes a new tensor under the old name, so that what the graph has
saved stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.grad_mode import is_grad_enabled
from ..engine.tensor import Tensor
from .elementwise import add, div, mul, sub


def iadd(x: Tensor, y: Any) -> Tensor:
    """x += y

    Raises:
        RuntimeError: x is a leaf that requires a gradient, and operations are recorded.
        ValueError: x has not the shape and type of the result.
    """
    return _change("+=", add, x, y)


def isub(x: Tensor, y: Any) -> Tensor:
    """x -= y; as ``iadd``."""
    return _change("-=", sub, x, y)


def imul(x: Tensor, y: Any) -> Tensor:
    """x *= y; as ``iadd``."""
    return _change("*=", mul, x, y)


def idiv(x: Tensor, y: Any) -> Tensor:
    """x /= y; as ``iadd``."""
    return _change("/=", div, x, y)


def _change(sign: str, operator: Callable[[Any, Any], Tensor], x: Tensor, y: Any) -> Tensor:
    if not (x.requires_grad and x.is_leaf):
        return operator(x, y)
    if is_grad_enabled():
        raise RuntimeError(
            f"{sign}: a leaf that requires a gradient cannot change while operations are recorded; "
            f"put the line into 'with retrograd.no_grad():', or write x = x {sign[0]} y for a new tensor"
        )
    value = operator(x, y).data
    if value.shape != x.data.shape or value.dtype != x.data.dtype:
        raise ValueError(
            f"{sign}: the result is {value.dtype} of shape {value.shape}, x is {x.data.dtype} of shape {x.data.shape}; "
            f"they must be equal"
        )
    np.copyto(x.data, value)
    return x
