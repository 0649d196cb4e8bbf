"""Sums, products, quotients, remainders, interpolation; and their gradients."""

from __future__ import annotations

from .primitive import Operand, absolute, fmod, full_like, nearest, primitive, trunc, where
from .table import formula, gradients, like, same_grad


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


# ---------------------------------------------------------------------------------------------- of three operands


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
    """As ``lerp``, with one weight for all."""
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
    z = nearest((x - r) / y)  # an integer up to rounding; one less where ``remainder`` exceeds r by y
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
