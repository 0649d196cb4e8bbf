"""Exponentials and logarithms, the sigmoid and the error function."""

from __future__ import annotations

import math

from ...engine.tensor import Tensor
from ..arguments.checks import as_float, as_real
from .pointwise import operator, operator_of_two, pointwise

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


exp = operator("exp", "e**input")
exp2 = operator("exp2", "2**input")
expm1 = operator("expm1", "e**input - 1, accurate for small input")
log = operator("log", "The natural logarithm of input: -inf at 0, NaN below.", (0.5, 2.0))
log2 = operator("log2", "The logarithm of input to the base 2: -inf at 0, NaN below.", (0.5, 2.0))
log10 = operator("log10", "The logarithm of input to the base 10: -inf at 0, NaN below.", (0.5, 2.0))
log1p = operator("log1p", "log(1 + input), accurate for small input", (0.5, 2.0))
sigmoid = operator("sigmoid", "1 / (1 + exp(-input))")
sinc = operator("sinc", "sin(pi input) / (pi input), and 1 at 0")
erf = operator("erf", "The error function of input, from -1 to 1.")
erfc = operator("erfc", "1 - erf(input), accurate for large input")

Logit = pointwise("logit")
logaddexp = operator_of_two(
    "logaddexp",
    """log(exp(input) + exp(other)) without overflow; shapes broadcast, and one operand must be floating-point.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: neither operand is floating-point, or one is neither a Tensor nor a number.
    """,
    integers=False,
)
logaddexp2 = operator_of_two(
    "logaddexp2",
    """log2(2**input + 2**other) without overflow; shapes broadcast, and one operand must be floating-point.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: neither operand is floating-point, or one is neither a Tensor nor a number.
    """,
    integers=False,
)
xlogy = operator_of_two(
    "xlogy",
    "input * log(other), and 0 where input is 0 and other is not NaN; shapes broadcast.",
    ((-2.0, 2.0), (0.5, 2.0)),
)


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(z / (1 - z)), the inverse of the sigmoid, with z = input clamped to [eps, 1 - eps] if eps is given.

    Without eps: -inf at 0, inf at 1, NaN outside.

    Raises:
        TypeError: input is not a Tensor.
    """
    input = as_float("logit", input)
    low = -math.inf if eps is None else as_real("logit", "eps", eps)
    high = math.inf if eps is None else 1.0 - low
    return Logit.apply(input, low, high)
