"""Helpers of the distributions: parameters as Tensors of one shape, logits and probabilities, random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import from_host
from ..engine.tensor import Tensor, wrap
from ..kernel_set import exact, kernels
from ..ops.arguments.checks import as_real, is_number
from ..ops.creation.creation import beside
from ..ops.dtypes.dtype import cast
from ..ops.dtypes.promotion import promoted_type
from ..ops.normalization.softmax import softmax
from ..ops.pointwise.transcendental import sigmoid
from ..ops.random.random import chosen
from ..ops.random.sampling import randn
from ..ops.shape.join import broadcast_tensors

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"]

Shape = tuple[int, ...]


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as floating-point Tensors of one shape and type.

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
            raise ValueError(f"broadcast_all: {type(value).__name__} is given, needs Tensors and numbers")
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
    """Standard normal random numbers of ``like``'s type."""
    return beside(randn(shape, dtype=like.array.dtype), like)


def uniform(shape: Shape, like: Tensor) -> Tensor:
    """Uniform random numbers, never 0 nor 1, of ``like``'s type."""
    dtype = like.array.dtype
    limits = np.finfo(dtype)
    drawn = from_host(chosen("sample", None).random(shape, dtype), dtype, like=like.array)
    return wrap(kernels.clamp(drawn, float(limits.tiny), float(1 - limits.eps / 2)))


def drawn(draw: Callable[[np.random.Generator], Any], like: Tensor) -> Tensor:
    """Return what ``draw`` gets from NumPy's generator, in ``like``'s type."""
    return wrap(exact("cast")(from_host(draw(chosen("sample", None)), like=like.array), like.array.dtype))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the type's precision."""
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
        self.__name__ = wrapped.__name__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        value = self.wrapped(instance)
        instance.__dict__[self.__name__] = value
        return value


def require_one(name: str, probs: Any, logits: Any) -> None:
    """ValueError unless exactly one of the two is given."""
    if (probs is None) == (logits is None):
        raise ValueError(f"{name}: give probs or logits, not {'both' if probs is not None else 'none'}")


def enumerated(values: np.ndarray, batch_shape: Shape, expand: bool) -> Tensor:
    """Values (K,) along a first axis, before those of the batch, whose extents are 1 unless ``expand``."""
    found = wrap(values.reshape((values.size, *(1,) * len(batch_shape))))
    return found.expand((values.size, *batch_shape)) if expand else found


def summed_last(x: Tensor, count: int) -> Tensor:
    """x summed over its last ``count`` axes."""
    return x.sum(tuple(range(-count, 0))) if count else x
