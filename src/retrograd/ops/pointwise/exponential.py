"""Powers, roots, exponentials, logarithms, the sigmoid and the error function."""

from __future__ import annotations

import math

import numpy as np

from ...arrays import any_true, zeros
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..argument_checks import as_float, as_real, is_number
from ..dtypes.promotion import promote
from ..shape.broadcasting import broadcast_shape
from .pointwise import Binary, Pointwise, binary

__all__ = [
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "hypot",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logaddexp2",
    "logit",
    "pow",
    "reciprocal",
    "rsqrt",
    "sigmoid",
    "sinc",
    "sqrt",
    "square",
    "xlogy",
]


# ---- Powers and roots -----------------------------------------------------------------------------------------------


class Sqrt(Pointwise, formula="sqrt"):
    """The square root; NaN below 0."""


@operator(records=Sqrt, domains=((0.5, 2.0),), methods="sqrt", in_place=True, numpy="sqrt", dtypes="bif")
def sqrt(input: Tensor) -> Tensor:
    """The square root of input: NaN below 0."""
    if interpreters and (seen := interpreted(sqrt, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Sqrt.apply(input)
    return Sqrt.apply(as_float("sqrt", input))


class Rsqrt(Pointwise, formula="rsqrt"):
    """1 / sqrt(x)"""


@operator(records=Rsqrt, domains=((0.5, 2.0),), methods="rsqrt", in_place=True, dtypes="bif")
def rsqrt(input: Tensor) -> Tensor:
    """1 / sqrt(input)"""
    if interpreters and (seen := interpreted(rsqrt, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Rsqrt.apply(input)
    return Rsqrt.apply(as_float("rsqrt", input))


class Reciprocal(Pointwise, formula="reciprocal"):
    """1 / x"""


@operator(
    records=Reciprocal,
    domains=((0.5, 2.0),),
    methods="reciprocal",
    in_place=True,
    numpy="reciprocal",
    dtypes="bif",
)
def reciprocal(input: Tensor) -> Tensor:
    """1 / input"""
    if interpreters and (seen := interpreted(reciprocal, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Reciprocal.apply(input)
    return Reciprocal.apply(as_float("reciprocal", input))


class Pow(Pointwise, formula="power"):  # of a Tensor to a Python number
    """x**exponent"""


class PowOfNumber(Pointwise, formula="power_of_number"):
    """base**x for a positive base; the gradient uses its logarithm"""


class PowTensors(Pointwise, Binary, formula="pow"):
    """x**y; NaN for a negative x and a y that is not an integer"""

    exact = True


class Hypot(Pointwise, Binary, formula="hypot"):
    """sqrt(x**2 + y**2), without intermediate overflow"""

    integers = False


@operator(records=Hypot, domains=((0.5, 2.0), (0.5, 2.0)), methods="hypot", in_place=True, numpy="hypot", dtypes="hf")
def hypot(input: Tensor | float, other: Tensor | float) -> Tensor:
    """sqrt(input**2 + other**2) without intermediate overflow; see ``add``. One operand must be floating-point.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: neither operand is floating-point, or one is neither a Tensor nor a number.
    """
    if interpreters and (seen := interpreted(hypot, locals())) is not None:
        return seen
    return binary(Hypot, "hypot", input, other)


@operator(methods="square", in_place=True, numpy="square", dtypes="bihf")
def square(input: Tensor) -> Tensor:
    """input**2"""
    if interpreters and (seen := interpreted(square, locals())) is not None:
        return seen
    return pow(input, 2)


@operator(records=(Pow, PowOfNumber, PowTensors), methods="pow __pow__", in_place=True, numpy="power", dtypes="bihf")
def pow(input: Tensor | float, exponent: Tensor | float) -> Tensor:
    """input**exponent; either may be a number. The gradient with respect to input is 0 where the exponent is 0.

    Powers of integers are integers; 0**0 is 1; roots of negative numbers are NaN. With a Tensor of negative integers
    as exponent, the bases 1 and -1 give 1 or -1, and all other integers give 0.

    Raises:
        TypeError: an operand is neither a Tensor nor a number, or both are boolean.
        ValueError: the shapes do not broadcast, or integers are raised to a negative integer.
    """
    if interpreters and (seen := interpreted(pow, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.kind == "f" and is_number(exponent):
        return Pow.apply(input, as_real("pow", "exponent", exponent))
    if isinstance(exponent, Tensor) and exponent.array.dtype.kind == "f" and is_number(input) and input > 0:
        base = as_real("pow", "input", input)
        return PowOfNumber.apply(exponent, base, math.log(base))
    x, y = promote("pow", input, exponent, "exponent")
    if x.array.dtype.kind == "b":
        raise TypeError("pow: input and exponent are bool, needs numbers; convert one with .long()")
    if x.array.dtype.kind in "iu" and _any_negative(y.array):
        if not isinstance(exponent, Tensor):
            raise ValueError("pow: an integer has no negative integer power; convert input with input.float()")
        return _integer_powers(x, y)
    return binary(PowTensors, "pow", x, y)


def _integer_powers(x: Tensor, y: Tensor) -> Tensor:
    """x**y truncated to integers, also for y < 0: 1 / x**-y truncated, or 0 for x = 0."""
    broadcast_shape("pow", x.array.shape, y.array.shape)
    return wrap(kernels.integer_powers(x.array, y.array))


def _any_negative(y: np.ndarray) -> bool:
    return any_true(exact("lt")(y, zeros((), y.dtype, like=y)), "whether an exponent is negative")


# ---- Exponentials and logarithms, the sigmoid and the error function ------------------------------------------------


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
    """1 / (1 + exp(-x)), computed as exp(x) / (1 + exp(x)) for negative x"""


@operator(records=Sigmoid, domains=((-2.0, 2.0),), methods="sigmoid", in_place=True, dtypes="bif")
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input))"""
    if interpreters and (seen := interpreted(sigmoid, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Sigmoid.apply(input)
    return Sigmoid.apply(as_float("sigmoid", input))


class Sinc(Pointwise, formula="sinc"):
    """sin(pi x) / (pi x), or 1 at 0"""


@operator(records=Sinc, domains=((-2.0, 2.0),), methods="sinc", in_place=True, dtypes="bif")
def sinc(input: Tensor) -> Tensor:
    """sin(pi input) / (pi input), or 1 at 0"""
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
    """x log(y), or 0 where x is 0 and y is not NaN"""


@operator(records=Xlogy, domains=((-2.0, 2.0), (0.5, 2.0)), methods="xlogy", in_place=True, dtypes="bihf")
def xlogy(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input * log(other), or 0 where input is 0 and other is not NaN; shapes broadcast."""
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
