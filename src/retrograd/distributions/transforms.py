"""Invertible transforms, with the log-determinant of their Jacobian."""

from __future__ import annotations

import math
from typing import Any, Final
from weakref import ref

import numpy as np

from ..arrays import from_host, full_like, same
from ..engine.arguments import as_list, kind_name
from ..engine.tensor import Tensor, wrap
from ..ops.argument_checks import as_real, is_number
from ..ops.normalization.softmax import softmax
from ..ops.pointwise.activation import logsigmoid, softplus
from ..ops.pointwise.exponential import sigmoid
from . import constraints
from .constraints import Constraint
from .distribution import Shape, summed_last

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


# ---- Base classes: inverse, cache, composition, and transforms over batch axes --------------------------------------


class Transform:
    """y = f(x): a subclass defines ``domain``, ``codomain``, ``_call``, ``_inverse`` and ``log_abs_det_jacobian``.

    cache_size: 1 keeps the last x and its y, so that ``inv(y)`` is exactly x

    Raises:
        ValueError: cache_size is neither 0 nor 1.
    """

    bijective = False
    domain: Constraint
    codomain: Constraint
    _sign: Any = None

    def __init__(self, cache_size: int = 0) -> None:
        if not isinstance(cache_size, int) or cache_size not in (0, 1):
            raise ValueError(f"{type(self).__name__}: cache_size={cache_size!r} must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached: tuple[Any, Any] = (None, None)

    @property
    def sign(self) -> Any:
        """1 for an increasing transform, -1 for a decreasing one."""
        raise NotImplementedError(f"{type(self).__name__} has no sign")

    @property
    def event_dim(self) -> int:
        """The number of axes of one value, shared by domain and codomain."""
        found: int = self.domain.event_dim
        return found

    @property
    def inv(self) -> Any:
        """The inverse transform."""
        found = self._inv() if self._inv is not None else None
        if found is None:
            found = _InverseTransform(self)
            self._inv = ref(found)
        return found

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the transform with another cache_size.

        Raises:
            NotImplementedError: a subclass defines ``__init__`` without ``with_cache``.
        """
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self).__name__}: with_cache must be defined")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__: Any = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        """f(x)"""
        if not self._cache_size:
            return self._call(x)
        old_x, old_y = self._cached
        if x is old_x:
            return old_y
        y = self._call(x)
        self._cached = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if not self._cache_size:
            return self._inverse(y)
        old_x, old_y = self._cached
        if y is old_y:
            return old_x
        x = self._inverse(y)
        self._cached = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: _call must be defined")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: _inverse must be defined")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |det dy/dx|, from x and y = f(x)"""
        raise NotImplementedError(f"{type(self).__name__}: log_abs_det_jacobian must be defined")

    def forward_shape(self, shape: Shape) -> Shape:
        """Return the shape of y for the shape of x."""
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        """Return the shape of x for the shape of y."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    """x = f^-1(y)"""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._forward = transform
        self.domain, self.codomain = transform.codomain, transform.domain
        self.bijective = transform.bijective

    @property
    def sign(self) -> Any:
        return self._forward.sign

    @property
    def inv(self) -> Transform:
        return self._forward

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._forward == other._forward

    __hash__: Any = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        return self._forward._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._forward.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Shape:
        return self._forward.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self._forward.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{self._forward!r}.inv"


def _transform(name: str, label: str, value: Any) -> Transform:
    if not isinstance(value, Transform):
        raise TypeError(f"{name}: {label} is {kind_name(value)}, needs a Transform such as ExpTransform()")
    return value


class ComposeTransform(Transform):
    """A composition of transforms, applied in order."""

    def __init__(self, parts: Any, cache_size: int = 0) -> None:
        parts = [_transform("ComposeTransform", "parts", part) for part in as_list("ComposeTransform", "parts", parts)]
        self.parts: list[Any] = [part.with_cache(cache_size) if cache_size else part for part in parts]
        super().__init__(cache_size)
        self.bijective: bool = all(part.bijective for part in self.parts)
        self.domain, self.codomain = self._ends()

    def _ends(self) -> tuple[Any, Any]:
        """Return domain and codomain, with as many event axes as the composition of the parts needs."""
        if not self.parts:
            return constraints.real, constraints.real
        first, last = self.parts[0].domain, self.parts[-1].codomain
        before, after = last.event_dim, first.event_dim
        for part in reversed(self.parts):
            before = max(before + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        for part in self.parts:
            after = max(after + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        if before > first.event_dim:
            first = constraints.independent(first, before - first.event_dim)
        if after > last.event_dim:
            last = constraints.independent(last, after - last.event_dim)
        return first, last

    @property
    def sign(self) -> Any:
        """The product of the parts' signs."""
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    def with_cache(self, cache_size: int = 1) -> ComposeTransform:
        """Return the transform with another cache_size."""
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__: Any = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the parts."""
        if not self.parts:
            return x * 0
        total: Any = 0.0
        event_dim = self.domain.event_dim
        for part in self.parts:
            following = part(x)
            total = total + summed_last(part.log_abs_det_jacobian(x, following), event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = following
        return total

    def forward_shape(self, shape: Shape) -> Shape:
        """Return the shape of y for the shape of x."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        """Return the shape of x for the shape of y."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts})"


class IndependentTransform(Transform):
    """A transform of the elements of an event with more axes, over which ``log_abs_det_jacobian`` is summed."""

    base_transform: Transform
    reinterpreted_batch_ndims: int

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        _transform("IndependentTransform", "base_transform", base_transform)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform, reinterpreted_batch_ndims
        self.bijective: bool = base_transform.bijective
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)

    @property
    def sign(self) -> Any:
        """The sign of the base transform."""
        return self.base_transform.sign

    def with_cache(self, cache_size: int = 1) -> IndependentTransform:
        """Return the transform with another cache_size."""
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        found: Tensor = self.base_transform.inv(y)
        return found

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over an event's elements."""
        return summed_last(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


# ---- Elementwise transforms, softmax and affine ---------------------------------------------------------------------


class _Simple(Transform):
    """Base of increasing, bijective transforms of numbers without parameters."""

    bijective = True

    @property
    def sign(self) -> int:
        """1"""
        return 1

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__: Any = object.__hash__


class ExpTransform(_Simple):
    """y = exp(x)"""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """x"""
        return x


class SigmoidTransform(_Simple):
    """y = 1 / (1 + exp(-x))"""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.unit_interval

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
    """y = tanh(x); with cache_size=1 the inverse of its results is exact."""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """2 (log(2) - x - softplus(-2 x)), which is log(1 - tanh(x)**2) without cancellation"""
        return (math.log(2.0) - x - softplus(x * -2.0)) * 2.0


class SoftplusTransform(_Simple):
    """y = log(1 + exp(x))"""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-softplus(-x)"""
        return logsigmoid(x)


class AbsTransform(Transform):
    """y = |x|, whose inverse is y itself"""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__: Any = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class SoftmaxTransform(Transform):
    """The softmax along the last axis, whose inverse is the logarithm."""

    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__: Any = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class PowerTransform(Transform):
    """y = x**exponent for positive x; ``exponent`` is a Tensor or a number"""

    domain: Constraint = constraints.positive
    codomain: Constraint = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        if not isinstance(exponent, Tensor):
            exponent = wrap(from_host(as_real("PowerTransform", "exponent", exponent), np.float32))
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        """The sign of the exponent."""
        return self.exponent.sign()

    def with_cache(self, cache_size: int = 1) -> PowerTransform:
        """Return the transform with another cache_size."""
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |exponent y / x|"""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Shape:
        """Return the shape of y for the shape of x."""
        return np.broadcast_shapes(shape, self.exponent.array.shape)

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """y = loc + scale x, with Tensors or numbers; the last ``event_dim`` axes form one event"""

    loc: Any
    scale: Any

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale = loc, scale
        real = constraints.real
        self.domain = self.codomain = constraints.independent(real, event_dim) if event_dim else real

    @property
    def sign(self) -> Any:
        """The sign of scale."""
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def with_cache(self, cache_size: int = 1) -> AffineTransform:
        """Return the transform with another cache_size."""
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return all(_equal(getattr(self, name), getattr(other, name)) for name in ("loc", "scale"))

    __hash__: Any = object.__hash__

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
        """Return the shape of y for the shape of x."""
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


identity_transform: Final = ComposeTransform([])
