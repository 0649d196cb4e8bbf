"""Constraints on the values of parameters and samples: ``constraint.check(value)`` checks each event."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Final

from ..arrays import all_true, from_host, full, moveaxis
from ..engine.tensor import Tensor, wrap
from ..kernel_set import exact, kernels
from ..ops.linalg.decompositions import cholesky_ex

__all__ = [
    "Constraint",
    "boolean",
    "cat",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "real",
    "real_vector",
    "simplex",
    "square",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values, each of which has ``event_dim`` trailing axes."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Return a mask of the events of ``value`` that are in the set."""
        raise NotImplementedError("check: a Constraint must define it")

    def __repr__(self) -> str:
        return f"{type(self).__name__.strip('_')}({', '.join(f'{k}={v}' for k, v in vars(self).items())})"


class _Dependent(Constraint):
    """A constraint that depends on parameters and has no ``check``."""

    event_dim: int
    is_discrete: bool

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete, self.event_dim = is_discrete, event_dim


class dependent_property(property, _Dependent):  # noqa: N801  PyTorch's name
    """A property that returns a Constraint; read from the class, it is itself a dependent constraint."""

    event_dim: int
    is_discrete: bool

    def __init__(self, fn: Any = None, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> dependent_property:
        """Use the property as a decorator with options."""
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: Any) -> bool:
    """Return whether the constraint depends on parameters."""
    return isinstance(constraint, _Dependent)


class independent(Constraint):  # noqa: N801  PyTorch's name
    """``base_constraint`` applied to all elements of the last axes."""

    base_constraint: Constraint
    reinterpreted_batch_ndims: int

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        self.is_discrete: bool = base_constraint.is_discrete
        self.event_dim: int = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        """Return a mask of the events whose elements, along the last axes, are all in the base constraint's set."""
        found = self.base_constraint.check(value).array
        return wrap(kernels.all_of_event(found, self.reinterpreted_batch_ndims))


class cat(Constraint):  # noqa: N801  PyTorch's name
    """Several constraints, each for a range of positions along an axis."""

    def __init__(self, cseq: Any, dim: int = 0, lengths: Any = None) -> None:
        self.cseq: list[Any] = [*cseq]
        self.lengths: list[int] | list[Any] = [1] * len(self.cseq) if lengths is None else [*lengths]
        self.dim = dim
        self.is_discrete: bool = any(each.is_discrete for each in self.cseq)
        self.event_dim: Any = max(each.event_dim for each in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        """Check each part by its own constraint, and return the masks concatenated along the axis."""
        along, ends = moveaxis(value.array, self.dim, 0), [*accumulate(self.lengths)]
        begins: list[Any] = [0, *ends[:-1]]
        places = [slice(begin, end) for begin, end in zip(begins, [*ends[:-1], None], strict=True)]
        parts = [moveaxis(along[place], 0, self.dim) for place in places]
        found = [each.check(wrap(part)).array for each, part in zip(self.cseq, parts, strict=True)]
        return wrap(exact("concatenate")(found, self.dim))


def _within(
    value: Tensor, low: Any, high: Any, with_low: bool = True, with_high: bool = True, integral: bool = False
) -> Tensor:
    """Return a mask of the elements within the bounds (Tensors, numbers or None); `integral`: and are integers."""
    low, high = (bound.array if isinstance(bound, Tensor) else bound for bound in (low, high))
    return wrap(kernels.within_bounds(value.array, low, high, with_low, with_high, integral))


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return wrap(kernels.is_real(value.array))


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return wrap(kernels.is_boolean(value.array))


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return wrap(kernels.is_one_hot(value.array))


class _IntegerInterval(Constraint):
    lower_bound: Any
    upper_bound: Any

    is_discrete = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return _within(value, self.lower_bound, self.upper_bound, integral=True)


class _IntegerGreaterThan(Constraint):
    is_discrete = True

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return _within(value, self.lower_bound, None, integral=True)


class _GreaterThan(Constraint):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return _within(value, self.lower_bound, None, with_low=False)


class _GreaterThanEq(Constraint):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return _within(value, self.lower_bound, None)


class _LessThan(Constraint):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return _within(value, None, self.upper_bound, with_high=False)


class _Interval(Constraint):
    lower_bound: Any
    upper_bound: Any

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return _within(value, self.lower_bound, self.upper_bound)


class _HalfOpenInterval(Constraint):
    lower_bound: Any
    upper_bound: Any

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return _within(value, self.lower_bound, self.upper_bound, with_high=False)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return wrap(kernels.is_simplex(value.array))


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: int) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return wrap(kernels.is_multinomial(value.array, self.upper_bound))


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return wrap(kernels.is_lower_cholesky(value.array))


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        rows, columns = value.array.shape[-2:]
        return wrap(full(value.array.shape[:-2], rows == columns, like=value.array))


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        rows, columns = value.array.shape[-2:]
        return wrap(kernels.is_symmetric(value.array)) if rows == columns else super().check(value)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not all_true(symmetric.array, "whether matrices are symmetric"):
            return symmetric
        info = cholesky_ex(value.detach()).info.array
        return wrap(exact("eq")(info, from_host(0, info.dtype)))


dependent: Final = _Dependent()
real: Final = _Real()
boolean: Final = _Boolean()
one_hot: Final = _OneHot()
simplex: Final = _Simplex()
nonnegative_integer: Final = _IntegerGreaterThan(0)
positive_integer: Final = _IntegerGreaterThan(1)
positive: Final = _GreaterThan(0.0)
nonnegative: Final = _GreaterThanEq(0.0)
unit_interval: Final = _Interval(0.0, 1.0)
real_vector: Final = independent(real, 1)
lower_cholesky: Final = _LowerCholesky()
square: Final = _Square()
symmetric: Final = _Symmetric()
positive_definite: Final = _PositiveDefinite()
integer_interval: Final = _IntegerInterval
interval: Final = _Interval
half_open_interval: Final = _HalfOpenInterval
greater_than: Final = _GreaterThan
greater_than_eq: Final = _GreaterThanEq
less_than: Final = _LessThan
multinomial: Final = _Multinomial
