"""Attaches methods to Tensor: operators under their registered names, and methods that are not operators.

An operator with a Python symbol (``methods="add __add__"``) also gets the reflected form and ``x += y``.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from ..engine.operator import OPERATORS, Operator
from ..engine.tensor import Tensor
from ..formulas import PRIMITIVES
from ..torch_api.missing import attach_to_class
from . import creation, inplace, numpy_protocols, special, storage, typed_constructors  # noqa: F401  registers its methods
from .argument_checks import is_number
from .direct import calls_direct, direct_of
from .dtypes import complex_numbers, conversion, queries
from .dtypes.promotion import as_operand
from .index import indexing
from .inplace import in_place
from .pointwise import comparison, exponential, piecewise, pointwise, rounding
from .random import sampling  # noqa: F401
from .shape import shape, sliding_windows  # noqa: F401
from .signatures import with_numpy_names

# Python's binary operators -> the symbol of the in-place form
_IN_PLACE_SYMBOLS = {
    "__add__": "+=",
    "__sub__": "-=",
    "__mul__": "*=",
    "__truediv__": "/=",
    "__pow__": "**=",
    "__mod__": "%=",
    "__floordiv__": "//=",
    "__and__": "&=",
    "__or__": "|=",
    "__xor__": "^=",
    "__lshift__": "<<=",
    "__rshift__": ">>=",
}
_ARITHMETIC = ("add", "sub", "mul", "div")  # computed in place by a kernel if not recorded


def _arithmetic(name: str) -> str:
    return name if name in _ARITHMETIC else ""


def _with_arrays(function: Any, of_arrays: Any = None) -> Any:
    """Return the form of a function for a Python operator, whose second operand may also be an array."""
    of_arrays = of_arrays or function
    direct: Any = direct_of(function)

    @functools.wraps(function)
    def operator(input: Tensor, other: Any) -> Tensor:
        if direct is not None and (found := direct(input, other)) is not NotImplemented:
            return found
        if type(other) is np.ndarray:
            return of_arrays(input, as_operand(other, (input,)))
        return function(input, other)

    calls_direct(operator, direct)
    return operator


def _reflected(function: Any) -> Any:
    direct: Any = direct_of(function)

    def operator(y: Tensor, x: float | np.ndarray | np.number | np.bool_) -> Tensor:
        if direct is not None and (found := direct(x, y)) is not NotImplemented:
            return found
        return function(x, y)

    calls_direct(operator, direct)
    operator.__name__ = f"r{function.__name__}"
    operator.__doc__ = f"``{function.__name__}`` with its operands swapped."
    return operator


def _comparison(function: Any) -> Any:
    direct: Any = direct_of(function)

    def operator(x: Tensor, other: Any) -> Any:
        if direct is not None and (found := direct(x, other)) is not NotImplemented:
            return found
        # otherwise Python tries the reflected comparison; "x == None" is False
        if isinstance(other, np.ndarray):
            other = as_operand(other, ())
        return function(x, other) if isinstance(other, Tensor) or is_number(other) else NotImplemented

    calls_direct(operator, direct)
    operator.__name__ = f"__{function.__name__}__"
    operator.__doc__ = function.__doc__
    return operator


def _transposed(x: Tensor) -> Tensor:
    """x with its axes in reverse order."""
    return shape.permute(x, tuple(reversed(range(x.array.ndim))))


def _matrices_transposed(x: Tensor) -> Tensor:
    """x with its last two axes swapped."""
    return shape.transpose(x, -2, -1)


def _polygamma(x: Tensor, n: int) -> Tensor:
    """The derivative of order n of ``digamma``."""
    return special.polygamma(n, x)


def _where(x: Tensor, condition: Tensor, other: Any) -> Tensor:
    """x where the condition is True, other elsewhere."""
    return piecewise.where(condition, x, other)


def _methods_of(operator: Operator) -> dict[str, Any]:
    """Return the methods of an operator by name."""
    found: dict[str, Any] = {}
    function = operator.function
    for name in operator.methods:
        symbol = _IN_PLACE_SYMBOLS.get(name)
        if symbol is not None:
            found[name], found[f"__r{name[2:]}"] = _with_arrays(function), _reflected(function)
            found[f"__i{name[2:]}"] = in_place(function, symbol, _arithmetic(operator.name))
        elif name == "__matmul__":
            found[name] = _with_arrays(function, numpy_protocols.product)
        else:
            found[name] = with_numpy_names(function)
            if operator.in_place and not name.startswith("__"):
                found[f"{name}_"] = in_place(found[name], f"{name}_", _arithmetic(operator.name))
    return found


METHODS: dict[str, Any] = {}
for _operator in OPERATORS:
    METHODS.update(_methods_of(_operator))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    METHODS[f"__{_name}__"] = _comparison(getattr(comparison, _name))
for _module in (indexing, complex_numbers, conversion, storage, queries, inplace, numpy_protocols):
    METHODS.update(_module.METHODS)
METHODS["T"], METHODS["mT"] = property(_transposed), property(_matrices_transposed)
METHODS["polygamma"], METHODS["polygamma_"] = _polygamma, in_place(_polygamma, "polygamma_")
METHODS["where"] = _where  # as a function, its first parameter is the condition
METHODS["conj_physical_"] = in_place(METHODS["conj_physical"], "conj_physical_")

for _name, _method in METHODS.items():
    if isinstance(_method, property):
        _method.__set_name__(Tensor, _name)  # type: ignore[attr-defined]  # for Python's messages
    elif getattr(sys.modules[_method.__module__], _method.__qualname__, None) is not _method:  # where pickle looks
        _method.__module__, _method.__qualname__ = Tensor.__module__, f"{Tensor.__qualname__}.{_name}"
    setattr(Tensor, _name, _method)
numpy_protocols.fill_operators()


def _normal_cdf(x: Tensor) -> Tensor:
    """(1 + erf(x / sqrt(2))) / 2"""
    return exponential.erf(x * 0.5**0.5) * 0.5 + 0.5


# the primitives of formulas, evaluated on Tensors
pointwise.on_tensors.update({name: METHODS[name] for name in PRIMITIVES if name in METHODS})
pointwise.on_tensors.update(where=piecewise.where, exp_negative=exponential.exp, normal_cdf=_normal_cdf)
pointwise.on_tensors.update(full_like=creation.full_like, nearest=rounding.round, trunc_divide=rounding.trunc_divide)
Tensor.__primitive__ = staticmethod(pointwise.apply_primitive)  # type: ignore[attr-defined]
attach_to_class(Tensor, "torch.Tensor")
