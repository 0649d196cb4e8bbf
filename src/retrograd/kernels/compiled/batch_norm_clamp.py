"""Batch norm, a sum and a clamp together: two passes over memory forward, and two backward, without the sum.

The results are those of the separate kernels, to the bit. Recorded steps are rewritten to these kernels.
"""

from __future__ import annotations

import numpy as np

from .machine.launch import Kernel, kernel
from .machine.plan_tracing import may_overwrite
from .memory.layout import channels_last, like
from .memory.packing import zeros_of
from .moments import MOMENTS
from .normalization import COEFFICIENTS, STATISTICS, Three, planes_plan

__all__ = ["batch_norm_clamp", "batch_norm_clamp_grad", "channel_affine_clamp"]

_NORMALIZE, _NORMALIZE_ADD = kernel("batch_norm_clamp.normalize"), kernel("batch_norm_clamp.normalize_add")
_SUMS, _INPUT_GRAD = kernel("batch_norm_clamp.sums_columns"), kernel("batch_norm_clamp.input_grad")


def batch_norm_clamp(
    x: np.ndarray,
    other: np.ndarray | None,
    weight: np.ndarray,
    bias: np.ndarray,
    eps: float,
    low: float,
    high: float,
) -> tuple[np.ndarray, ...]:
    x, channels = channels_last(x), x.shape[1]
    kind, y = x.dtype.char, np.empty_like(x)
    if not x.size:
        missing = [np.full(channels, np.nan, x.dtype, like=x) for _ in range(3)]
        return y, *missing, np.full((2, channels), np.nan, x.dtype, like=x)
    plan = planes_plan(1, channels, x.size // channels, channels, True, 1)
    found, pieces = np.empty((3, 1, channels), x.dtype, like=x), np.empty(plan.pieces, x.dtype, like=x)
    table, coefficients = np.empty((3, plan.row), x.dtype, like=x), np.empty((2, channels), x.dtype, like=x)
    weight, bias = np.ascontiguousarray(weight, like=weight), np.ascontiguousarray(bias, like=bias)
    MOMENTS[True][kind](plan.tasks, x, pieces, *plan.numbers, 1.0)
    STATISTICS[kind](plan.merging, pieces, weight, bias, found, table, plan.words, eps)
    added, kernels = _with(other, x)
    kernels[kind](plan.writing, x, added, table, coefficients, y, plan.words, low, high)
    return y, *found[:, 0], coefficients


def channel_affine_clamp(
    x: np.ndarray, other: np.ndarray | None, scale: np.ndarray, shift: np.ndarray, low: float, high: float
) -> np.ndarray:
    x, channels = channels_last(x), x.shape[1]
    kind, y = x.dtype.char, np.empty_like(x)
    if not x.size:
        return y
    plan = planes_plan(1, channels, x.size // channels, channels, True, 1)
    table, unused = np.empty((3, plan.repeat, channels), x.dtype, like=x), np.empty((2, channels), x.dtype, like=x)
    table[0], table[1], table[2] = zeros_of(channels, kind), scale, shift
    added, kernels = _with(other, x)
    kernels[kind](plan.writing, x, added, table, unused, y, plan.words, low, high)
    return y


def _with(other: np.ndarray | None, x: np.ndarray) -> tuple[np.ndarray, Kernel]:
    """What is added, in x's order, and the kernel; x stands for nothing."""
    return (x, _NORMALIZE) if other is None else (like(other, x), _NORMALIZE_ADD)


def batch_norm_clamp_grad(
    g: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    coefficients: np.ndarray,
    low: float,
    high: float,
) -> Three:
    g, x, channels = channels_last(g), channels_last(x), x.shape[1]
    kind, gx = x.dtype.char, may_overwrite(np.empty_like(x), g, x)
    if not x.size:
        return gx, np.zeros(channels, x.dtype, like=x), np.zeros(channels, x.dtype, like=x)
    plan = planes_plan(1, channels, x.size // channels, channels, True, 2)
    sums, pieces = np.empty((2, 1, channels), x.dtype, like=x), np.empty(plan.pieces, x.dtype, like=x)
    table = np.empty((4, plan.row), x.dtype, like=x)
    weight, mean, inverse = (np.ascontiguousarray(array, like=array) for array in (weight, mean, inverse))
    factor, shift = (np.ascontiguousarray(array, like=array) for array in coefficients)
    about = mean
    if plan.repeat > 1:
        about, factor, shift = (np.tile(array, plan.repeat) for array in (mean, factor, shift))
    _SUMS[kind](plan.tasks, g, x, about, factor, shift, pieces, plan.words, low, high)
    COEFFICIENTS[kind](plan.merging, pieces, weight, mean, inverse, sums, table, plan.words)
    _INPUT_GRAD[kind](plan.writing, g, x, factor, shift, table, gx, plan.words, low, high)
    return gx, sums[1, 0], sums[0, 0]
