"""Arithmetic formulas: sums, products, interpolation, remainders, roots, and powers."""

from __future__ import annotations

from .primitive import Operand, absolute, fmod, full_like, hypot, log, nearest, pow, primitive, sqrt, trunc, where
from .registry import formula, gradients, like, same_grad

# ---- Sums, products, quotients, remainders, interpolation; and their gradients --------------------------------------


@formula
def add(x: Operand, y: Operand) -> Operand:
    """x + y"""
    return x + y


@formula
def sub(x: Operand, y: Operand) -> Operand:
    """x - y"""
    return x - y


@formula
def mul(x: Operand, y: Operand) -> Operand:
    """x y"""
    return x * y


@formula
def div(x: Operand, y: Operand) -> Operand:
    """x / y"""
    return x / y


@formula
def neg(x: Operand) -> Operand:
    """-x"""
    return -x


@formula
def scale(x: Operand, factor: float) -> Operand:
    """factor x"""
    return x * factor


@like("neg")
def neg_grad(g: Operand) -> Operand:
    """-g"""
    return -g


@like("mul")
def mul_grad_x(g: Operand, y: Operand) -> Operand:
    """g y"""
    return g * y


@like("mul")
def mul_grad_y(g: Operand, x: Operand) -> Operand:
    """g x"""
    return g * x


@like("div")
def div_grad_x(g: Operand, y: Operand) -> Operand:
    """g / y"""
    return g / y


def div_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """-g x / y**2"""
    return -(g / y) * (x / y)


@like("scale")
def scale_grad(g: Operand, factor: float) -> Operand:
    """factor g"""
    return g * factor


gradients("add", same_grad, same_grad)
gradients("sub", same_grad, neg_grad)
gradients("mul", mul_grad_x, mul_grad_y)
gradients("div", div_grad_x, div_grad_y)
gradients("neg", neg_grad)
gradients("scale", scale_grad)


# ---------------------------------------------------------------------------------------------- ternary operations


@formula
def addcmul(x: Operand, y: Operand, z: Operand, value: float) -> Operand:
    """x + value y z"""
    return x + y * z * value


def addcmul_grad_y(g: Operand, z: Operand, value: float) -> Operand:
    """value g z"""
    return g * value * z


def addcmul_grad_z(g: Operand, y: Operand, value: float) -> Operand:
    """value g y"""
    return g * value * y


@formula
def addcdiv(x: Operand, y: Operand, z: Operand, value: float) -> Operand:
    """x + value y / z"""
    return x + y / z * value


def addcdiv_grad_y(g: Operand, z: Operand, value: float) -> Operand:
    """value g / z"""
    return g * value / z


def addcdiv_grad_z(g: Operand, y: Operand, z: Operand, value: float) -> Operand:
    """-value g y / z**2"""
    return -(g * value / z) * (y / z)


@formula
def lerp(x: Operand, y: Operand, weight: Operand) -> Operand:
    """x + weight (y - x), from the nearer end, so that weights of 0 and 1 give x and y themselves"""
    d = y - x
    return where(absolute(weight) < 0.5, x + d * weight, y - d * (1.0 - weight))


def lerp_grad_x(g: Operand, weight: Operand) -> Operand:
    """g (1 - weight)"""
    return g * (1.0 - weight)


def lerp_grad_y(g: Operand, weight: Operand) -> Operand:
    """g weight"""
    return g * weight


def lerp_grad_weight(g: Operand, x: Operand, y: Operand) -> Operand:
    """g (y - x)"""
    return g * (y - x)


@formula
def lerp_number(x: Operand, y: Operand, weight: float) -> Operand:
    """``lerp`` with a scalar weight"""
    return lerp(x, y, full_like(x, weight))


def lerp_number_grad_x(g: Operand, weight: float) -> Operand:
    """g (1 - weight)"""
    return g * (1.0 - weight)


def lerp_number_grad_y(g: Operand, weight: float) -> Operand:
    """g weight"""
    return g * weight


gradients("addcmul", same_grad, addcmul_grad_y, addcmul_grad_z)
gradients("addcdiv", same_grad, addcdiv_grad_y, addcdiv_grad_z)
gradients("lerp", lerp_grad_x, lerp_grad_y, lerp_grad_weight)
gradients("lerp_number", lerp_number_grad_x, lerp_number_grad_y)


# ----------------------------------------------------------------------------------------- division with a remainder


@formula
def remainder(x: Operand, y: Operand) -> Operand:
    """x - y floor(x / y), exactly: the remainder with the sign of y"""
    r = fmod(x, y)
    return where(where(y < 0.0, -r, r) < 0.0, r + y, r)


@primitive
def floor_divide(x: Operand, y: Operand) -> Operand:
    """floor(x / y) for the exact quotient; x / y where y is 0"""
    quotient, r = x / y, fmod(x, y)
    z = nearest((x - r) / y)  # trunc(x / y); one less where it is negative and inexact
    z = where(where(y < 0.0, -r, r) < 0.0, z - 1.0, z)
    return where(y == 0.0, quotient, where(z == 0.0, quotient * 0.0, z))  # a zero has the quotient's sign


@primitive
def trunc_divide(x: Operand, y: Operand) -> Operand:
    """trunc(x / y)"""
    return trunc(x / y)


def fmod_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """-g trunc(x / y)"""
    return -g * trunc_divide(x, y)


def remainder_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """-g floor(x / y)"""
    return -g * floor_divide(x, y)


@formula
def constant_grad(g: Operand) -> Operand:
    """0: the gradient of a step function"""
    return full_like(g, 0.0)


gradients("fmod", same_grad, fmod_grad_y)
gradients("remainder", same_grad, remainder_grad_y)
gradients("floor_divide", constant_grad, constant_grad)
gradients("trunc_divide", constant_grad, constant_grad)
for _name in ("ceil", "floor", "nearest", "round", "round_places", "round_tens", "sign", "trunc"):
    gradients(_name, constant_grad)


# ---- Powers and roots, and their gradients --------------------------------------------------------------------------


@formula
def sqrt_grad(g: Operand, y: Operand) -> Operand:
    """g / (2 y) with y = sqrt(x)"""
    return g / y * 0.5


@formula
def rsqrt(x: Operand) -> Operand:
    """1 / sqrt(x)"""
    return 1.0 / sqrt(x)


@formula
def rsqrt_grad(g: Operand, y: Operand) -> Operand:
    """-g y**3 / 2 with y = rsqrt(x)"""
    return g * y * (y * y * -0.5)


@formula
def reciprocal(x: Operand) -> Operand:
    """1 / x"""
    return 1.0 / x


@formula
def reciprocal_grad(g: Operand, y: Operand) -> Operand:
    """-g y**2 with y = 1 / x"""
    return -g * y * y


@formula
def power(x: Operand, exponent: float) -> Operand:
    """x**exponent"""
    if exponent == 2.0:
        return x * x
    if exponent == 1.0:
        return x * 1.0
    if exponent == 0.5:
        return sqrt(x)
    if exponent == 3.0:
        return x * x * x
    if exponent == -1.0:
        return 1.0 / x
    return pow(x, exponent)


@formula
def power_grad(g: Operand, x: Operand, exponent: float) -> Operand:
    """g exponent x**(exponent - 1), 0 where the exponent is 0"""
    if exponent == 0.0:  # 0 / 0 would be NaN
        return full_like(g, 0.0)
    if exponent == 2.0:
        return g * (x * 2.0)
    return g * (pow(x, exponent - 1.0) * exponent)


@formula
def power_of_number(x: Operand, base: float, logarithm: float) -> Operand:
    """base**x for a positive base; ``logarithm`` is log(base), for the gradient"""
    return pow(full_like(x, base), x)


@formula
def power_of_number_grad(g: Operand, y: Operand, base: float, logarithm: float) -> Operand:
    """g y log(base) with y = base**x"""
    return g * y * logarithm


def pow_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g y x**(y - 1), 0 where y is 0"""
    return where(y == 0.0, 0.0, g * (y * pow(x, where(y == 0.0, 1.0, y) - 1.0)))


def pow_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """g x**y log(x), 0 where x is 0 and y is not negative"""
    zero = (x == 0.0) & (y >= 0.0)
    return where(zero, 0.0, g * (pow(x, y) * log(where(zero, 1.0, x))))


def hypot_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g x / hypot(x, y)"""
    return g * (x / hypot(x, y))


def hypot_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """g y / hypot(x, y)"""
    return g * (y / hypot(x, y))


gradients("pow", pow_grad_x, pow_grad_y)
gradients("hypot", hypot_grad_x, hypot_grad_y)
