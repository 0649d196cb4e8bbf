"""Gives Tensor its operators and methods: each is a function of this package under PyTorch's method name.

Every public function of a family of ``FAMILIES`` is a method; what has another name or form as a method stands below.
"""

from __future__ import annotations

from typing import Any

from ..engine.tensor import Tensor
from . import (
    broadcasting,
    comparison,
    elementwise,
    extremes,
    inplace,
    matmul,
    norms,
    order,
    reduction,
    scan,
    search,
    shape,
    softmax,
    statistics,
)
from .dtype import bool_, cast, float32, float64, int64


def _reflected(function: Any) -> Any:
    def operator(y: Tensor, x: Any) -> Tensor:
        return function(x, y)

    operator.__name__ = f"r{function.__name__}"
    operator.__doc__ = f"{function.__name__} with its operands swapped."
    return operator


def _to(x: Tensor, dtype: Any) -> Tensor:
    """x in another element type: float32, float64, int64 or bool."""
    return cast(x, dtype)


def _float(x: Tensor) -> Tensor:
    """x as float32."""
    return cast(x, float32)


def _double(x: Tensor) -> Tensor:
    """x as float64."""
    return cast(x, float64)


def _long(x: Tensor) -> Tensor:
    """x as int64; fractions are cut off."""
    return cast(x, int64)


def _bool(x: Tensor) -> Tensor:
    """Where x is not 0."""
    return cast(x, bool_)


def _transposed(x: Tensor) -> Tensor:
    """x with its axes in reverse order."""
    return shape.permute(x, tuple(reversed(range(x.data.ndim))))


def _expand_as(x: Tensor, other: Tensor) -> Tensor:
    """x broadcast to the shape of ``other``."""
    return broadcasting.expand(x, other.data.shape)


FAMILIES = (
    broadcasting,
    comparison,
    elementwise,
    extremes,
    matmul,
    norms,
    order,
    reduction,
    scan,
    shape,
    softmax,
    statistics,
)

METHODS: dict[str, Any] = {
    "__add__": elementwise.add,
    "__radd__": _reflected(elementwise.add),
    "__sub__": elementwise.sub,
    "__rsub__": _reflected(elementwise.sub),
    "__mul__": elementwise.mul,
    "__rmul__": _reflected(elementwise.mul),
    "__truediv__": elementwise.div,
    "__rtruediv__": _reflected(elementwise.div),
    "__neg__": elementwise.neg,
    "__pow__": elementwise.pow,
    "__matmul__": matmul.matmul,
    "__getitem__": shape.getitem,
    "__iter__": shape.iterate,
    "__eq__": comparison.eq,
    "__ne__": comparison.ne,
    "__lt__": comparison.lt,
    "__le__": comparison.le,
    "__gt__": comparison.gt,
    "__ge__": comparison.ge,
    "view": shape.reshape,
    "expand_as": _expand_as,
    "bincount": search.bincount,
    "histc": search.histc,
    "to": _to,
    "float": _float,
    "double": _double,
    "long": _long,
    "bool": _bool,
    "T": property(_transposed),
}
METHODS.update(inplace.METHODS)
METHODS.update((name, getattr(family, name)) for family in FAMILIES for name in family.__all__)

for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)
