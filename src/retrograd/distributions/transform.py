"""The base of transforms: inverses, caches, several in a row, and those of axes of a batch."""

from __future__ import annotations

from typing import Any
from weakref import ref

from ..engine.arguments import as_list
from ..engine.tensor import Tensor
from . import constraints
from .utils import Shape, summed_last

__all__ = ["ComposeTransform", "IndependentTransform", "Transform"]


class Transform:
    """y = f(x): a subclass defines ``domain``, ``codomain``, ``_call``, ``_inverse`` and ``log_abs_det_jacobian``.

    cache_size: 1 keeps the last x and its y, so that ``inv(y)`` is exactly x

    Raises:
        ValueError: cache_size is neither 0 nor 1.
    """

    bijective = False
    domain: Any
    codomain: Any
    _sign: Any = None

    def __init__(self, cache_size: int = 0) -> None:
        if not isinstance(cache_size, int) or cache_size not in (0, 1):
            raise ValueError(f"{type(self).__name__}: cache_size={cache_size!r} must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached: tuple[Any, Any] = (None, None)

    @property
    def sign(self) -> Any:
        """1 of an increasing transform, -1 of a decreasing one."""
        raise NotImplementedError(f"{type(self).__name__} has no sign")

    @property
    def event_dim(self) -> int:
        """The axes of one value: of the domain, which the codomain shares."""
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
        """The transform with another cache_size.

        Raises:
            NotImplementedError: a subclass with an ``__init__`` of its own must define it.
        """
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self).__name__}: with_cache must be defined")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

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
        """The shape of y, from that of x."""
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        """The shape of x, from that of y."""
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

    __hash__ = object.__hash__

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
        raise TypeError(f"{name}: {label} is {type(value).__name__}, needs a Transform such as ExpTransform()")
    return value


class ComposeTransform(Transform):
    """Several transforms, the first one first."""

    def __init__(self, parts: Any, cache_size: int = 0) -> None:
        parts = [_transform("ComposeTransform", "parts", part) for part in as_list("ComposeTransform", "parts", parts)]
        self.parts = [part.with_cache(cache_size) if cache_size else part for part in parts]
        super().__init__(cache_size)
        self.bijective = all(part.bijective for part in self.parts)
        self.domain, self.codomain = self._ends()

    def _ends(self) -> tuple[Any, Any]:
        """The sets with as many axes as all parts together need."""
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
        """The transform with another cache_size."""
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

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
        """The shape of y, from that of x."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        """The shape of x, from that of y."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts})"


class IndependentTransform(Transform):
    """A transform of the elements of an event with more axes, over which ``log_abs_det_jacobian`` is summed."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        _transform("IndependentTransform", "base_transform", base_transform)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform, reinterpreted_batch_ndims
        self.bijective = base_transform.bijective
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)

    @property
    def sign(self) -> Any:
        """That of the base transform."""
        return self.base_transform.sign

    def with_cache(self, cache_size: int = 1) -> IndependentTransform:
        """The transform with another cache_size."""
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
