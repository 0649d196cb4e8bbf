"""Attaches operators and methods to Tensor, under PyTorch's names.

Every public function of the files in ``FAMILIES`` is a method; methods with another name or form are listed below.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..absent import attach_to_class
from ..engine.tensor import Tensor
from ..formulas import PRIMITIVES
from . import numpy_protocols, numpy_table
from .arguments.checks import is_number
from .arguments.older import with_numpy_names
from .creation import creation, made_like
from .dtypes import complex_numbers, conversion, queries
from .dtypes.promotion import as_operand
from .fourier import spectrogram
from .index import assignment, gather, indexing, order, quantiles, scattering, search, selection, sets
from .inplace import inplace, reshaped
from .linalg import aliases
from .memory import memory
from .normalization import softmax
from .pointwise import (
    comparison,
    elementwise,
    numbers,
    piecewise,
    pointwise,
    powers,
    rounding,
    transcendental,
    trigonometry,
)
from .product import matmul, products
from .random import randomized as randomize
from .random import sampling
from .reduce import correlation, extremes, norms, reduction, scan, statistics
from .shape import broadcasting, diagonal, rearrange, shape, splitting, strides, windows
from .sparse import coo
from .special import bessel, gamma
from .special import normal as probability


def _with_arrays(function: Any, of_arrays: Any = None) -> Any:
    """An operator of Python, whose second operand may be an array; functions take Tensors alone."""
    of_arrays = of_arrays or function

    @functools.wraps(function)
    def operator(input: Tensor, other: Any) -> Tensor:
        if type(other) is np.ndarray:
            return of_arrays(input, as_operand(other, (input,)))
        return function(input, other)

    return operator


def _reflected(function: Any) -> Any:
    def operator(y: Tensor, x: Any) -> Tensor:
        return function(x, y)

    operator.__name__ = f"r{function.__name__}"
    operator.__doc__ = f"{function.__name__} with its operands swapped."
    return operator


def _comparison(function: Any) -> Any:
    def operator(x: Tensor, other: Any) -> Any:
        # otherwise Python tries the reflected comparison; "x == None" is False
        if isinstance(other, np.ndarray):
            other = as_operand(other, ())
        return function(x, other) if isinstance(other, Tensor) or is_number(other) else NotImplemented

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
    return gamma.polygamma(n, x)


def _where(x: Tensor, condition: Tensor, other: Any) -> Tensor:
    """x where the condition holds, other elsewhere."""
    return piecewise.where(condition, x, other)


FAMILIES = (
    aliases,
    bessel,
    broadcasting,
    comparison,
    diagonal,
    elementwise,
    gamma,
    gather,
    indexing,
    matmul,
    numbers,
    piecewise,
    powers,
    probability,
    products,
    rearrange,
    reduction,
    rounding,
    selection,
    shape,
    softmax,
    spectrogram,
    splitting,
    strides,
    transcendental,
    trigonometry,
    correlation,
    extremes,
    norms,
    order,
    quantiles,
    scattering,
    scan,
    statistics,
)

# operators of two operands, and those with a number on the left
_BINARY = {
    "add": elementwise.add,
    "sub": elementwise.sub,
    "mul": elementwise.mul,
    "truediv": elementwise.div,
    "pow": powers.pow,
    "mod": rounding.remainder,
    "floordiv": rounding.floor_divide,
    "and": comparison.bitwise_and,
    "or": comparison.bitwise_or,
    "xor": comparison.bitwise_xor,
    "lshift": comparison.bitwise_left_shift,
    "rshift": comparison.bitwise_right_shift,
}
METHODS: dict[str, Any] = {
    "__neg__": elementwise.neg,
    "__abs__": rounding.abs,
    "__pos__": elementwise.positive,
    "__invert__": comparison.bitwise_not,
    "__matmul__": _with_arrays(matmul.matmul, numpy_table.product),
    "__getitem__": indexing.getitem,
    "__iter__": indexing.iterate,
    "unfold": windows.sliding,
    "bincount": search.bincount,
    "to_sparse": coo.to_sparse,
    "bernoulli": sampling.bernoulli,
    "histc": search.histc,
    "histogram": search.histogram,
    "multinomial": sampling.multinomial,
    "unique_consecutive": sets.unique_consecutive,
    "T": property(_transposed),
    "mT": property(_matrices_transposed),
}
for _name, _function in _BINARY.items():
    METHODS[f"__{_name}__"], METHODS[f"__r{_name}__"] = _with_arrays(_function), _reflected(_function)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    METHODS[f"__{_name}__"] = _comparison(getattr(comparison, _name))
METHODS.update(conversion.METHODS)
METHODS.update(queries.METHODS)
METHODS.update(inplace.METHODS)
METHODS.update(assignment.METHODS)
METHODS.update(randomize.METHODS)
METHODS.update((name, with_numpy_names(getattr(family, name))) for family in FAMILIES for name in family.__all__)
for _family in (memory, complex_numbers, made_like, reshaped):
    METHODS.update(_family.METHODS)
METHODS["polygamma"] = _polygamma
METHODS["where"] = _where  # as a function, it begins with the condition

METHODS.update(inplace.of_all(METHODS))
METHODS.update(numpy_protocols.METHODS)

for _name, _method in METHODS.items():
    if isinstance(_method, property):
        _method.__set_name__(Tensor, _name)  # type: ignore[attr-defined]  # for Python's messages
    setattr(Tensor, _name, _method)
numpy_protocols.fill_operators()


def _normal_cdf(x: Tensor) -> Tensor:
    """(1 + erf(x / sqrt(2))) / 2"""
    return transcendental.erf(x * 0.5**0.5) * 0.5 + 0.5


# the primitives of formulas on Tensors
pointwise.on_tensors.update({name: METHODS[name] for name in PRIMITIVES if name in METHODS})
pointwise.on_tensors.update(where=piecewise.where, exp_negative=transcendental.exp, normal_cdf=_normal_cdf)
pointwise.on_tensors.update(full_like=creation.full_like, nearest=rounding.round, trunc_divide=rounding.trunc_divide)
Tensor.__primitive__ = staticmethod(pointwise.apply_primitive)  # type: ignore[attr-defined]
attach_to_class(Tensor, "torch.Tensor")
