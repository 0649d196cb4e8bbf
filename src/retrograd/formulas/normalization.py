"""Normalization of one number, given the statistics, which the kernels compute.

There is one mean and inverse deviation for each set of normalized elements, one weight and bias per channel or column.
"""

from __future__ import annotations

from .primitive import Operand, sqrt


def inverse_deviation(variance: Operand, eps: float) -> Operand:
    """1 / sqrt(variance + eps)"""
    return 1.0 / sqrt(variance + eps)


def standardized(x: Operand, mean: Operand, inverse: Operand) -> Operand:
    """z = (x - mean) / deviation"""
    return (x - mean) * inverse


def affine(z: Operand, weight: Operand, bias: Operand) -> Operand:
    """z weight + bias"""
    return z * weight + bias


def input_grad(h: Operand, z: Operand, inverse: Operand, mean_h: Operand, mean_hz: Operand) -> Operand:
    """The gradient to x, with h = g weight; the last two terms are the gradients through mean and variance."""
    return ((h - mean_h) - z * mean_hz) * inverse


def about_mean(x: Operand, mean: Operand, factor: Operand, shift: Operand) -> Operand:
    """``affine`` of ``standardized``, with factor = inverse weight"""
    return affine(x - mean, factor, shift)


def about_mean_grad(g: Operand, x: Operand, mean: Operand, factor: Operand, slope: Operand, level: Operand) -> Operand:
    """``input_grad`` with factor = inverse weight, slope = -inverse^2 mean_hz and level = -inverse mean_h"""
    return g * factor + affine(x - mean, slope, level)
