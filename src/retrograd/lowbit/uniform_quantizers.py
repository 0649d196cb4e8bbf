"""Quantizers with evenly spaced levels: fixed point, DoReFa, PACT, LSQ and int8."""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from ..arrays import from_host, number, ones
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from ..ops.pointwise.gating import StraightThrough
from ..ops.pointwise.piecewise import where
from .binary_quantizers import scaled_signs
from .quantization_functions import (
    AffineLevels,
    FixedPoint,
    LearnedStep,
    MeanScaledSign,
    Pact,
    SignClipped,
    TanhLevels,
    Uniform,
    UnitLevels,
    mean_abs,
)
from .quantizer import LEAST, Axes, Levels, Own, Quantizer, check_flag, check_int, parameter_of, scalar

__all__ = ["LSQ", "PACT", "DoReFa", "Fixed", "Int8"]

_MOST_BITS = 16


@dataclass(frozen=True, repr=False)
class Fixed(Quantizer):
    """Activations and bias of a layer in fixed point: rounded down to multiples of 2**-fraction_bits and clipped.

    y = floor(2**fraction_bits x) / 2**fraction_bits, clipped to [-2**(integer_bits - 1),
    2**(integer_bits - 1) - 2**-fraction_bits]. The gradient is g where x is not clipped, else 0. float32 has 24 bits of
    precision, so numbers with more bits are rounded.

    integer_bits: bits before the binary point, including the sign, 1 to 32.
    fraction_bits: bits after the binary point, 0 to 31. Their sum is at most 32.

    Source: M. Elhoushi et al., "DeepShift", 2019 (arXiv:1905.13298), where the gradient is g also for clipped x.

    Raises:
        ValueError: a number of bits is out of range.
    """

    integer_bits: int = 16
    fraction_bits: int = 16

    for_activations: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_int(self, "integer_bits", 1, 32)
        check_int(self, "fraction_bits", 0, 31)
        if self.integer_bits + self.fraction_bits > 32:
            raise ValueError(
                f"Fixed: integer_bits={self.integer_bits} and fraction_bits={self.fraction_bits} are more than 32 "
                "bits together; lower one of them"
            )

    def activation(self, x: Tensor, own: Own) -> Tensor:
        bound, step = 2.0 ** (self.integer_bits - 1), 2.0**-self.fraction_bits
        result: Tensor = FixedPoint.apply(x, 1.0 / step, -bound, bound - step)
        return result

    def bias(self, b: Tensor) -> Tensor:
        return self.activation(b, {})

    def activation_levels(self, own: Own) -> Levels:
        bound = 2 ** (self.integer_bits + self.fraction_bits - 1)
        return Levels(2.0**-self.fraction_bits, -bound, bound - 1)


@dataclass(frozen=True, repr=False)
class DoReFa(Quantizer):
    """DoReFa-Net's quantization of weights and activations to k bits.

    Activations: x clipped to [0, 1] and rounded to multiples of 1 / (2**k - 1). The gradient is g where 0 <= x <= 1,
    else 0.
    Weights: 2 q - 1, where q is tanh(w) / (2 m) + 1/2 rounded to the same multiples and m is the largest |tanh(w)| of
    the layer. The gradient is g (1 - tanh(w)**2) / m.
    Weights with k = 1: mean |w| sign(w). The gradient is g.

    bits: k, 1 to 16.

    Source: S. Zhou et al., "DoReFa-Net", 2016 (arXiv:1606.06160).

    Raises:
        ValueError: bits is out of range.
    """

    bits: int

    for_weights: ClassVar[bool] = True
    for_activations: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_int(self, "bits", 1, _MOST_BITS)

    def weight(self, w: Any, axes: Axes, own: Own, training: bool) -> Tensor:
        result: Tensor
        if self.bits == 1:
            with no_grad():
                value = MeanScaledSign.apply(w, tuple(range(w.array.ndim)), False)
            result = StraightThrough.apply(w, value.array)
        else:
            result = TanhLevels.apply(w, scalar(math.tanh(_largest(w.array)) or 1.0, w), 2.0**self.bits - 1)
        return result

    def activation(self, x: Tensor, own: Own) -> Tensor:
        result: Tensor = UnitLevels.apply(x, 2.0**self.bits - 1)
        return result

    def signs(self, w: Tensor, axes: Axes) -> tuple[Tensor, Tensor] | None:
        if self.bits > 1:
            return None
        with no_grad():
            alpha = mean_abs(w, tuple(range(w.array.ndim)))
            sign = SignClipped.apply(w)
            # the signs receive g alpha, but w must receive g
            inverse = where(alpha > 0, alpha, 1.0).reciprocal()
        return StraightThrough.apply(w * inverse, sign.array), alpha

    def weight_levels(self, w: Any, axes: Axes, own: Own) -> Levels:
        if self.bits == 1:
            return scaled_signs(w, tuple(range(w.ndim)))
        most = 2**self.bits - 1
        return Levels(1.0 / most, -most, most, stride=2)

    def activation_levels(self, own: Own) -> Levels:
        most = 2**self.bits - 1
        return Levels(1.0 / most, 0, most)


@dataclass(frozen=True, repr=False)
class PACT(Quantizer):
    """Activations: x clipped to [0, alpha] and rounded to multiples of alpha / (2**bits - 1); alpha is learned.

    gx = g where 0 <= x < alpha, else 0; the gradient of alpha is the sum of g where x >= alpha. The source adds the
    square of alpha to the loss; for this, put ``activation_alpha`` into a parameter group with weight_decay.

    bits: 1 to 16. alpha: the initial value.

    Source: J. Choi et al., "PACT: Parameterized Clipping Activation", 2018 (arXiv:1805.06085).

    Raises:
        ValueError: bits or alpha is out of range.
    """

    bits: int
    alpha: float = 10.0

    for_activations: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_int(self, "bits", 1, _MOST_BITS)
        alpha = self.alpha
        if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not LEAST <= alpha < math.inf:
            raise ValueError(f"PACT: alpha={alpha!r} must be a number above 0")

    def own_of_activation(self, dtype: np.dtype) -> dict[str, Tensor]:
        return {"alpha": parameter_of(self.alpha, dtype, LEAST)}

    def activation(self, x: Tensor, own: Own) -> Tensor:
        result: Tensor = Pact.apply(x, own["alpha"], 2.0**self.bits - 1)
        return result

    def activation_levels(self, own: Own) -> Levels:
        most = 2**self.bits - 1
        return Levels(_number(own["alpha"]) / most, 0, most)


@dataclass(frozen=True, repr=False)
class LSQ(Quantizer):
    """Weights or activations: s q, where q is x / s rounded and clipped to integers of ``bits`` bits; s is learned.

    gx = g where x / s is not clipped, else 0. The gradient of s is the sum of g (q - x / s), or of g q where x / s is
    clipped, divided by sqrt(n q_max), where n is the number of weights, or of features per sample. The initial s is
    2 mean |x| / sqrt(q_max), for activations of the first batch.

    bits: 2 to 16.
    signed: True for q from -2**(bits - 1) to 2**(bits - 1) - 1, False for q from 0 to 2**bits - 1. By default, weights
        are signed and activations are not, as after ReLU.

    Source: S. K. Esser et al., "Learned Step Size Quantization", 2019 (arXiv:1902.08153).

    Raises:
        ValueError: an option is out of range.
    """

    bits: int
    signed: bool | None = None

    for_weights: ClassVar[bool] = True
    for_activations: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_int(self, "bits", 2, _MOST_BITS)
        if self.signed is not None:
            check_flag(self, "signed")

    def levels(self, of_weight: bool) -> tuple[float, float]:
        """The limits of q."""
        if of_weight if self.signed is None else self.signed:
            return -(2.0 ** (self.bits - 1)), 2.0 ** (self.bits - 1) - 1
        return 0.0, 2.0**self.bits - 1

    def own_of_weight(self, w: np.ndarray) -> dict[str, Tensor]:
        return {"step": parameter_of(_first_step(w, self.levels(True)[1]), w.dtype, LEAST)}

    def own_of_activation(self, dtype: np.dtype) -> dict[str, Tensor]:
        return {"step": parameter_of(0.0, dtype, LEAST)}  # 0: nothing seen yet

    def observe(self, x: np.ndarray, own: Own) -> None:
        if not self.is_ready(own) and x.size:
            step = _first_step(x, self.levels(False)[1])
            _assign(own["step"], step if math.isfinite(step) else 0.0)

    def is_ready(self, own: Own) -> bool:
        return _number(own["step"]) > 0

    def weight(self, w: Any, axes: Axes, own: Own, training: bool) -> Tensor:
        return self._quantized(w, own, True, w.array.size)

    def activation(self, x: Tensor, own: Own) -> Tensor:
        return self._quantized(x, own, False, prod(x.array.shape[1:]))

    def weight_levels(self, w: Any, axes: Axes, own: Own) -> Levels:
        return self._levels(own, True)

    def activation_levels(self, own: Own) -> Levels:
        return self._levels(own, False)

    def _levels(self, own: Own, of_weight: bool) -> Levels:
        low, high = self.levels(of_weight)
        return Levels(_number(own["step"]), int(low), int(high), is_nearest=True)

    def _quantized(self, x: Tensor, own: Own, of_weight: bool, count: int) -> Tensor:
        low, high = self.levels(of_weight)
        result: Tensor = LearnedStep.apply(x, own["step"], low, high, 1.0 / math.sqrt(max(count, 1) * high))
        return result


@dataclass(frozen=True, repr=False)
class Int8(Quantizer):
    """8-bit integers, rounded to nearest, ties to even. The gradient is g where the integer is not clipped, else 0.

    Weights: s q with q from -127 to 127 and s = max |w| / 127 of each output channel. The gradient treats s as a
    constant.
    Activations: s (q - z) with q from 0 to 255, s = (high - low) / 255 and z = -low / s rounded, so that 0 is
    represented exactly. low and high are the minimum and maximum of 0 and of all inputs that the layer has seen in
    training and in ``calibrate``, stored in the buffers ``activation_low`` and ``activation_high``. Inputs that contain
    inf or NaN are ignored.

    Source: B. Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
    Inference", 2017 (arXiv:1712.05877).
    """

    for_weights: ClassVar[bool] = True
    for_activations: ClassVar[bool] = True

    def own_of_activation(self, dtype: np.dtype) -> dict[str, Tensor]:
        return {"low": wrap(from_host(np.inf, dtype)), "high": wrap(from_host(-np.inf, dtype))}  # nothing seen yet

    def observe(self, x: np.ndarray, own: Own) -> None:
        if not x.size:
            return
        ends = [find(x, tuple(range(x.ndim)), False) for find in (kernels.amin, kernels.amax)]
        smallest, largest = [number(end, "the range of an input") for end in ends]
        if math.isfinite(smallest) and math.isfinite(largest):
            _assign(own["low"], min(_number(own["low"]), 0.0, smallest))
            _assign(own["high"], max(_number(own["high"]), 0.0, largest))

    def is_ready(self, own: Own) -> bool:
        return _number(own["low"]) <= _number(own["high"])

    def scale_and_zero(self, own: Own) -> tuple[float, int]:
        """Return s and z of activations."""
        low, high = _number(own["low"]), _number(own["high"])
        if not low < high:  # all inputs were 0, or none was seen
            return 1.0, 0
        scale = (high - low) / 255
        return scale, round(-low / scale)

    def weight_scale(self, w: np.ndarray, axes: Axes) -> np.ndarray:
        """Return s of each output channel, 1 where all weights are 0; the axes of a filter keep extent 1."""
        if not w.size:
            return ones((1,) * w.ndim, w.dtype, like=w)
        largest = kernels.amax(kernels.abs(w), axes, True)
        is_above = kernels.lt(from_host(0, w.dtype), largest)
        levels = kernels.div(largest, from_host(127, w.dtype))
        scale: np.ndarray = kernels.where(is_above, levels, from_host(1, w.dtype))
        return scale

    def weight(self, w: Any, axes: Axes, own: Own, training: bool) -> Tensor:
        result: Tensor = Uniform.apply(w, wrap(self.weight_scale(w.array, axes)), -127.0, 127.0)
        return result

    def activation(self, x: Tensor, own: Own) -> Tensor:
        scale, zero = self.scale_and_zero(own)
        result: Tensor = AffineLevels.apply(x, scale, 1.0 / scale, -float(zero), 255.0 - zero)
        return result

    def weight_levels(self, w: Any, axes: Axes, own: Own) -> Levels:
        return Levels(self.weight_scale(w, axes), -127, 127, is_nearest=True)

    def activation_levels(self, own: Own) -> Levels:
        scale, zero = self.scale_and_zero(own)
        return Levels(scale, -zero, 255 - zero, is_nearest=True)


def _largest(x: np.ndarray) -> float:
    return float(number(kernels.norm_of_all([x], largest=True), "the largest value"))


def _first_step(x: np.ndarray, high: float) -> float:
    """Return LSQ's initial step for x."""
    step = 2.0 * number(kernels.mean_absolute(x), "the first step of a quantizer") / math.sqrt(high) if x.size else 0.0
    return step if not step < LEAST else LEAST


def _number(own: Tensor) -> float:
    found: float = number(own.array, "the levels of a quantizer")
    return found


def _assign(own: Tensor, value: float) -> None:
    kernels.copy(own.array, from_host(value, own.array.dtype))
