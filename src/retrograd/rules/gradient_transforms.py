"""Rules that transform the gradient: reversal, clipping, noise, rounding and guided backpropagation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import from_host
from ..engine.backward_rules import register_backward_rule
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from ..ops.argument_checks import require_number
from ..ops.pointwise.gating import StraightThrough
from ..ops.pointwise.piecewise import clamp, where
from ..ops.random.random import default_generator
from .base import Options

__all__ = ["ClippedNorm", "ClippedValue", "Noise", "Reversal", "Rounded", "guided"]


def of_each(change: Callable[[Tensor], Tensor], found: Any) -> Any:
    """Apply a change to each gradient of the true backward; None stays None."""
    if not isinstance(found, tuple):
        return None if found is None else change(found)
    return tuple([None if gradient is None else change(gradient) for gradient in found])


@dataclass(frozen=True, repr=False)
class Reversal(Options):
    """-scale g: layers below learn the opposite objective, as in domain adaptation.

    Source: Y. Ganin, V. Lempitsky, "Unsupervised Domain Adaptation by Backpropagation", 2015 (arXiv:1409.7495).
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        self._positive("scale")

    def __call__(self, true: Any, g: Tensor) -> Any:
        return true(g * -self.scale)


@dataclass(frozen=True, repr=False)
class ClippedValue(Options):
    """Each gradient of the call limited to -limit and limit, element by element.

    Source: T. Mikolov, "Statistical Language Models Based on Neural Networks", 2012.
    """

    limit: float = 1.0

    def __post_init__(self) -> None:
        self._positive("limit")

    def __call__(self, true: Any, *g: Tensor) -> Any:
        return of_each(lambda each: clamp(each, -self.limit, self.limit), true(*g))


@dataclass(frozen=True, repr=False)
class ClippedNorm(Options):
    """Each gradient v of the call as v min(1, limit / |v|), |v| its Euclidean norm.

    Source: R. Pascanu et al., "On the difficulty of training Recurrent Neural Networks", 2013 (arXiv:1211.5063).
    """

    limit: float = 1.0

    def __post_init__(self) -> None:
        self._positive("limit")

    def __call__(self, true: Any, *g: Tensor) -> Any:
        return of_each(self._clip, true(*g))

    def _clip(self, v: Tensor) -> Tensor:
        norm = (v * v).sum().sqrt()
        return where(norm > self.limit, v * (self.limit / norm), v)


@dataclass(frozen=True, repr=False)
class Noise(Options):
    """Each gradient of the call plus normal noise with standard deviation ``std``, from retrograd's generator.

    Source: A. Neelakantan et al., "Adding Gradient Noise Improves Learning for Very Deep Networks", 2015
    (arXiv:1511.06807).
    """

    std: float = 0.01

    def __post_init__(self) -> None:
        self._positive("std")

    def __call__(self, true: Any, *g: Tensor) -> Any:
        return of_each(self._add, true(*g))

    def _add(self, v: Tensor) -> Tensor:
        dtype = v.array.dtype
        drawn = from_host(default_generator.standard_normal(v.array.shape, dtype), dtype, like=v.array)
        return v + wrap(kernels.mul(drawn, from_host(self.std, dtype)))


@dataclass(frozen=True, repr=False)
class Rounded(Options):
    """Each gradient v of the call rounded to bfloat16, or to multiples of max |v| / (2**(bits - 1) - 1); ties to even.

    bits: 2 to 16, for a uniform grid; None: bfloat16. A second derivative treats the rounding as the identity.

    Source: S. Zhou et al., "DoReFa-Net", 2016 (arXiv:1606.06160); D. Kalamkar et al., "A Study of BFLOAT16 for Deep
    Learning Training", 2019 (arXiv:1905.12322).
    """

    bits: int | None = None

    def __post_init__(self) -> None:
        if self.bits is not None:
            self._integer("bits", 2, 16)

    def __call__(self, true: Any, *g: Tensor) -> Any:
        return of_each(lambda v: StraightThrough.apply(v, self._rounded(v.array)), true(*g))

    def _rounded(self, v: np.ndarray) -> np.ndarray:
        found: np.ndarray
        found = kernels.round_to_bfloat16(v) if self.bits is None else kernels.round_to_grid(v, self.bits)
        return found


def guided(g: Tensor, x: Tensor) -> Tensor:
    """g where g > 0 and x > 0, 0 elsewhere: guided backpropagation, for relu.

    Source: J. T. Springenberg et al., "Striving for Simplicity", 2015 (arXiv:1412.6806).
    """
    require_number("guided", g, "g")
    require_number("guided", x, "x")
    return where((g > 0.0) & (x > 0.0), g, 0.0)


register_backward_rule("reversal", Reversal())
register_backward_rule("clipped_value", ClippedValue())
register_backward_rule("clipped_norm", ClippedNorm())
register_backward_rule("noise", Noise())
register_backward_rule("bfloat16", Rounded())
register_backward_rule("guided", guided)
