"""Random Tensors, from the default generator or from the one that is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.tensor import Tensor, wrap
from .broadcasting import broadcast_shape
from .dtype import as_dtype, as_flag, float32, int64, require_float
from .operands import Constant
from .random import chosen
from .shape import TOO_LONG, either, sizes

__all__ = [
    "bernoulli",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
]


def rand(
    *extents: Any, size: Any = None, generator: Any = None, dtype: Any = float32, requires_grad: bool = False
) -> Tensor:
    """Uniform random numbers in [0, 1); of shape ``extents``, or by name ``size``.

    Raises:
        TypeError: ``dtype`` is no floating-point type.
    """
    array = chosen("rand", generator).random(sizes(either("rand", "size", extents, size)), _float("rand", dtype))
    return Tensor(np.asarray(array), requires_grad)


def randn(
    *extents: Any, size: Any = None, generator: Any = None, dtype: Any = float32, requires_grad: bool = False
) -> Tensor:
    """Random numbers of the standard normal distribution; of shape ``extents``, or by name ``size``.

    Raises:
        TypeError: ``dtype`` is no floating-point type.
    """
    shape = sizes(either("randn", "size", extents, size))
    array = chosen("randn", generator).standard_normal(shape, _float("randn", dtype))
    return Tensor(np.asarray(array), requires_grad)


def randint(
    low: int, high: Any = None, size: Any = None, generator: Any = None, dtype: Any = int64, requires_grad: bool = False
) -> Tensor:
    """Uniform random integers in [low, high); ``randint(high, size)`` starts from 0.

    Raises:
        ValueError: the range is empty, or ``size`` is missing.
    """
    if size is None or high is None:
        if size is None and high is None:
            raise ValueError("randint: size is missing: randint(low, high, size) or randint(high, size)")
        low, high, size = 0, low, high if size is None else size
    if low >= high:
        raise ValueError(f"randint: low={low} must be smaller than high={high}")
    array = np.asarray(chosen("randint", generator).integers(low, high, sizes((size,)), np.int64))
    return Tensor(array.astype(as_dtype(dtype), copy=False), requires_grad)


def randperm(n: int, generator: Any = None, dtype: Any = int64) -> Tensor:
    """The numbers 0 to n - 1 in random order.

    Raises:
        ValueError: n is negative, or too large for any memory.
    """
    if not 0 <= n < TOO_LONG:
        raise ValueError(f"randperm: n={n} must be at least 0 and below 2**60")
    return Tensor(chosen("randperm", generator).permutation(np.arange(n, dtype=as_dtype(dtype))))


def rand_like(input: Tensor, generator: Any = None, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Uniform random numbers in [0, 1) of input's shape, and of its type where ``dtype`` is None.

    Raises:
        TypeError: the type is no floating-point type.
    """
    kind = input.array.dtype if dtype is None else dtype
    return rand(input.array.shape, generator=generator, dtype=kind, requires_grad=requires_grad)


def randn_like(input: Tensor, generator: Any = None, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Standard normal random numbers of input's shape, and of its type where ``dtype`` is None.

    Raises:
        TypeError: the type is no floating-point type.
    """
    kind = input.array.dtype if dtype is None else dtype
    return randn(input.array.shape, generator=generator, dtype=kind, requires_grad=requires_grad)


def randint_like(
    input: Tensor, low: int, high: int | None = None, generator: Any = None, dtype: Any = None, requires_grad: bool =
    False
) -> Tensor:
    """Uniform random integers in [low, high), or [0, low), of input's shape and type (where ``dtype`` is None).

    Raises:
        ValueError: the range is empty.
    """
    first, last = (0, low) if high is None else (low, high)
    kind = input.array.dtype if dtype is None else dtype
    if first >= last:
        raise ValueError(f"randint_like: low={first} must be smaller than high={last}")
    return randint(first, last, input.array.shape, generator, kind, requires_grad)


def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, dtype: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Normal random numbers; ``mean`` and ``std`` are Tensors, which are broadcast, or numbers together with ``size``.

    Raises:
        ValueError: a standard deviation is negative, or ``size`` is missing or one too many.
        TypeError: the type is no floating-point type.
    """
    source = chosen("normal", generator)
    tensors = [t for t in (mean, std) if isinstance(t, Tensor)]
    if bool(tensors) == (size is not None):
        raise ValueError("normal: give size together with numbers, and without it a Tensor as mean or std")
    m, s = (t.array if isinstance(t, Tensor) else np.asarray(float(t)) for t in (mean, std))
    if (s < 0).any():
        raise ValueError(f"normal: std={s.min()} must be at least 0")
    shape = broadcast_shape("normal", m.shape, s.shape) if tensors else sizes((size,))
    kind = _float("normal", dtype or (tensors[0].array.dtype if tensors else float32))
    return Tensor(np.asarray(source.standard_normal(shape) * s + m).astype(kind), requires_grad)


def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None) -> Tensor:
    """1 with the probability that input has there (or ``p``, everywhere), else 0; input's type; the gradient is 0.

    Raises:
        TypeError: input is no floating-point Tensor.
        ValueError: a probability is not in [0, 1].
    """
    require_float("bernoulli", input)
    source = chosen("bernoulli", generator)
    probability = input.array if p is None else np.asarray(p)
    if not ((probability >= 0) & (probability <= 1)).all():
        raise ValueError("bernoulli: probabilities must lie in [0, 1]")
    drawn = np.asarray(source.random(input.array.shape) < probability)
    return Constant.apply(input, drawn.astype(input.array.dtype))


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Poisson random numbers whose rates input holds; input's type; the gradient is 0.

    Raises:
        TypeError: input is no floating-point Tensor.
        ValueError: a rate is negative or NaN.
    """
    require_float("poisson", input)
    if not (input.array >= 0).all():
        raise ValueError("poisson: rates must be at least 0")
    drawn = np.asarray(chosen("poisson", generator).poisson(input.array))
    return Constant.apply(input, drawn.astype(input.array.dtype))


def multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Tensor:
    """Places drawn with the weights that each row of input holds; int64, input (M, N) or (N,) -> (M, K) or (K,)

    num_samples: K. replacement: a place may be drawn several times.

    Raises:
        TypeError: input is no floating-point Tensor.
        ValueError: input has other axes, a weight is negative or not finite, a row has no weight above 0, or without
            ``replacement`` not ``num_samples`` of them.
    """
    require_float("multinomial", input)
    source = chosen("multinomial", generator)
    weights = np.atleast_2d(input.array).astype(np.float64)
    if input.array.ndim not in (1, 2):
        raise ValueError(f"multinomial: input.shape={input.array.shape}, needs (N,) or (M, N)")
    if num_samples < 1:
        raise ValueError(f"multinomial: num_samples={num_samples} must be at least 1")
    if not (np.isfinite(weights) & (weights >= 0)).all() or (weights.sum(1) <= 0).any():
        raise ValueError("multinomial: weights must be finite and at least 0, and one of each row above 0")
    if as_flag("multinomial", "replacement", replacement):
        ends = np.cumsum(weights, 1)
        drawn = source.random((len(weights), num_samples)) * ends[:, -1:]
        places = np.array([np.searchsorted(e, d, side="right") for e, d in zip(ends, drawn, strict=True)])
        # rounding must not lead behind the last weight above 0
        last = weights.shape[1] - 1 - (weights[:, ::-1] > 0).argmax(1)
        places = np.minimum(places, last[:, np.newaxis])
    else:
        fewest = int((weights > 0).sum(1).min(initial=num_samples))
        if num_samples > fewest:
            raise ValueError(
                f"multinomial: num_samples={num_samples}, but a row has only {fewest} weights above 0; allow "
                f"replacement"
            )
        # the smallest of exponential times come first with these weights
        with np.errstate(divide="ignore"):
            times = source.exponential(size=weights.shape) / weights
        places = np.argsort(times, 1, kind="stable")[:, :num_samples]
    places = places.reshape(len(weights), num_samples).astype(np.int64)
    return wrap(places if input.array.ndim == 2 else places[0])


def _float(name: str, dtype: Any) -> Any:
    kind = as_dtype(dtype)
    if kind.kind != "f":
        raise TypeError(f"{name}: dtype={kind} must be float32 or float64")
    return kind
