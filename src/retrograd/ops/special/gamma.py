"""The gamma function's logarithm and its derivatives, and the incomplete gamma functions.

Source of the formulas: NIST Digital Library of Mathematical Functions, chapters 5, 8 and 25.
"""

from __future__ import annotations

import math
from typing import Any

from ...arrays import arange
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..arguments.checks import as_count, as_float, as_int, require_tensor
from ..dtypes.promotion import floats, promote
from ..shape.broadcasting import broadcast_shape, sum_to
from .made import Special, applied

__all__ = ["digamma", "igamma", "igammac", "lgamma", "mvlgamma"]


class LogGamma(Special):
    """log |gamma(x)|; inf at 0 and the negative integers"""

    kernel = "log_gamma"

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Any:
        return digamma(x)


class Polygamma(Special):
    """The derivative of order n of the digamma function."""

    kernel = "polygamma"

    @staticmethod
    def slope(x: Tensor, y: Tensor, n: int) -> Any:
        return polygamma(n + 1, x)


@operator(records=LogGamma, methods="lgamma", in_place=True, dtypes="bif")
def lgamma(input: Tensor) -> Tensor:
    """log |gamma(input)|; inf at 0 and the negative integers

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(lgamma, locals())) is not None:
        return seen
    return applied(LogGamma, "lgamma", input)


@operator(records=Polygamma, methods="digamma", in_place=True, dtypes="bif")
def digamma(input: Tensor) -> Tensor:
    """The derivative of ``lgamma``; NaN at the negative integers.

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(digamma, locals())) is not None:
        return seen
    return applied(Polygamma, "digamma", input, 0)


@operator(records=Polygamma, dtypes="bif")
def polygamma(n: int, input: Tensor) -> Tensor:
    """The derivative of order n of ``digamma``.

    For n from 1, it is inf at 0 and the negative integers if n is odd, and -inf if n is even.

    Raises:
        TypeError: input is not a Tensor, or n is not an int.
        ValueError: n is negative.
    """
    if interpreters and (seen := interpreted(polygamma, locals())) is not None:
        return seen
    n = as_int("polygamma", "n", n)
    if n < 0:
        raise ValueError(f"polygamma: n={n} must be at least 0")
    return applied(Polygamma, "polygamma", input, n)


@operator(methods="mvlgamma", in_place=True, dtypes="bif")
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The multivariate lgamma: p (p - 1) / 4 log(pi) + the sum over j < p of lgamma(input - j / 2)

    Raises:
        TypeError: input is not a Tensor, or p is not an int.
        ValueError: p is below 1.
    """
    if interpreters and (seen := interpreted(mvlgamma, locals())) is not None:
        return seen
    p = as_count("mvlgamma", "p", p, 1, 2**31)
    x = as_float("mvlgamma", input)
    shifts = wrap(kernels.scale(arange(p, dtype=x.array.dtype, like=x.array), -0.5))
    return lgamma(x.unsqueeze(-1) + shifts).sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


class GammaDensity(Function):
    """x**(a - 1) exp(-x) / gamma(a), the derivative of igamma to x; it has no gradient to a."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(a, x)
        return wrap(kernels.gamma_density(a.array, x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        a, x = ctx.saved_tensors
        return None, sum_to(g * GammaDensity.apply(a, x) * ((a - 1) / x - 1), x.array.shape)


class IncompleteGamma(Function):
    """The regularised lower, or upper, incomplete gamma function of a and x; it has no gradient to a."""

    gradient = "x: g x**(a - 1) exp(-x) / gamma(a), and its negative for the upper one"

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, upper: bool) -> Tensor:
        ctx.save_for_backward(a, x)
        ctx.upper = upper
        return wrap(kernels.igamma(a.array, x.array, upper))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        a, x = ctx.saved_tensors
        name = "igammac" if ctx.upper else "igamma"
        if ctx.needs_input_grad[0]:
            raise NotImplementedError(f"{name}: there is no gradient to input; use input.detach()")
        slope = GammaDensity.apply(a, x)
        return None, sum_to(g * (-slope if ctx.upper else slope), x.array.shape), None


@operator(records=IncompleteGamma, methods="igamma", in_place=True)
def igamma(input: Tensor, other: Tensor) -> Tensor:
    """The integral of t**(input - 1) exp(-t) from 0 to other, divided by gamma(input); shapes broadcast.

    It has a gradient to other.

    Raises:
        TypeError: neither operand is floating-point, or one is not a Tensor.
        ValueError: the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(igamma, locals())) is not None:
        return seen
    return _of_both("igamma", input, other, False)


@operator(records=IncompleteGamma, methods="igammac", in_place=True)
def igammac(input: Tensor, other: Tensor) -> Tensor:
    """1 - igamma(input, other), accurate where that is small; it has a gradient to other.

    Raises: as ``igamma``.
    """
    if interpreters and (seen := interpreted(igammac, locals())) is not None:
        return seen
    return _of_both("igammac", input, other, True)


class Zeta(Function):
    """The sum of (q + k)**-s over k from 0 on; the gradient to q is -s zeta(s + 1, q), and there is none to s."""

    gradient = "q: -g s zeta(s + 1, q)"

    @staticmethod
    def forward(ctx: Any, s: Tensor, q: Tensor) -> Tensor:
        ctx.save_for_backward(s, q)
        return wrap(kernels.zeta(s.array, q.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        s, q = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            raise NotImplementedError("zeta: there is no gradient to input; use input.detach()")
        return None, sum_to(g * -s * Zeta.apply(s + 1, q), q.array.shape)


@operator(records=Zeta, dtypes="bif")
def zeta(input: Tensor | float, other: Tensor | float) -> Tensor:
    """The Hurwitz zeta function, the sum of (other + k)**-input over k from 0 on; one operand may be a number.

    It is inf for input 1 and where other is 0 or a negative integer. It is NaN for input below 1, and where input is
    not an integer and other is negative, since a negative number has no real power there. It has a gradient to other.

    Raises:
        TypeError: an operand is neither a Tensor nor a number, or both are numbers.
        ValueError: the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(zeta, locals())) is not None:
        return seen
    x, q = promote("zeta", input, other)
    broadcast_shape("zeta", x.array.shape, q.array.shape)
    return Zeta.apply(as_float("zeta", x), as_float("zeta", q))


def _of_both(name: str, a: Tensor, x: Tensor, upper: bool) -> Tensor:
    require_tensor(name, a)
    require_tensor(name, x, "other")
    a, x = floats(name, input=a, other=x)
    broadcast_shape(name, a.array.shape, x.array.shape)
    return IncompleteGamma.apply(a, x, upper)
