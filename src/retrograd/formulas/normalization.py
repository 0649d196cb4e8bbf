"""What normalisations do with each number, once the statistics are known; they are made by the kernels of ``kernels``.

mean and inverse deviation belong to what the statistics are taken over, weight and bias to a channel or a column.
"""

from __future__ import annotations

from .primitive import Operand, sqrt


def inverse_deviation(variance: Operand, eps: float) -> Operand:
    """1 / sqrt(variance + eps)"""
    return 1.0 / sqrt(variance + eps)


def standardised(x: Operand, mean: Operand, inverse: Operand) -> Operand:
    """z = (x - mean) / deviation"""
    return (x - mean) * inverse


def affine(z: Operand, weight: Operand, bias: Operand) -> Operand:
    """z weight + bias"""
    return z * weight + bias


def input_grad(h: Operand, z: Operand, inverse: Operand, mean_h: Operand, mean_hz: Operand) -> Operand:
    """The gradient to x of h = g weight: what reaches x through the mean and through the variance is subtracted."""
    return ((h - mean_h) - z * mean_hz) * inverse


def about_mean(x: Operand, mean: Operand, factor: Operand, shift: Operand) -> Operand:
    """``affine`` of ``standardised``, with factor = inverse weight"""
    return affine(x - mean, factor, shift)


def about_mean_grad(
    g: Operand, x: Operand, mean: Operand, factor: Operand, slope: Operand, level: Operand
) -> Operand:
    """``input_grad`` with factor = inverse weight, slope = -inverse^2 mean_hz and level = -inverse mean_h"""
    return g * factor + affine(x - mean, slope, level)
