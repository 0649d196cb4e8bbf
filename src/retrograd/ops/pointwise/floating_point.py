"""Signs, mantissas and exponents, adjacent floating-point numbers, gcd and lcm, degrees and radians."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...arrays import from_host, ones, zeros
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..argument_checks import as_float, require_float
from ..dtypes.dtype import cast, float64
from ..dtypes.promotion import floats, promote, promote_to_float
from ..shape.broadcasting import broadcast_shape, sum_to
from .exponential import pow
from .piecewise import where
from .pointwise import Binary, Pointwise, binary

__all__ = [
    "copysign",
    "deg2rad",
    "float_power",
    "frexp",
    "gcd",
    "heaviside",
    "lcm",
    "ldexp",
    "nextafter",
    "rad2deg",
]


class MantissaAndExponent(NamedTuple):
    """The result of ``frexp``: input = mantissa * 2**exponent."""

    mantissa: Tensor
    exponent: Tensor


class Frexp(Function):
    """x / 2**exponent with an absolute value from 1/2 to 1, and the exponent (int32)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        mantissa, exponent = kernels.frexp(x.array)
        ctx.exponent = exponent
        found = wrap(kernels.reshaped(exponent, exponent.shape))
        ctx.mark_non_differentiable(found)
        return wrap(mantissa), found

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Any) -> Tensor:
        one = ones((), g.array.dtype, like=g.array)
        return g * wrap(kernels.ldexp(one, exact("neg")(ctx.exponent)))


class NextAfter(Function):
    """The number next to x toward y. It is x up to rounding, so the gradient is g for x and 0 for y."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.shapes = x.array.shape, y.array.shape
        return wrap(kernels.nextafter(x.array, y.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        of_x, of_y = ctx.shapes
        return sum_to(g, of_x), wrap(zeros(of_y, g.array.dtype, like=g.array)) if ctx.needs_input_grad[1] else None


class Copysign(Pointwise, Binary, formula="copysign"):
    """|x| with the sign of y, including that of -0.0"""


@operator(
    records=Copysign,
    domains=((0.5, 2.0), (-2.0, -0.5)),
    methods="copysign",
    in_place=True,
    numpy="copysign",
    dtypes="bihf",
)
def copysign(input: Tensor | float, other: Tensor | float) -> Tensor:
    """|input| with the sign of other; -0.0 counts as negative and NaN as positive. Shapes broadcast."""
    if interpreters and (seen := interpreted(copysign, locals())) is not None:
        return seen
    return binary(Copysign, "copysign", input, other)


@operator(methods="deg2rad", in_place=True, numpy="deg2rad radians", dtypes="bif")
def deg2rad(input: Tensor) -> Tensor:
    """input * pi / 180

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(deg2rad, locals())) is not None:
        return seen
    return as_float("deg2rad", input) * (math.pi / 180)


@operator(methods="rad2deg", in_place=True, numpy="rad2deg degrees", dtypes="bif")
def rad2deg(input: Tensor) -> Tensor:
    """input * 180 / pi

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(rad2deg, locals())) is not None:
        return seen
    return as_float("rad2deg", input) * (180 / math.pi)


@operator(methods="float_power", in_place=True, numpy="float_power", dtypes="bihf")
def float_power(input: Tensor | float, exponent: Tensor | float) -> Tensor:
    """``pow`` in float64: input**exponent; either may be a number.

    Raises: as ``pow``.
    """
    if interpreters and (seen := interpreted(float_power, locals())) is not None:
        return seen
    promote("float_power", input, exponent, "exponent")  # checks the operands
    x, y = (cast(v, float64) if isinstance(v, Tensor) else wrap(from_host(v, float64)) for v in (input, exponent))
    broadcast_shape("float_power", x.array.shape, y.array.shape)
    return pow(x, y)


@operator(methods="ldexp", in_place=True, numpy="ldexp", dtypes="bif")
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input * 2**other; shapes broadcast, integers become floating-point.

    Raises:
        TypeError: an operand is neither a Tensor nor a number.
        ValueError: the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(ldexp, locals())) is not None:
        return seen
    x, y = promote_to_float("ldexp", input, other)
    broadcast_shape("ldexp", x.array.shape, y.array.shape)
    most = 3 * (np.finfo(x.array.dtype).maxexp - 2)  # takes the smallest number to inf, and the largest to 0
    y = y.clamp(-most, most)
    third = (y.detach() / 3).trunc()  # of three factors, none overflows where the result does not
    return x * third.exp2() * third.exp2() * (y - 2 * third).exp2()


@operator(records=Frexp, methods="frexp")
def frexp(input: Tensor) -> MantissaAndExponent:
    """(mantissa, exponent): input = mantissa * 2**exponent with |mantissa| from 1/2 to 1, or 0; exponents are int32.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """
    if interpreters and (seen := interpreted(frexp, locals())) is not None:
        return seen
    require_float("frexp", input)
    return MantissaAndExponent(*Frexp.apply(input))


@operator(methods="gcd", in_place=True, numpy="gcd", dtypes="i")
def gcd(input: Tensor, other: Tensor | int) -> Tensor:
    """The greatest common divisors of integers, at least 0; shapes broadcast.

    Raises:
        TypeError: an operand does not contain integers.
        ValueError: the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(gcd, locals())) is not None:
        return seen
    return _of_integers("gcd", kernels.gcd, input, other)


@operator(methods="lcm", in_place=True, numpy="lcm", dtypes="i")
def lcm(input: Tensor, other: Tensor | int) -> Tensor:
    """The least common multiples of integers, at least 0; shapes broadcast.

    Raises:
        TypeError: an operand does not contain integers.
        ValueError: the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(lcm, locals())) is not None:
        return seen
    return _of_integers("lcm", kernels.lcm, input, other)


@operator(methods="heaviside", in_place=True, numpy="heaviside", dtypes="bihf")
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """1 where input is above 0, ``values`` where it is 0, 0 elsewhere. Shapes broadcast; input gets no gradient.

    Raises:
        TypeError: an operand is not a Tensor, or the types differ.
        ValueError: the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(heaviside, locals())) is not None:
        return seen
    for label, value in (("input", input), ("values", values)):
        if not isinstance(value, Tensor) or value.array.dtype != getattr(input, "dtype", None):
            raise TypeError(
                f"heaviside: {label} is {getattr(value, 'dtype', type(value).__name__)}; both must be "
                "Tensors of one type"
            )
    broadcast_shape("heaviside", input.array.shape, values.array.shape)
    at_zero, step = kernels.unit_step(input.array)
    return where(wrap(at_zero), values, wrap(step))


@operator(records=NextAfter, methods="nextafter", in_place=True, numpy="nextafter")
def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The next floating-point number after input toward other; shapes broadcast.

    The result is input up to rounding, so input gets the whole gradient and other gets 0.

    Raises:
        TypeError: neither operand is floating-point, or one is not a Tensor.
        ValueError: the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(nextafter, locals())) is not None:
        return seen
    x, y = floats("nextafter", input=input, other=other)
    broadcast_shape("nextafter", x.array.shape, y.array.shape)
    return NextAfter.apply(x, y)


def _of_integers(name: str, function: Callable[..., Any], x: Any, y: Any) -> Tensor:
    a, b = promote(name, x, y)
    if a.array.dtype.kind not in "iu":
        raise TypeError(f"{name}: input and other promote to {a.array.dtype}, needs integers; convert with .long()")
    broadcast_shape(name, a.array.shape, b.array.shape)
    return wrap(function(a.array, b.array))
