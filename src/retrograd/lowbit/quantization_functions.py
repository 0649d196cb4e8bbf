"""Functions of the quantizers. Their formulas and gradients are in ``formulas/quantization.py``."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..arrays import from_host, ones
from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from ..formulas.quantization import mean_scaled_sign_grad, scaled_sign, scaled_sign_grad
from ..kernel_set import kernels
from ..ops.pointwise.pointwise import Binary, Pointwise, recording, run
from ..ops.reduce.norms import vector_norm_of
from ..ops.reduce.reduction import mean

__all__: list[str] = []


class SignIdentity(Pointwise, formula="sign_identity", value="binary_sign"):
    """1 where x >= 0, also at -0, and -1 below; NaN stays"""


class SignClipped(Pointwise, formula="sign_clipped", value="binary_sign"):
    """1 where x >= 0, also at -0, and -1 below; NaN stays"""


class SignPolynomial(Pointwise, formula="sign_polynomial", value="binary_sign"):
    """1 where x >= 0, also at -0, and -1 below; NaN stays"""


class SwishSign(Pointwise, formula="swish_sign"):
    """binary_sign(x), whose gradient takes beta"""


class RandomSign(Pointwise, Binary, formula="random_sign"):
    """1 with probability (x + 1) / 2, limited to 0 and 1, else -1; y is uniform in [0, 1); NaN stays"""


class Ternary(Pointwise, formula="ternary"):
    """z where x > y, -z where x < -y, 0 between; y is a threshold, z a scale; NaN stays"""


class PowerOfTwo(Pointwise, formula="power_of_two"):
    """The power of two nearest to |x| on a logarithmic scale, from 2**low to 2**high, with the sign of x"""


class RandomPowerOfTwo(Pointwise, Binary, formula="random_power_of_two"):
    """``power_of_two`` with the exponent floor(log2(|x|)) or one more, with the probability of the part cut off"""


class PowerOfTwoOrZero(Pointwise, formula="power_of_two_or_zero"):
    """``power_of_two``, and 0 where the exponent would be below low; the gradient is g"""


class RandomPowerOfTwoOrZero(Pointwise, Binary, formula="random_power_of_two_or_zero"):
    """``random_power_of_two``, and 0 where the exponent would be below low; the gradient to x is g"""


class RandomRound(Pointwise, Binary, formula="random_round"):
    """floor(x), or one more with the probability x - floor(x); y is uniform in [0, 1); the gradient to x is g"""


class ShiftSign(Pointwise, Binary, formula="shift_sign"):
    """2**p s: p is x rounded and limited to low and high; s = -1, 0 or 1 is the sign of y rounded to an integer"""


class FixedPoint(Pointwise, formula="fixed_point"):
    """floor(scale x) / scale, limited to low and high"""


class AffineLevels(Pointwise, formula="affine_levels"):
    """``uniform`` with a number for the step: scale times the integer nearest to inverse x, inverse being 1 / scale"""


class Uniform(Pointwise, Binary, formula="uniform"):
    """y q with q the integer nearest to x / y, ties to even, limited to low and high; y is the step, which is
    given
    """


class LearnedStep(Pointwise, Binary, formula="learned_step"):
    """``uniform``, whose step y is learned; slope multiplies its gradient"""


class UnitLevels(Pointwise, formula="unit_levels"):
    """x limited to 0 and 1, and rounded to multiples of 1 / levels, ties to even"""


class TanhLevels(Pointwise, Binary, formula="tanh_levels"):
    """2 unit_levels(tanh(x) / (2 y) + 1/2) - 1; y is the largest |tanh(x)|"""


class Pact(Pointwise, Binary, formula="pact"):
    """x limited to 0 and y, and rounded to multiples of y / levels; the limit y is learned"""


def mean_size(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """mean |x| over axes, which keep extent 1; 0 without elements; the gradient at 0 is 0."""
    return vector_norm_of("mean_size", x, 1, axes, True, None) * _share(x.array, axes)


def mean_size_of(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """``mean_size`` of an array."""
    found: np.ndarray = kernels.mul(kernels.norm(x, 1, axes, True), from_host(_share(x, axes), x.dtype))
    return found


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
        one = wrap(ones((), x.array.dtype, like=x.array))
        return run(mean_scaled_sign_grad, (x, g, one, gsize * _share(x.array, (ctx.axis,)))), None
