"""Exponentials and logarithms, the sigmoid and the error function."""

from __future__ import annotations

import math

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..arguments.checks import as_float, as_real
from .operands import Binary, binary
from .pointwise import Pointwise

__all__ = [
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logaddexp2",
    "logit",
    "sigmoid",
    "sinc",
    "xlogy",
]


class Exp(Pointwise, formula="exp"):
    """e**x"""


@operator(records=Exp, domains=((-2.0, 2.0),), methods="exp", in_place=True, numpy="exp", dtypes="bif")
def exp(input: Tensor) -> Tensor:
    """e**input"""
    if interpreters and (seen := interpreted(exp, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Exp.apply(input)
    return Exp.apply(as_float("exp", input))


class Exp2(Pointwise, formula="exp2"):
    """2**x"""


@operator(records=Exp2, domains=((-2.0, 2.0),), methods="exp2", in_place=True, numpy="exp2", dtypes="bif")
def exp2(input: Tensor) -> Tensor:
    """2**input"""
    if interpreters and (seen := interpreted(exp2, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Exp2.apply(input)
    return Exp2.apply(as_float("exp2", input))


class Expm1(Pointwise, formula="expm1"):
    """e**x - 1, accurate near 0"""


@operator(records=Expm1, domains=((-2.0, 2.0),), methods="expm1", in_place=True, numpy="expm1", dtypes="bif")
def expm1(input: Tensor) -> Tensor:
    """e**input - 1, accurate for small input"""
    if interpreters and (seen := interpreted(expm1, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Expm1.apply(input)
    return Expm1.apply(as_float("expm1", input))


class Log(Pointwise, formula="log"):
    """The natural logarithm: -inf at 0, NaN below."""


@operator(records=Log, domains=((0.5, 2.0),), methods="log", in_place=True, numpy="log", dtypes="bif")
def log(input: Tensor) -> Tensor:
    """The natural logarithm of input: -inf at 0, NaN below."""
    if interpreters and (seen := interpreted(log, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Log.apply(input)
    return Log.apply(as_float("log", input))


class Log2(Pointwise, formula="log2"):
    """The logarithm to the base 2."""


@operator(records=Log2, domains=((0.5, 2.0),), methods="log2", in_place=True, numpy="log2", dtypes="bif")
def log2(input: Tensor) -> Tensor:
    """The logarithm of input to the base 2: -inf at 0, NaN below."""
    if interpreters and (seen := interpreted(log2, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Log2.apply(input)
    return Log2.apply(as_float("log2", input))


class Log10(Pointwise, formula="log10"):
    """The logarithm to the base 10."""


@operator(records=Log10, domains=((0.5, 2.0),), methods="log10", in_place=True, numpy="log10", dtypes="bif")
def log10(input: Tensor) -> Tensor:
    """The logarithm of input to the base 10: -inf at 0, NaN below."""
    if interpreters and (seen := interpreted(log10, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Log10.apply(input)
    return Log10.apply(as_float("log10", input))


class Log1p(Pointwise, formula="log1p"):
    """log(1 + x), accurate near 0"""


@operator(records=Log1p, domains=((0.5, 2.0),), methods="log1p", in_place=True, numpy="log1p", dtypes="bif")
def log1p(input: Tensor) -> Tensor:
    """log(1 + input), accurate for small input"""
    if interpreters and (seen := interpreted(log1p, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Log1p.apply(input)
    return Log1p.apply(as_float("log1p", input))


class Sigmoid(Pointwise, formula="sigmoid"):
    """1 / (1 + exp(-x)), which for negative x is exp(x) / (1 + exp(x))"""


@operator(records=Sigmoid, domains=((-2.0, 2.0),), methods="sigmoid", in_place=True, dtypes="bif")
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input))"""
    if interpreters and (seen := interpreted(sigmoid, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Sigmoid.apply(input)
    return Sigmoid.apply(as_float("sigmoid", input))


class Sinc(Pointwise, formula="sinc"):
    """sin(pi x) / (pi x), and 1 at 0"""


@operator(records=Sinc, domains=((-2.0, 2.0),), methods="sinc", in_place=True, dtypes="bif")
def sinc(input: Tensor) -> Tensor:
    """sin(pi input) / (pi input), and 1 at 0"""
    if interpreters and (seen := interpreted(sinc, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Sinc.apply(input)
    return Sinc.apply(as_float("sinc", input))


class Erf(Pointwise, formula="erf"):
    """The error function: 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""


@operator(records=Erf, domains=((-2.0, 2.0),), methods="erf", in_place=True, dtypes="bif")
def erf(input: Tensor) -> Tensor:
    """The error function of input, from -1 to 1."""
    if interpreters and (seen := interpreted(erf, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Erf.apply(input)
    return Erf.apply(as_float("erf", input))


class Erfc(Pointwise, formula="erfc"):
    """1 - erf(x), accurate for large x"""


@operator(records=Erfc, domains=((-2.0, 2.0),), methods="erfc", in_place=True, dtypes="bif")
def erfc(input: Tensor) -> Tensor:
    """1 - erf(input), accurate for large input"""
    if interpreters and (seen := interpreted(erfc, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Erfc.apply(input)
    return Erfc.apply(as_float("erfc", input))


class Logit(Pointwise, formula="logit"):
    """log(z / (1 - z)) with z = x clamped to [low, high]"""


class Logaddexp(Pointwise, Binary, formula="logaddexp"):
    """log(exp(x) + exp(y)), without overflow"""

    integers = False


@operator(records=Logaddexp, domains=((-2.0, 2.0), (-2.0, 2.0)), methods="logaddexp", numpy="logaddexp", dtypes="hf")
def logaddexp(input: Tensor | float, other: Tensor | float) -> Tensor:
    """log(exp(input) + exp(other)) without overflow; shapes broadcast, and one operand must be floating-point.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: neither operand is floating-point, or one is neither a Tensor nor a number.
    """
    if interpreters and (seen := interpreted(logaddexp, locals())) is not None:
        return seen
    return binary(Logaddexp, "logaddexp", input, other)


class Logaddexp2(Pointwise, Binary, formula="logaddexp2"):
    """log2(2**x + 2**y), without overflow"""

    integers = False


@operator(
    records=Logaddexp2,
    domains=((-2.0, 2.0), (-2.0, 2.0)),
    methods="logaddexp2",
    in_place=True,
    numpy="logaddexp2",
    dtypes="hf",
)
def logaddexp2(input: Tensor | float, other: Tensor | float) -> Tensor:
    """log2(2**input + 2**other) without overflow; shapes broadcast, and one operand must be floating-point.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: neither operand is floating-point, or one is neither a Tensor nor a number.
    """
    if interpreters and (seen := interpreted(logaddexp2, locals())) is not None:
        return seen
    return binary(Logaddexp2, "logaddexp2", input, other)


class Xlogy(Pointwise, Binary, formula="xlogy"):
    """x log(y), and 0 where x is 0 and y is not NaN"""


@operator(records=Xlogy, domains=((-2.0, 2.0), (0.5, 2.0)), methods="xlogy", in_place=True, dtypes="bihf")
def xlogy(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input * log(other), and 0 where input is 0 and other is not NaN; shapes broadcast."""
    if interpreters and (seen := interpreted(xlogy, locals())) is not None:
        return seen
    return binary(Xlogy, "xlogy", input, other)


@operator(records=Logit, methods="logit", in_place=True, dtypes="bif")
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(z / (1 - z)), the inverse of the sigmoid, with z = input clamped to [eps, 1 - eps] if eps is given.

    Without eps: -inf at 0, inf at 1, NaN outside.

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(logit, locals())) is not None:
        return seen
    input = as_float("logit", input)
    low = -math.inf if eps is None else as_real("logit", "eps", eps)
    high = math.inf if eps is None else 1.0 - low
    return Logit.apply(input, low, high)
