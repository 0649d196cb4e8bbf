"""The Functions of the quantisers' formulas, which are in ``formulas/quantization.py`` with their gradients."""

from __future__ import annotations

from typing import Any

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from ..ops.pointwise.pointwise import pointwise

__all__: list[str] = []

SignIdentity = pointwise("sign_identity", kernel="binary_sign")
SignClipped = pointwise("sign_clipped", kernel="binary_sign")
SignPolynomial = pointwise("sign_polynomial", kernel="binary_sign")
SwishSign = pointwise("swish_sign")
ScaledSign = pointwise("scaled_sign")
RandomSign = pointwise("random_sign")
Ternary = pointwise("ternary")
PowerOfTwo = pointwise("power_of_two")
RandomPowerOfTwo = pointwise("random_power_of_two")
PowerOfTwoOrZero = pointwise("power_of_two_or_zero")
RandomPowerOfTwoOrZero = pointwise("random_power_of_two_or_zero")
RandomRound = pointwise("random_round")
ShiftSign = pointwise("shift_sign")
FixedPoint = pointwise("fixed_point")
Uniform = pointwise("uniform")
LearnedStep = pointwise("learned_step")
UnitLevels = pointwise("unit_levels")
TanhLevels = pointwise("tanh_levels")
Pact = pointwise("pact")


class StraightThrough(Function):
    """y, computed from x without a record, with the gradient g to x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        return wrap(y.array)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return g, None
