"""Invertible transforms of variables, with the logarithm of their Jacobian determinant."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays import from_host, full_like, same
from ..engine.tensor import Tensor, wrap
from ..ops.arguments.checks import as_real, is_number
from ..ops.normalization.softmax import softmax
from ..ops.pointwise.activation import logsigmoid, softplus
from ..ops.pointwise.transcendental import sigmoid
from . import constraints
from .transform import ComposeTransform, IndependentTransform, Transform
from .utils import Shape, summed_last

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "ComposeTransform",
    "ExpTransform",
    "IndependentTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class _Simple(Transform):
    """A bijective transform of numbers that has no parameters and increases."""

    bijective = True

    @property
    def sign(self) -> int:
        """1"""
        return 1

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__


class ExpTransform(_Simple):
    """y = exp(x)"""

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """x"""
        return x


class SigmoidTransform(_Simple):
    """y = 1 / (1 + exp(-x))"""

    domain, codomain = constraints.real, constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        limits = np.finfo(x.array.dtype)
        return sigmoid(x).clamp(float(limits.tiny), 1 - float(limits.eps))

    def _inverse(self, y: Tensor) -> Tensor:
        limits = np.finfo(y.array.dtype)
        y = y.clamp(float(limits.tiny), 1 - float(limits.eps))
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-softplus(-x) - softplus(x)"""
        return logsigmoid(x) - softplus(x)


class TanhTransform(_Simple):
    """y = tanh(x); with cache_size=1 the inverse of its own results is exact."""

    domain, codomain = constraints.real, constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """2 (log(2) - x - softplus(-2 x)), which is log(1 - tanh(x)**2) without cancellation"""
        return (math.log(2.0) - x - softplus(x * -2.0)) * 2.0


class SoftplusTransform(_Simple):
    """y = log(1 + exp(x))"""

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-softplus(-x)"""
        return logsigmoid(x)


class AbsTransform(Transform):
    """y = |x|, whose inverse is y itself"""

    domain, codomain = constraints.real, constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class SoftmaxTransform(Transform):
    """The softmax along the last axis, whose inverse is the logarithm."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class PowerTransform(Transform):
    """y = x**exponent of positive x; a Tensor or a number"""

    domain, codomain = constraints.positive, constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        if not isinstance(exponent, Tensor):
            exponent = wrap(from_host(as_real("PowerTransform", "exponent", exponent), np.float32))
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        """That of the exponent."""
        return self.exponent.sign()

    def with_cache(self, cache_size: int = 1) -> PowerTransform:
        """The transform with another cache_size."""
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |exponent y / x|"""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Shape:
        """The shape of y, from that of x."""
        return np.broadcast_shapes(shape, self.exponent.array.shape)

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """y = loc + scale x: Tensors or numbers; ``event_dim`` axes belong to one value"""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale = loc, scale
        real = constraints.real
        self.domain = self.codomain = constraints.independent(real, event_dim) if event_dim else real

    @property
    def sign(self) -> Any:
        """That of scale."""
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def with_cache(self, cache_size: int = 1) -> AffineTransform:
        """The transform with another cache_size."""
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return all(_equal(getattr(self, name), getattr(other, name)) for name in ("loc", "scale"))

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |scale|, for each element of an event"""
        if isinstance(self.scale, Tensor):
            found = self.scale.abs().log().expand(np.broadcast_shapes(self.scale.array.shape, x.array.shape))
        else:
            found = wrap(full_like(x.array, math.log(abs(self.scale))))
        return summed_last(found, self.event_dim)

    def forward_shape(self, shape: Shape) -> Shape:
        """The shape of y, from that of x."""
        own = [value.array.shape for value in (self.loc, self.scale) if isinstance(value, Tensor)]
        return np.broadcast_shapes(shape, *own)

    inverse_shape = forward_shape

    def __repr__(self) -> str:
        return f"AffineTransform(loc={self.loc}, scale={self.scale})"


def _equal(x: Any, y: Any) -> bool:
    if is_number(x) and is_number(y):
        return bool(x == y)
    if x is y or not all(isinstance(v, Tensor) for v in (x, y)):
        return x is y
    return same(x.array, y.array, "whether transforms are equal")


identity_transform = ComposeTransform([])
