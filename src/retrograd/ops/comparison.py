"""Comparisons: Tensors of truth values, without a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.tensor import Tensor, wrap
from .broadcasting import broadcast_shape
from .dtype import is_number

__all__ = ["eq", "ge", "gt", "le", "lt", "ne"]


def eq(input: Tensor, other: Any) -> Any:
    """input == other, element by element."""
    return _compare("eq", np.equal, input, other)


def ne(input: Tensor, other: Any) -> Any:
    """input != other, element by element."""
    return _compare("ne", np.not_equal, input, other)


def lt(input: Tensor, other: Any) -> Any:
    """input < other, element by element."""
    return _compare("lt", np.less, input, other)


def le(input: Tensor, other: Any) -> Any:
    """input <= other, element by element."""
    return _compare("le", np.less_equal, input, other)


def gt(input: Tensor, other: Any) -> Any:
    """input > other, element by element."""
    return _compare("gt", np.greater, input, other)


def ge(input: Tensor, other: Any) -> Any:
    """input >= other, element by element."""
    return _compare("ge", np.greater_equal, input, other)


def _compare(name: str, compare: Callable[..., Any], x: Tensor, y: Any) -> Any:
    if isinstance(y, Tensor):
        broadcast_shape(name, x.data.shape, y.data.shape)
        return wrap(np.asarray(compare(x.data, y.data)))
    # anything else: Python tries the reflected comparison, and "x == None" is False
    return wrap(np.asarray(compare(x.data, y))) if is_number(y) else NotImplemented
