"""Gradients of products and quotients."""

from __future__ import annotations

from .primitive import Operand
from .table import pair


def mul_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g y"""
    return g * y


def mul_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """g x"""
    return g * x


def div_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g / y"""
    return g / y


def div_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """-g x / y**2"""
    return -(g / y) * (x / y)


pair("mul_grad", mul_grad_x, mul_grad_y)
pair("div_grad", div_grad_x, div_grad_y)
