"""Methods that fill a tensor with random numbers in place: ``x.uniform_()``; the gradient to the old values is 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import from_host
from ...engine.inplace import Replaced, modify
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..arguments.checks import as_real
from ..dtypes.dtype import converted
from .random import chosen


@operator(records=Replaced, methods="uniform_", dtypes="hf")
def uniform_(input: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill input with uniform random numbers in [from_, to).

    Raises:
        TypeError: input does not hold floating-point numbers.
        ValueError: ``from_`` is above ``to``. And as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(uniform_, locals())) is not None:
        return seen
    from_, to = as_real("uniform_", "from_", from_), as_real("uniform_", "to", to)
    if not from_ <= to:
        raise ValueError(f"uniform_: from_={from_} must not be above to={to}")
    return _fill("uniform_", input, generator, lambda rng, shape: rng.random(shape) * (to - from_) + from_)


@operator(records=Replaced, methods="normal_", dtypes="hf")
def normal_(input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill input with normal random numbers.

    Raises:
        TypeError: input does not hold floating-point numbers.
        ValueError: ``std`` is negative. And as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(normal_, locals())) is not None:
        return seen
    mean, std = as_real("normal_", "mean", mean), as_real("normal_", "std", std)
    if not std >= 0:
        raise ValueError(f"normal_: std={std} must be at least 0")
    return _fill("normal_", input, generator, lambda rng, shape: rng.standard_normal(shape) * std + mean)


@operator(records=Replaced, methods="exponential_", dtypes="hf")
def exponential_(input: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill input with exponential random numbers of the rate ``lambd``.

    Raises:
        TypeError: input does not hold floating-point numbers.
        ValueError: ``lambd`` is not above 0. And as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(exponential_, locals())) is not None:
        return seen
    lambd = as_real("exponential_", "lambd", lambd)
    if not lambd > 0:
        raise ValueError(f"exponential_: lambd={lambd} must be above 0")
    return _fill("exponential_", input, generator, lambda rng, shape: rng.exponential(1 / lambd, shape))


@operator(records=Replaced, methods="cauchy_", dtypes="hf")
def cauchy_(input: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill input with numbers of the Cauchy distribution about ``median`` with the scale ``sigma``.

    Raises:
        TypeError: input does not hold floating-point numbers.
        ValueError: ``sigma`` is not above 0. And as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(cauchy_, locals())) is not None:
        return seen
    median, sigma = as_real("cauchy_", "median", median), as_real("cauchy_", "sigma", sigma)
    if not sigma > 0:
        raise ValueError(f"cauchy_: sigma={sigma} must be above 0")
    return _fill("cauchy_", input, generator, lambda rng, shape: rng.standard_cauchy(shape) * sigma + median)


@operator(records=Replaced, methods="log_normal_", dtypes="hf")
def log_normal_(input: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Fill input with exp of normal random numbers.

    Raises:
        TypeError: input does not hold floating-point numbers.
        ValueError: ``std`` is not above 0. And as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(log_normal_, locals())) is not None:
        return seen
    mean, std = as_real("log_normal_", "mean", mean), as_real("log_normal_", "std", std)
    if not std > 0:
        raise ValueError(f"log_normal_: std={std} must be above 0")
    return _fill("log_normal_", input, generator, lambda rng, shape: rng.lognormal(mean, std, shape))


@operator(records=Replaced, methods="geometric_", dtypes="bihf")
def geometric_(input: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fill input with the number of trials up to the first success, each succeeds with probability p.

    Raises:
        ValueError: p is not in (0, 1). And as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(geometric_, locals())) is not None:
        return seen
    if not 0 < p < 1:
        raise ValueError(f"geometric_: p={p} is a probability and must lie in (0, 1)")
    return _fill("geometric_", input, generator, lambda rng, shape: rng.geometric(p, shape), any_type=True)


@operator(records=Replaced, methods="bernoulli_")
def bernoulli_(input: Tensor, p: float = 0.5, *, generator: Any = None) -> Tensor:
    """Fill input with 1 with probability p, else 0.

    Raises:
        ValueError: p is not in [0, 1]. And as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(bernoulli_, locals())) is not None:
        return seen
    if not 0 <= p <= 1:
        raise ValueError(f"bernoulli_: p={p} is a probability and must lie in [0, 1]")
    return _fill("bernoulli_", input, generator, lambda rng, shape: rng.random(shape) < p, any_type=True)


@operator(records=Replaced, methods="random_", dtypes="bihf")
def random_(input: Tensor, from_: int = 0, to: int | None = None, *, generator: Any = None) -> Tensor:
    """Fill input with uniform random integers in [from_, to); ``random_(to)`` starts from 0.

    Without ``to`` they go up to the largest that input's type holds exactly.

    Raises:
        ValueError: the range is empty. And as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(random_, locals())) is not None:
        return seen
    if to is None:
        kind = input.array.dtype
        most = 1 if kind.kind == "b" else 1 << np.finfo(kind).nmant + 1 if kind.kind == "f" else np.iinfo(kind).max
        from_, to = (0, from_) if from_ else (0, most + 1)
    if from_ >= to:
        raise ValueError(f"random_: from_={from_} must be smaller than to={to}")
    return _fill(
        "random_", input, generator, lambda rng, shape: rng.integers(from_, to - 1, shape, endpoint=True), True
    )


def _fill(
    name: str, x: Tensor, generator: Any, draw: Callable[[Any, Any], np.ndarray], any_type: bool = False
) -> Tensor:
    rng, kind = chosen(name, generator), x.array.dtype
    if kind.kind != "f" and not any_type:
        raise TypeError(f"{name}: input is {kind}, needs float32 or float64")

    def values() -> np.ndarray:
        return converted(from_host(draw(rng, x.array.shape), like=x.array), kind)

    return modify(
        x, name, lambda old: Replaced.apply(old, wrap(values())), (), lambda array: kernels.copy(array, values())
    )
