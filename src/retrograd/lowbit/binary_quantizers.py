"""Binary and ternary quantizers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..arrays import from_host, ones_like
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from .quantization_functions import (
    MeanScaledSign,
    RandomSign,
    SignAndMeanAbs,
    SignClipped,
    SignIdentity,
    SignPolynomial,
    SwishSign,
    Ternary,
    mean_abs,
    mean_abs_of,
)
from .quantizer import Axes, Levels, Own, Quantizer, Window, check_flag, check_word, draws_like

__all__ = ["BWN", "TWN", "XNOR", "BiReal", "BinaryConnect", "Sign"]

_PLUS_MINUS_ONE = Levels(1.0, -1, 1, stride=2)
_SIGNS: dict[str, Callable[..., Tensor]] = {
    "identity": SignIdentity.apply,
    "clipped": SignClipped.apply,
    "polynomial": SignPolynomial.apply,
}


@dataclass(frozen=True, repr=False)
class Sign(Quantizer):
    """Activations: +1 where x >= 0 (including -0), else -1; NaN stays NaN.

    gradient: the surrogate gradient of the sign:
        "clipped"     g where -1 <= x <= 1, else 0 (Hubara et al., 2016)
        "identity"    g
        "polynomial"  g (2 - 2 |x|) where -1 < x < 1, else 0 (Bi-Real net, 2018)
        "swish"       g beta (2 - z tanh(z / 2)) / (1 + cosh(z)), z = beta x (BNN+, 2018)
    beta: the parameter of "swish".

    Raises:
        ValueError: gradient is not one of these, beta is not a number above 0, or beta is set without "swish".
    """

    gradient: str = "clipped"
    beta: float = 5.0

    for_activations: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_word(self, "gradient", *_SIGNS, "swish")
        beta = self.beta
        if isinstance(beta, bool) or not isinstance(beta, (int, float)) or not 0 < beta < math.inf:
            raise ValueError(f"Sign: beta={beta!r} must be a number above 0")
        if beta != 5.0 and self.gradient != "swish":
            raise ValueError(f'Sign: beta={beta!r} belongs to gradient="swish", got gradient={self.gradient!r}')

    def activation(self, x: Tensor, own: Own) -> Tensor:
        if self.gradient == "swish":
            result: Tensor = SwishSign.apply(x, float(self.beta))
            return result
        return _SIGNS[self.gradient](x)

    def activation_levels(self, own: Own) -> Levels:
        return _PLUS_MINUS_ONE


@dataclass(frozen=True, repr=False)
class BinaryConnect(Quantizer):
    """Weights: sign(w), +1 at 0, with the gradient g where -1 <= w <= 1, else 0: BinaryConnect and BNN.

    The optimizer clips the float weights to -1 and 1 after each step.

    stochastic: in training, +1 with probability (w + 1) / 2, clipped to [0, 1], else -1.

    Source: M. Courbariaux et al., "BinaryConnect", 2015 (arXiv:1511.00363); I. Hubara et al., "Binarized Neural
    Networks", 2016 (arXiv:1602.02830).

    Raises:
        ValueError: stochastic is not a bool.
    """

    stochastic: bool = False

    for_weights: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_flag(self, "stochastic")

    @property
    def limits(self) -> tuple[float, float]:
        return -1.0, 1.0

    def weight(self, w: Any, axes: Axes, own: Own, training: bool) -> Tensor:
        result: Tensor = RandomSign.apply(w, draws_like(w)) if self.stochastic and training else SignClipped.apply(w)
        return result

    def signs(self, w: Tensor, axes: Axes) -> tuple[Tensor, None]:
        return SignClipped.apply(w), None

    def weight_levels(self, w: Any, axes: Axes, own: Own) -> Levels:
        return _PLUS_MINUS_ONE


@dataclass(frozen=True, repr=False)
class BWN(Quantizer):
    """Weights: alpha sign(w) with alpha = mean |w| of each filter: Binary-Weight-Networks.

    The gradient is exact, including the path through alpha: gw = g alpha where -1 <= w <= 1, else 0, plus sign(w) / n
    times the sum of g sign(w) over the n weights of the filter. The optimizer clips the float weights to [-1, 1].

    Source: M. Rastegari et al., "XNOR-Net", 2016 (arXiv:1603.05279); its equation omits the terms of the filter's
    other weights.
    """

    for_weights: ClassVar[bool] = True

    @property
    def limits(self) -> tuple[float, float]:
        return -1.0, 1.0

    def weight(self, w: Any, axes: Axes, own: Own, training: bool) -> Tensor:
        result: Tensor = MeanScaledSign.apply(w, axes, True)
        return result

    def signs(self, w: Tensor, axes: Axes) -> tuple[Tensor, Tensor]:
        return SignClipped.apply(w), mean_abs(w, axes)

    def weight_levels(self, w: Any, axes: Axes, own: Own) -> Levels:
        return scaled_signs(w, axes)


@dataclass(frozen=True, repr=False)
class XNOR(BWN):
    """XNOR-Net: weights as in ``BWN``, activations as in ``Sign()``, and the output multiplied by K.

    K is the mean of |x| over the input channels and the window of each output. For a transposed convolution, K is the
    channel mean of |x|, summed over the inputs that contribute to the output, times prod(stride) / prod(kernel_size).
    Gradients flow through K.

    Source: M. Rastegari et al., "XNOR-Net", 2016 (arXiv:1603.05279).
    """

    for_activations: ClassVar[bool] = True

    def activation(self, x: Tensor, own: Own) -> Tensor:
        result: Tensor = SignClipped.apply(x)
        return result

    def activation_and_factor(self, x: Tensor, own: Own, window: Window) -> tuple[Tensor, Tensor]:
        grouped, axis = window.split_groups(x)
        signs, magnitudes = SignAndMeanAbs.apply(grouped, axis)
        return (signs if grouped is x else signs.reshape(*x.array.shape)), window.average(magnitudes)

    def factor(self, x: Tensor, window: Window) -> Tensor:
        return window.average(SignAndMeanAbs.apply(*window.split_groups(x))[1])

    def activation_levels(self, own: Own) -> Levels:
        return _PLUS_MINUS_ONE


@dataclass(frozen=True, repr=False)
class BiReal(Quantizer):
    """Bi-Real net. Weights: alpha sign(w) with alpha = mean |w| of each filter; activations: Sign("polynomial").

    The gradient treats alpha as a constant: gw = g alpha where -1 <= w <= 1, else 0. The optimizer clips the float
    weights to [-1, 1].

    Source: Z. Liu et al., "Bi-Real Net", 2018 (arXiv:1808.00278).
    """

    for_weights: ClassVar[bool] = True
    for_activations: ClassVar[bool] = True

    @property
    def limits(self) -> tuple[float, float]:
        return -1.0, 1.0

    def weight(self, w: Any, axes: Axes, own: Own, training: bool) -> Tensor:
        result: Tensor = MeanScaledSign.apply(w, axes, False)
        return result

    def signs(self, w: Tensor, axes: Axes) -> tuple[Tensor, Tensor]:
        with no_grad():
            alpha = mean_abs(w, axes)
        return SignClipped.apply(w), alpha

    def weight_levels(self, w: Any, axes: Axes, own: Own) -> Levels:
        return scaled_signs(w, axes)

    def activation(self, x: Tensor, own: Own) -> Tensor:
        result: Tensor = SignPolynomial.apply(x)
        return result

    def activation_levels(self, own: Own) -> Levels:
        return _PLUS_MINUS_ONE


@dataclass(frozen=True, repr=False)
class TWN(Quantizer):
    """Weights: -alpha, 0 or alpha; 0 where |w| <= 0.7 mean |w| of the filter, and alpha is the mean of its other |w|.

    A filter of zeros stays 0. The gradient is g.

    Source: F. Li et al., "Ternary Weight Networks", 2016 (arXiv:1605.04711).
    """

    for_weights: ClassVar[bool] = True

    def weight(self, w: Any, axes: Axes, own: Own, training: bool) -> Tensor:
        limit, alpha = _limit_and_scale(w.array, axes)
        result: Tensor = Ternary.apply(w, wrap(limit), wrap(alpha))
        return result

    def weight_levels(self, w: Any, axes: Axes, own: Own) -> Levels:
        return Levels(_limit_and_scale(w, axes)[1], -1, 1)


def changes_sign_at_zero(quantizer: Quantizer) -> bool:
    """Whether an activation quantizer with levels -1 and 1 returns the sign of its input; a custom one may not."""
    return type(quantizer).activation in (Sign.activation, XNOR.activation, BiReal.activation)


def _limit_and_scale(w: np.ndarray, axes: Axes) -> tuple[np.ndarray, np.ndarray]:
    """Return the threshold 0.7 mean |w| of each filter, and the mean of the |w| above the threshold."""
    limit = kernels.mul(mean_abs_of(w, axes), from_host(0.7, w.dtype))
    ones = ones_like(limit)
    signs = kernels.ternary(w, limit, ones)
    total, count = kernels.sum(kernels.mul(w, signs), axes, True), kernels.norm(signs, 1, axes, True)
    return limit, kernels.div(total, kernels.maximum(count, ones))


def scaled_signs(w: np.ndarray, axes: Axes) -> Levels:
    """Return the levels of sign(w) times the mean of |w| over axes."""
    with no_grad():
        return Levels(mean_abs(wrap(w), axes).array, -1, 1, stride=2)
