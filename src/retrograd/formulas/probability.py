"""Logarithms of densities."""

from __future__ import annotations

from .primitive import Operand, log
from .table import formula, gradients

_HALF_LOG_TAU = 0.9189385332046727  # log(2 pi) / 2


@formula
def normal_log_density(x: Operand, mean: Operand, scale: Operand) -> Operand:
    """-((x - mean) / scale)**2 / 2 - log(scale) - log(2 pi) / 2"""
    z = (x - mean) / scale
    return z * z * -0.5 - log(scale) - _HALF_LOG_TAU


def normal_log_density_grad_x(g: Operand, x: Operand, mean: Operand, scale: Operand) -> Operand:
    """-g (x - mean) / scale**2"""
    return g * ((mean - x) / scale / scale)


def normal_log_density_grad_mean(g: Operand, x: Operand, mean: Operand, scale: Operand) -> Operand:
    """g (x - mean) / scale**2"""
    return g * ((x - mean) / scale / scale)


def normal_log_density_grad_scale(g: Operand, x: Operand, mean: Operand, scale: Operand) -> Operand:
    """g (((x - mean) / scale)**2 - 1) / scale"""
    z = (x - mean) / scale
    return g * ((z * z - 1.0) / scale)


gradients("normal_log_density", normal_log_density_grad_x, normal_log_density_grad_mean, normal_log_density_grad_scale)
