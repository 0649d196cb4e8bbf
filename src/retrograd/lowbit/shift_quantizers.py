"""DeepShift quantizers: weights are sums of powers of two, so that products become shifts.

A weight of b bits is a sign bit and b - 1 exponent bits. ``DeepShiftQ`` with one shift uses every code for an exponent.
Otherwise, the number 0 takes the code of the smallest exponent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from ..ops.pointwise.gating import StraightThrough
from ..ops.reduce.reduction import sum
from ..ops.shape.join import stack
from .quantization_functions import (
    PowerOfTwo,
    PowerOfTwoOrZero,
    RandomPowerOfTwo,
    RandomPowerOfTwoOrZero,
    RandomRound,
    ShiftSign,
)
from .quantizer import Axes, Own, Quantizer, check_flag, check_int, check_word, draws_like, parameter_of

__all__ = ["DeepShiftPS", "DeepShiftQ"]

_MOST_SHIFTS = 4


@dataclass(frozen=True, repr=False)
class _DeepShift(Quantizer):
    """Base class of DeepShiftQ and DeepShiftPS, with their options."""

    bits: int = 5
    shifts: int = 1
    positive_only: bool = False
    rounding: str = "deterministic"

    for_weights: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_int(self, "bits", 2, 6)
        check_int(self, "shifts", 1, _MOST_SHIFTS)
        check_flag(self, "positive_only")
        check_word(self, "rounding", "deterministic", "stochastic")

    @property
    def has_zero(self) -> bool:
        """Whether a code stands for the number 0."""
        raise NotImplementedError

    @property
    def exponents(self) -> tuple[int, int]:
        """The smallest and the largest exponent."""
        count = 2 ** (self.bits - 1) - self.has_zero
        return (0, count - 1) if self.positive_only else (1 - count, 0)

    def terms(self, w: np.ndarray | None, own: Own) -> np.ndarray:
        """Return the terms, each 0 or a signed power of two; their sum over the first axis is the weight."""
        raise NotImplementedError

    def draws(self, training: bool) -> bool:
        return training and self.rounding == "stochastic"


@dataclass(frozen=True, repr=False)
class DeepShiftQ(_DeepShift):
    """Weights: the power of two nearest to |w| on a logarithmic scale, with the sign of w; the gradient is g.

    The exponent is log2(|w|), rounded with ties to even, from -(2**(bits - 1) - 1) to 0. A smaller |w| becomes the
    smallest power with the sign of w. With one shift, 0 cannot be represented and becomes the smallest positive power.
    The optimizer clips the float weights to the largest representable magnitude.

    bits: bits per shift, 2 to 6: a sign and an exponent.
    shifts: n, 1 to 4: the weight is a sum of n such numbers, each quantizing the remainder left by those before it. If
        n > 1, a term is 0 where its exponent would be below the smallest one, which is then -(2**(bits - 1) - 2).
    positive_only: use exponents from 0 upward instead, that is, left shifts.
    rounding: "stochastic" rounds log2(|w|) up with the probability of its fractional part, in training.

    Source: M. Elhoushi et al., "DeepShift: Toward Multiplication-Less Neural Networks", 2019 (arXiv:1905.13298).

    Raises:
        ValueError: an option is out of range.
    """

    @property
    def has_zero(self) -> bool:
        return self.shifts > 1

    @property
    def limits(self) -> tuple[float, float]:
        largest = self.shifts * 2.0 ** self.exponents[1]
        return -largest, largest

    def weight(self, w: Any, axes: Axes, own: Own, training: bool) -> Tensor:
        random, (low, high) = self.draws(training), map(float, self.exponents)
        result: Tensor
        if self.shifts == 1:
            result = RandomPowerOfTwo.apply(w, draws_like(w), low, high) if random else PowerOfTwo.apply(w, low, high)
            return result
        with no_grad():
            first, *more = self._terms(w, random)
            for term in more:
                first = first + term
        result = StraightThrough.apply(w, first.array)
        return result

    def terms(self, w: Any, own: Own) -> np.ndarray:
        with no_grad():
            terms = [self.weight(wrap(w), (), own, False)] if self.shifts == 1 else self._terms(wrap(w), False)
        return stack(terms).array

    def _terms(self, w: Tensor, random: bool) -> list[Tensor]:
        """The terms of a sum of several shifts."""
        (low, high), rest, terms = map(float, self.exponents), w.detach(), []
        for _ in range(self.shifts):
            if random:
                term = RandomPowerOfTwoOrZero.apply(rest, draws_like(w), low, high)
            else:
                term = PowerOfTwoOrZero.apply(rest, low, high)
            terms.append(term)
            rest = rest - term
        return terms


@dataclass(frozen=True, repr=False)
class DeepShiftPS(_DeepShift):
    """Weights: 2**p s, computed from two parameters that replace the weight.

    p is ``weight_shift`` rounded, from -(2**(bits - 1) - 2) to 0; s is ``weight_sign`` rounded to -1, 0 or 1, ties to
    even. The gradient of weight_shift is g log(2) 2**p s. The gradient of weight_sign is g, not multiplied by 2**p, as
    in the source. The optimizer clips weight_shift to the range of p, and weight_sign to [-1, 1]. They are initialized
    from the float weights: log2(|w|) and the sign. A training step changes exponents, so use Adam or RAdam with lr=0.01
    to 0.03. weight_decay would pull p toward 0, and so the weights toward 1.

    bits, positive_only: as ``DeepShiftQ``.
    shifts: n, 1 to 4: the weight is a sum of n such numbers. If n > 1, both parameters have a first axis of extent n.
    rounding: "stochastic" rounds both parameters up with the probability of their fractional part, in training.
    freeze_sign: do not train weight_sign.

    Source: M. Elhoushi et al., "DeepShift: Toward Multiplication-Less Neural Networks", 2019 (arXiv:1905.13298).

    Raises:
        ValueError: an option is out of range.
    """

    freeze_sign: bool = False

    replaces_weight: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag(self, "freeze_sign")

    @property
    def has_zero(self) -> bool:
        return True

    def own_of_weight(self, w: np.ndarray) -> dict[str, Tensor]:
        low, high = self.exponents
        shift, sign = kernels.shift_parameters(w, self.shifts, low, high)
        own = {"shift": parameter_of(shift, w.dtype, low, high), "sign": parameter_of(sign, w.dtype, -1.0, 1.0)}
        own["sign"].requires_grad = not self.freeze_sign
        return dict(own)

    def terms(self, w: Any, own: Own) -> np.ndarray:
        with no_grad():
            terms = ShiftSign.apply(own["shift"], own["sign"], *map(float, self.exponents)).array
        return terms[None] if self.shifts == 1 else terms

    def weight(self, w: Any, axes: Axes, own: Own, training: bool) -> Tensor:
        shift, sign = own["shift"], own["sign"]
        if self.draws(training):
            shift, sign = RandomRound.apply(shift, draws_like(shift)), RandomRound.apply(sign, draws_like(sign))
        low, high = map(float, self.exponents)
        result: Tensor = ShiftSign.apply(shift, sign, low, high)
        return result if self.shifts == 1 else sum(result, 0)
