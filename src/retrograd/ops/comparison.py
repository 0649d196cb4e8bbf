"""Comparisons: Tensors of truth values, without a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.tensor import Tensor, wrap
from .broadcasting import broadcast_shape
from .dtype import is_number


def eq(x: Tensor, y: Any) -> Any:
    """x == y, element by element."""
    return _compare("eq", np.equal, x, y)


def ne(x: Tensor, y: Any) -> Any:
    """x != y, element by element."""
    return _compare("ne", np.not_equal, x, y)


def lt(x: Tensor, y: Any) -> Any:
    """x < y, element by element."""
    return _compare("lt", np.less, x, y)


def le(x: Tensor, y: Any) -> Any:
    """x <= y, element by element."""
    return _compare("le", np.less_equal, x, y)


def gt(x: Tensor, y: Any) -> Any:
    """x > y, element by element."""
    return _compare("gt", np.greater, x, y)


def ge(x: Tensor, y: Any) -> Any:
    """x >= y, element by element."""
    return _compare("ge", np.greater_equal, x, y)


def all(x: Tensor) -> Tensor:
    """Whether no element of x is 0 or False."""
    return wrap(np.asarray(x.data.all()))


def any(x: Tensor) -> Tensor:
    """Whether some element of x is neither 0 nor False."""
    return wrap(np.asarray(x.data.any()))


def _compare(name: str, compare: Callable[..., Any], x: Tensor, y: Any) -> Any:
    if isinstance(y, Tensor):
        broadcast_shape(name, x.data.shape, y.data.shape)
        return wrap(np.asarray(compare(x.data, y.data)))
    # anything else: Python tries the reflected comparison, and "x == None" is False
    return wrap(np.asarray(compare(x.data, y))) if is_number(y) else NotImplemented
