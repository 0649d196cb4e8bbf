"""The Functions of the quantisers' formulas, which are in ``formulas/quantization.py`` with their gradients."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from ..formulas.quantization import mean_scaled_sign_grad, scaled_sign, scaled_sign_grad
from ..ops.kernel_set import kernels
from ..ops.pointwise.operands import recording
from ..ops.pointwise.pointwise import pointwise, run
from ..ops.reduce.norms import vector_norm_of
from ..ops.reduce.reduction import mean

__all__: list[str] = []

SignIdentity = pointwise("sign_identity", kernel="binary_sign")
SignClipped = pointwise("sign_clipped", kernel="binary_sign")
SignPolynomial = pointwise("sign_polynomial", kernel="binary_sign")
SwishSign = pointwise("swish_sign")
RandomSign = pointwise("random_sign")
Ternary = pointwise("ternary")
PowerOfTwo = pointwise("power_of_two")
RandomPowerOfTwo = pointwise("random_power_of_two")
PowerOfTwoOrZero = pointwise("power_of_two_or_zero")
RandomPowerOfTwoOrZero = pointwise("random_power_of_two_or_zero")
RandomRound = pointwise("random_round")
ShiftSign = pointwise("shift_sign")
FixedPoint = pointwise("fixed_point")
AffineLevels = pointwise("affine_levels")
Uniform = pointwise("uniform")
LearnedStep = pointwise("learned_step")
UnitLevels = pointwise("unit_levels")
TanhLevels = pointwise("tanh_levels")
Pact = pointwise("pact")


def mean_size(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """mean |x| over axes, which stay with extent 1, and 0 of no elements; the gradient at 0 is 0."""
    return vector_norm_of("mean_size", x, 1, axes, True, None) * _share(x.array, axes)


def mean_size_of(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """``mean_size`` of an array."""
    return np.asarray(kernels.norm(x, 1, axes, True) * x.dtype.type(_share(x, axes)))


def _share(x: np.ndarray, axes: tuple[int, ...]) -> float:
    return 1.0 / max(prod(x.shape[axis] for axis in axes), 1)


class MeanScaledSign(Function):
    """y = alpha sign(x) with alpha = mean |x| over ``axes``; is_exact: the gradient goes through alpha, too.

        gx = g alpha where -1 <= x <= 1, else 0, plus sign(x) times the mean of g sign(x)
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...], is_exact: bool) -> Tensor:
        ctx.axes, ctx.is_exact = axes, is_exact
        scale = mean_size_of(x.array, axes)
        ctx.save_for_backward(x, scale)
        return wrap(kernels.scaled_sign(x.array, scale))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, constant = ctx.saved_tensors
        if not ctx.is_exact:
            return run(scaled_sign_grad, (x, g, wrap(constant))), None, None
        scale = mean_size(x, ctx.axes) if recording() else wrap(constant)
        through_scale = mean(run(scaled_sign, (x, g)), ctx.axes, True)
        return run(mean_scaled_sign_grad, (x, g, scale, through_scale)), None, None


class SignAndSize(Function):
    """sign(x), with the gradient of ``clipped_grad``, and the mean of |x| along ``axis``, which stays with extent 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x)
        ctx.axis = axis
        return wrap(kernels.binary_sign(x.array)), wrap(mean_size_of(x.array, (axis,)))

    @staticmethod
    def backward(ctx: Any, g: Tensor, gsize: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        one = wrap(np.ones((), x.array.dtype))
        return run(mean_scaled_sign_grad, (x, g, one, gsize * _share(x.array, (ctx.axis,)))), None
