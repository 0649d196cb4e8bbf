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
    """1 where x >= 0 (including -0), else -1; NaN stays NaN"""


class SignClipped(Pointwise, formula="sign_clipped", value="binary_sign"):
    """1 where x >= 0 (including -0), else -1; NaN stays NaN"""


class SignPolynomial(Pointwise, formula="sign_polynomial", value="binary_sign"):
    """1 where x >= 0 (including -0), else -1; NaN stays NaN"""


class SwishSign(Pointwise, formula="swish_sign"):
    """binary_sign(x); beta is a parameter of the gradient"""


class RandomSign(Pointwise, Binary, formula="random_sign"):
    """1 with probability (x + 1) / 2, clipped to [0, 1], else -1; y is uniform in [0, 1); NaN stays NaN"""


class Ternary(Pointwise, formula="ternary"):
    """z where x > y, -z where x < -y, else 0; y is a threshold, z a scale; NaN stays NaN"""


class PowerOfTwo(Pointwise, formula="power_of_two"):
    """The power of two nearest to |x| on a logarithmic scale, from 2**low to 2**high, with the sign of x"""


class RandomPowerOfTwo(Pointwise, Binary, formula="random_power_of_two"):
    """``power_of_two`` whose exponent is log2(|x|) rounded down, or up with the probability of its fractional part"""


class PowerOfTwoOrZero(Pointwise, formula="power_of_two_or_zero"):
    """``power_of_two``, and 0 where the exponent would be below low; the gradient is g"""


class RandomPowerOfTwoOrZero(Pointwise, Binary, formula="random_power_of_two_or_zero"):
    """``random_power_of_two``, and 0 where the exponent would be below low; the gradient to x is g"""


class RandomRound(Pointwise, Binary, formula="random_round"):
    """floor(x), plus 1 with probability x - floor(x); y is uniform in [0, 1); the gradient to x is g"""


class ShiftSign(Pointwise, Binary, formula="shift_sign"):
    """2**p s: p is x rounded and clipped to [low, high]; s is y rounded and clipped to -1, 0 or 1"""


class FixedPoint(Pointwise, formula="fixed_point"):
    """floor(scale x) / scale, clipped to [low, high]"""


class AffineLevels(Pointwise, formula="affine_levels"):
    """``uniform`` whose step is a number: scale times the integer nearest to inverse * x, with inverse = 1 / scale"""


class Uniform(Pointwise, Binary, formula="uniform"):
    """y q, with q the integer nearest to x / y, ties to even, clipped to [low, high]; the step y is not learned"""


class LearnedStep(Pointwise, Binary, formula="learned_step"):
    """``uniform``, whose step y is learned; slope multiplies its gradient"""


class UnitLevels(Pointwise, formula="unit_levels"):
    """x clipped to [0, 1] and rounded to multiples of 1 / levels, ties to even"""


class TanhLevels(Pointwise, Binary, formula="tanh_levels"):
    """2 unit_levels(tanh(x) / (2 y) + 1/2) - 1; y is the largest |tanh(x)|"""


class Pact(Pointwise, Binary, formula="pact"):
    """x clipped to [0, y] and rounded to multiples of y / levels; the limit y is learned"""


def mean_abs(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return mean |x| over axes, kept with extent 1; 0 if there are no elements. The gradient at 0 is 0."""
    return vector_norm_of("mean_abs", x, 1, axes, True, None) * _share(x.array, axes)


def mean_abs_of(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """``mean_abs`` of an array."""
    found: np.ndarray = kernels.mul(kernels.norm(x, 1, axes, True), from_host(_share(x, axes), x.dtype))
    return found


def _share(x: np.ndarray, axes: tuple[int, ...]) -> float:
    return 1.0 / max(prod(x.shape[axis] for axis in axes), 1)


class MeanScaledSign(Function):
    """y = alpha sign(x) with alpha = mean |x| over ``axes``; is_exact: gradients also flow through alpha.

    gx = g alpha where -1 <= x <= 1, else 0; plus, if is_exact, sign(x) times the mean of g sign(x)
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...], is_exact: bool) -> Tensor:
        ctx.axes, ctx.is_exact = axes, is_exact
        scale = mean_abs_of(x.array, axes)
        ctx.save_for_backward(x, scale)
        return wrap(kernels.scaled_sign(x.array, scale))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, constant = ctx.saved_tensors
        if not ctx.is_exact:
            return run(scaled_sign_grad, (x, g, wrap(constant))), None, None
        scale = mean_abs(x, ctx.axes) if recording() else wrap(constant)
        through_scale = mean(run(scaled_sign, (x, g)), ctx.axes, True)
        return run(mean_scaled_sign_grad, (x, g, scale, through_scale)), None, None


class SignAndMeanAbs(Function):
    """sign(x), with the gradient of ``clipped_grad``, and the mean of |x| along ``axis``, kept with extent 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x)
        ctx.axis = axis
        return wrap(kernels.binary_sign(x.array)), wrap(mean_abs_of(x.array, (axis,)))

    @staticmethod
    def backward(ctx: Any, g: Tensor, gmean: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        one = wrap(ones((), x.array.dtype, like=x.array))
        return run(mean_scaled_sign_grad, (x, g, one, gmean * _share(x.array, (ctx.axis,)))), None
