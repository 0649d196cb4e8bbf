"""Trigonometric and hyperbolic functions and their inverses."""

from __future__ import annotations

from typing import Final

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..argument_checks import as_float
from .pointwise import Binary, Pointwise, binary

__all__ = [
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "sin",
    "sinh",
    "tan",
    "tanh",
]


class Sin(Pointwise, formula="sin"):
    """The sine of x."""


@operator(records=Sin, domains=((-2.0, 2.0),), methods="sin", in_place=True, numpy="sin", dtypes="bif")
def sin(input: Tensor) -> Tensor:
    """The sine of input, an angle in radians."""
    if interpreters and (seen := interpreted(sin, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Sin.apply(input)
    return Sin.apply(as_float("sin", input))


class Cos(Pointwise, formula="cos"):
    """The cosine of x."""


@operator(records=Cos, domains=((-2.0, 2.0),), methods="cos", in_place=True, numpy="cos", dtypes="bif")
def cos(input: Tensor) -> Tensor:
    """The cosine of input, an angle in radians."""
    if interpreters and (seen := interpreted(cos, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Cos.apply(input)
    return Cos.apply(as_float("cos", input))


class Tan(Pointwise, formula="tan"):
    """The tangent of x."""


@operator(records=Tan, domains=((-0.9, 0.9),), methods="tan", in_place=True, numpy="tan", dtypes="bif")
def tan(input: Tensor) -> Tensor:
    """The tangent of input, an angle in radians."""
    if interpreters and (seen := interpreted(tan, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Tan.apply(input)
    return Tan.apply(as_float("tan", input))


class Asin(Pointwise, formula="asin"):
    """The angle from -pi/2 to pi/2 whose sine is x; NaN outside [-1, 1]."""


@operator(records=Asin, domains=((-0.9, 0.9),), methods="asin arcsin", in_place=True, numpy="arcsin", dtypes="bif")
def asin(input: Tensor) -> Tensor:
    """The angle from -pi/2 to pi/2 whose sine is input; NaN outside [-1, 1]."""
    if interpreters and (seen := interpreted(asin, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Asin.apply(input)
    return Asin.apply(as_float("asin", input))


class Acos(Pointwise, formula="acos"):
    """The angle from 0 to pi whose cosine is x; NaN outside [-1, 1]."""


@operator(records=Acos, domains=((-0.9, 0.9),), methods="acos arccos", in_place=True, numpy="arccos", dtypes="bif")
def acos(input: Tensor) -> Tensor:
    """The angle from 0 to pi whose cosine is input; NaN outside [-1, 1]."""
    if interpreters and (seen := interpreted(acos, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Acos.apply(input)
    return Acos.apply(as_float("acos", input))


class Atan(Pointwise, formula="atan"):
    """The angle from -pi/2 to pi/2 whose tangent is x."""


@operator(records=Atan, domains=((-2.0, 2.0),), methods="atan arctan", in_place=True, numpy="arctan", dtypes="bif")
def atan(input: Tensor) -> Tensor:
    """The angle from -pi/2 to pi/2 whose tangent is input."""
    if interpreters and (seen := interpreted(atan, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Atan.apply(input)
    return Atan.apply(as_float("atan", input))


class Sinh(Pointwise, formula="sinh"):
    """(exp(x) - exp(-x)) / 2"""


@operator(records=Sinh, domains=((-2.0, 2.0),), methods="sinh", in_place=True, numpy="sinh", dtypes="bif")
def sinh(input: Tensor) -> Tensor:
    """(exp(input) - exp(-input)) / 2"""
    if interpreters and (seen := interpreted(sinh, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Sinh.apply(input)
    return Sinh.apply(as_float("sinh", input))


class Cosh(Pointwise, formula="cosh"):
    """(exp(x) + exp(-x)) / 2"""


@operator(records=Cosh, domains=((-2.0, 2.0),), methods="cosh", in_place=True, numpy="cosh", dtypes="bif")
def cosh(input: Tensor) -> Tensor:
    """(exp(input) + exp(-input)) / 2"""
    if interpreters and (seen := interpreted(cosh, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Cosh.apply(input)
    return Cosh.apply(as_float("cosh", input))


class Tanh(Pointwise, formula="tanh"):
    """(exp(x) - exp(-x)) / (exp(x) + exp(-x))"""


@operator(records=Tanh, domains=((-2.0, 2.0),), methods="tanh", in_place=True, numpy="tanh", dtypes="bif")
def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent of input."""
    if interpreters and (seen := interpreted(tanh, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Tanh.apply(input)
    return Tanh.apply(as_float("tanh", input))


class Asinh(Pointwise, formula="asinh"):
    """log(x + sqrt(x**2 + 1))"""


@operator(records=Asinh, domains=((-2.0, 2.0),), methods="asinh arcsinh", in_place=True, numpy="arcsinh", dtypes="bif")
def asinh(input: Tensor) -> Tensor:
    """log(input + sqrt(input**2 + 1)), the inverse of sinh."""
    if interpreters and (seen := interpreted(asinh, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Asinh.apply(input)
    return Asinh.apply(as_float("asinh", input))


class Acosh(Pointwise, formula="acosh"):
    """log(x + sqrt(x**2 - 1)); NaN below 1"""


@operator(records=Acosh, domains=((1.5, 3.0),), methods="acosh arccosh", in_place=True, numpy="arccosh", dtypes="bif")
def acosh(input: Tensor) -> Tensor:
    """log(input + sqrt(input**2 - 1)), the inverse of cosh; NaN below 1."""
    if interpreters and (seen := interpreted(acosh, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Acosh.apply(input)
    return Acosh.apply(as_float("acosh", input))


class Atanh(Pointwise, formula="atanh"):
    """log((1 + x) / (1 - x)) / 2; NaN outside [-1, 1]"""


@operator(records=Atanh, domains=((-0.9, 0.9),), methods="atanh arctanh", in_place=True, numpy="arctanh", dtypes="bif")
def atanh(input: Tensor) -> Tensor:
    """log((1 + input) / (1 - input)) / 2, the inverse of tanh; NaN outside [-1, 1]."""
    if interpreters and (seen := interpreted(atanh, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Atanh.apply(input)
    return Atanh.apply(as_float("atanh", input))


class Atan2(Pointwise, Binary, formula="atan2"):
    """The angle from -pi to pi of the point with abscissa y and ordinate x."""


@operator(
    records=Atan2,
    domains=((-2.0, 2.0), (0.5, 2.0)),
    methods="atan2 arctan2",
    in_place=True,
    numpy="arctan2",
    dtypes="bihf",
)
def atan2(input: Tensor | float, other: Tensor | float) -> Tensor:
    """The angle from -pi to pi of the point with abscissa ``other`` and ordinate ``input``; shapes broadcast."""
    if interpreters and (seen := interpreted(atan2, locals())) is not None:
        return seen
    return binary(Atan2, "atan2", input, other)


arcsin: Final = asin
arccos: Final = acos
arctan: Final = atan
arctan2: Final = atan2
arcsinh: Final = asinh
arccosh: Final = acosh
arctanh: Final = atanh
