"""Trigonometric and hyperbolic functions and their inverses."""

from __future__ import annotations

from .pointwise import operator, operator_of_two

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


sin = operator("sin", "The sine of input, an angle in radians.")
cos = operator("cos", "The cosine of input, an angle in radians.")
tan = operator("tan", "The tangent of input, an angle in radians.", (-0.9, 0.9))
asin = operator("asin", "The angle from -pi/2 to pi/2 whose sine is input; NaN beyond -1 and 1.", (-0.9, 0.9))
acos = operator("acos", "The angle from 0 to pi whose cosine is input; NaN beyond -1 and 1.", (-0.9, 0.9))
atan = operator("atan", "The angle from -pi/2 to pi/2 whose tangent is input.")
sinh = operator("sinh", "(exp(input) - exp(-input)) / 2")
cosh = operator("cosh", "(exp(input) + exp(-input)) / 2")
tanh = operator("tanh", "The hyperbolic tangent of input.")
asinh = operator("asinh", "log(input + sqrt(input**2 + 1)), the inverse of sinh.")
acosh = operator("acosh", "log(input + sqrt(input**2 - 1)), the inverse of cosh; NaN below 1.", (1.5, 3.0))
atanh = operator("atanh", "log((1 + input) / (1 - input)) / 2, the inverse of tanh; NaN beyond -1 and 1.", (-0.9, 0.9))


atan2 = operator_of_two(
    "atan2",
    "The angle from -pi to pi of the point with abscissa ``other`` and ordinate ``input``; shapes broadcast.",
    ((-2.0, 2.0), (0.5, 2.0)),
)

arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
arcsinh, arccosh, arctanh = asinh, acosh, atanh
