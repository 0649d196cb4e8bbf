"""The base class Distribution, and helpers for parameters and random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from ..arrays import all_true, from_host
from ..engine.arguments import as_list, kind_name
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor, wrap
from ..kernel_set import exact, kernels
from ..ops.argument_checks import as_real, as_truth, is_number
from ..ops.creation import on_device_of
from ..ops.dtypes.dtype import cast
from ..ops.dtypes.promotion import promoted_type
from ..ops.normalization.softmax import softmax
from ..ops.pointwise.exponential import sigmoid
from ..ops.random.random import as_generator
from ..ops.random.sampling import randn
from ..ops.shape.join import broadcast_tensors
from . import constraints

__all__ = ["Distribution", "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"]


# ---- Helpers: broadcasting of parameters, logits and probabilities, random numbers ----------------------------------

Shape = tuple[int, ...]


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Convert Tensors and numbers to floating-point Tensors of one shape and dtype.

    Raises:
        ValueError: a value is neither a Tensor nor a number, or the shapes do not broadcast.
    """
    first = values[0]
    if isinstance(first, Tensor) and first.array.dtype.kind == "f":  # the usual case
        shape, dtype = first.array.shape, first.array.dtype
        if all(isinstance(v, Tensor) and v.array.shape == shape and v.array.dtype is dtype for v in values):
            return values
    for value in values:
        if not isinstance(value, Tensor) and not is_number(value):
            raise ValueError(f"broadcast_all: got {kind_name(value)}, needs Tensors and numbers")
    arrays = [value.array for value in values if isinstance(value, Tensor)]
    dtype = promoted_type(*arrays) if arrays else np.dtype(np.float32)
    if dtype.kind != "f":
        dtype = np.dtype(np.float32)
    tensors = [
        cast(v, dtype) if isinstance(v, Tensor) else wrap(from_host(as_real("broadcast_all", "value", v), dtype))
        for v in values
    ]
    return tuple(broadcast_tensors(*tensors))


def standard_normal(shape: Shape, like: Tensor) -> Tensor:
    """Return standard normal random numbers of ``like``'s type."""
    return on_device_of(randn(shape, dtype=like.array.dtype), like)


def uniform(shape: Shape, like: Tensor) -> Tensor:
    """Return uniform random numbers in the open interval (0, 1), of ``like``'s type."""
    dtype = like.array.dtype
    limits = np.finfo(dtype)
    drawn = from_host(as_generator("sample", None).random(shape, dtype), dtype, like=like.array)
    return wrap(kernels.clamp(drawn, float(limits.tiny), float(1 - limits.eps / 2)))


def draw_numpy(draw: Callable[[np.random.Generator], Any], like: Tensor) -> Tensor:
    """Return the result of ``draw`` with NumPy's generator, in ``like``'s type."""
    return wrap(exact("cast")(from_host(draw(as_generator("sample", None)), like=like.array), like.array.dtype))


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamp probabilities away from 0 and 1 by the type's precision."""
    eps = float(np.finfo(probs.array.dtype).eps)
    return probs.clamp(eps, 1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The sigmoid, or the softmax along the last axis."""
    return sigmoid(logits) if is_binary else softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """log(p / (1 - p)), or log p, of probabilities that are clamped first."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property:  # noqa: N801  PyTorch's name
    """A property that is computed once, when it is first read."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__: str = wrapped.__name__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        value = self.wrapped(instance)
        instance.__dict__[self.__name__] = value
        return value


def require_one(name: str, probs: Any, logits: Any) -> None:
    """Raise a ValueError unless exactly one of the two is given."""
    if (probs is None) == (logits is None):
        raise ValueError(f"{name}: give probs or logits, not {'both' if probs is not None else 'none'}")


def enumerated(values: np.ndarray, batch_shape: Shape, expand: bool) -> Tensor:
    """Return the values (K,) along a new first axis; the batch axes after it have extent 1 unless ``expand``."""
    found = wrap(values.reshape((values.size, *(1,) * len(batch_shape))))
    return found.expand((values.size, *batch_shape)) if expand else found


def summed_last(x: Tensor, count: int) -> Tensor:
    """Sum x over its last ``count`` axes."""
    return x.sum(tuple(range(-count, 0))) if count else x


# ---- The base class of distributions --------------------------------------------------------------------------------


class Distribution:
    """A probability distribution, or a batch of them.

    A sample has the shape sample_shape + batch_shape + event_shape: ``sample_shape`` is the requested shape, the
    distributions of a batch have different parameters, and an event is one value of one distribution.

    validate_args: whether parameters and values are checked; by default they are

    Source: the contract of torch.distributions.Distribution.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args: bool = True
    arg_constraints: ClassVar[dict[str, Any]] = {}
    support: Any = constraints.dependent

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape: Shape = tuple(as_list(type(self).__name__, "batch_shape", batch_shape, "a tuple of ints"))
        self._event_shape: Shape = tuple(as_list(type(self).__name__, "event_shape", event_shape, "a tuple of ints"))
        if validate_args is not None:
            self._validate_args = as_truth(type(self).__name__, "validate_args", validate_args)
        if not self._validate_args:
            return
        for name, constraint in self.arg_constraints.items():
            if name not in self.__dict__ or constraints.is_dependent(constraint):
                continue  # the other form of a parameter, or one that cannot be checked alone
            value = self.__dict__[name]
            if not all_true(constraint.check(value).array, "whether parameters are allowed"):
                raise ValueError(
                    f"{type(self).__name__}: {name} must satisfy {constraint!r}, but has other values: {value}; "
                    "validate_args=False skips the check"
                )

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether new distributions check their parameters and values by default.

        Raises:
            TypeError: value is neither True nor False.
        """
        Distribution._validate_args = as_truth("set_default_validate_args", "value", value)

    @property
    def batch_shape(self) -> Shape:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Shape:
        """The shape of one value of one distribution."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def mode(self) -> Tensor:
        """The most probable value."""
        raise NotImplementedError(f"{type(self).__name__} has no mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw random values without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw random values that are differentiable with respect to the parameters, if ``has_rsample``."""
        raise NotImplementedError(
            f"{type(self).__name__} has no rsample: its values have no gradient to the parameters; use sample"
        )

    def sample_n(self, n: int) -> Tensor:
        """``sample((n,))``"""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, of a value."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to ``value``."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability: the inverse of ``cdf``."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a new first axis."""
        raise NotImplementedError(f"{type(self).__name__} has no enumerate_support")

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Tensor:
        """exp(entropy)"""
        return self.entropy().exp()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """Return the distribution with its parameters expanded to another batch_shape."""
        shape = tuple(as_list(type(self).__name__, "batch_shape", batch_shape, "a tuple of ints"))
        new: Self = type(self).__new__(type(self)) if _instance is None else _instance
        kept = len(self._batch_shape)
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor) and name in self._expanded():
                value = value.expand(shape + value.array.shape[kept:])
            elif isinstance(value, Tensor):
                continue  # lazily computed
            new.__dict__[name] = value
        new._batch_shape = shape
        return new

    def _expanded(self) -> Any:
        """The names of the parameters."""
        return self.arg_constraints

    def _extended_shape(self, sample_shape: Any = ()) -> Shape:
        return (*sample_shape, *self._batch_shape, *self._event_shape)

    def _validate_sample(self, value: Tensor) -> None:
        """Raise a ValueError or TypeError unless the value has a matching shape and is in the support."""
        name = type(self).__name__
        if not isinstance(value, Tensor):
            raise ValueError(f"{name}: value is {kind_name(value)}, needs a Tensor")
        if not self._validate_args:
            return
        event = len(self._event_shape)
        shape = value.array.shape
        if len(shape) < event or shape[len(shape) - event :] != self._event_shape:
            raise ValueError(f"{name}: value.shape={shape} must end in event_shape={self._event_shape}")
        lead = shape[: len(shape) - event]
        try:
            if lead != self._batch_shape:
                np.broadcast_shapes(lead, self._batch_shape)
        except ValueError:
            raise ValueError(
                f"{name}: value.shape={shape} does not broadcast with batch_shape={self._batch_shape} and "
                f"event_shape={self._event_shape}"
            ) from None
        support = self.support
        if constraints.is_dependent(support):
            return
        if not all_true(support.check(value).array, "whether a value is in the support"):
            raise ValueError(
                f"{name}: the value must satisfy {support!r}, but has others: {value.detach()}; validate_args=False "
                "skips the check"
            )

    def __repr__(self) -> str:
        parts = []
        for name in self._expanded():
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                parts.append(f"{name}: {value.item() if value.array.size == 1 else value.array.shape}")
        return f"{type(self).__name__}({', '.join(parts)})"
