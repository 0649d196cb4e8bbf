"""Gives Tensor its operators and methods: each is a function of this package under PyTorch's method name.

Every public function of a family of ``FAMILIES`` is a method; what has another name or form as a method stands below.
"""

from __future__ import annotations

from typing import Any

from ..absent import attach_to_class
from ..engine.tensor import Tensor
from ..formulas import PRIMITIVES
from . import (
    assignment,
    broadcasting,
    comparison,
    creation,
    diagonal,
    elementwise,
    extremes,
    gather,
    indexing,
    inplace,
    matmul,
    norms,
    order,
    piecewise,
    pointwise,
    powers,
    products,
    randomize,
    rearrange,
    reduction,
    rounding,
    scan,
    search,
    selection,
    shape,
    softmax,
    splitting,
    statistics,
    transcendental,
    trigonometry,
    windows,
)
from .dtype import bool_, cast, float32, float64, int64, is_number


def _reflected(function: Any) -> Any:
    def operator(y: Tensor, x: Any) -> Tensor:
        return function(x, y)

    operator.__name__ = f"r{function.__name__}"
    operator.__doc__ = f"{function.__name__} with its operands swapped."
    return operator


def _comparison(function: Any) -> Any:
    def operator(x: Tensor, other: Any) -> Any:
        # anything else: Python tries the reflected comparison, and "x == None" is False
        return function(x, other) if isinstance(other, Tensor) or is_number(other) else NotImplemented

    operator.__name__ = f"__{function.__name__}__"
    operator.__doc__ = function.__doc__
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
    return shape.permute(x, tuple(reversed(range(x.array.ndim))))


def _matrices_transposed(x: Tensor) -> Tensor:
    """x with its last two axes swapped."""
    return shape.transpose(x, -2, -1)


def _where(x: Tensor, condition: Tensor, other: Any) -> Tensor:
    """x where the condition holds, other elsewhere."""
    return piecewise.where(condition, x, other)


FAMILIES = (
    broadcasting,
    comparison,
    diagonal,
    elementwise,
    gather,
    indexing,
    matmul,
    piecewise,
    powers,
    products,
    rearrange,
    reduction,
    rounding,
    selection,
    shape,
    softmax,
    splitting,
    transcendental,
    trigonometry,
    extremes,
    norms,
    order,
    scan,
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
    "__pow__": powers.pow,
    "__rpow__": _reflected(powers.pow),
    "__mod__": rounding.remainder,
    "__rmod__": _reflected(rounding.remainder),
    "__floordiv__": rounding.floor_divide,
    "__rfloordiv__": _reflected(rounding.floor_divide),
    "__abs__": rounding.abs,
    "__pos__": elementwise.positive,
    "__invert__": comparison.bitwise_not,
    "__and__": comparison.bitwise_and,
    "__rand__": _reflected(comparison.bitwise_and),
    "__or__": comparison.bitwise_or,
    "__ror__": _reflected(comparison.bitwise_or),
    "__xor__": comparison.bitwise_xor,
    "__rxor__": _reflected(comparison.bitwise_xor),
    "__matmul__": matmul.matmul,
    "__getitem__": indexing.getitem,
    "__iter__": indexing.iterate,
    "__eq__": _comparison(comparison.eq),
    "__ne__": _comparison(comparison.ne),
    "__lt__": _comparison(comparison.lt),
    "__le__": _comparison(comparison.le),
    "__gt__": _comparison(comparison.gt),
    "__ge__": _comparison(comparison.ge),
    "view": shape.reshape,
    "unfold": windows.sliding,
    "bincount": search.bincount,
    "histc": search.histc,
    "to": _to,
    "float": _float,
    "double": _double,
    "long": _long,
    "bool": _bool,
    "T": property(_transposed),
    "mT": property(_matrices_transposed),
}
METHODS.update(inplace.METHODS)
METHODS.update(assignment.METHODS)
METHODS.update(randomize.METHODS)
METHODS.update((name, getattr(family, name)) for family in FAMILIES for name in family.__all__)
METHODS["where"] = _where  # as a function, it begins with the condition

for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)


def _normal_cdf(x: Tensor) -> Tensor:
    """(1 + erf(x / sqrt(2))) / 2"""
    return transcendental.erf(x * 0.5**0.5) * 0.5 + 0.5


# what the primitives of formulas mean on Tensors
pointwise.on_tensors.update({name: METHODS[name] for name in PRIMITIVES if name in METHODS})
pointwise.on_tensors.update(where=piecewise.where, exp_negative=transcendental.exp, normal_cdf=_normal_cdf)
pointwise.on_tensors.update(full_like=creation.full_like)
Tensor.__primitive__ = staticmethod(pointwise.apply_primitive)  # type: ignore[attr-defined]
attach_to_class(Tensor, "torch.Tensor")
