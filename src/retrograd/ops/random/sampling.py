"""Random tensors, and methods that fill a tensor with random numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from ...arrays import any_below, arange, from_host, integers, to_host, within
from ...engine.inplace import Replaced, modify
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import as_count, as_flag, as_int64, as_real, require_float, require_tensor
from ..creation import extents_of, on_device_of
from ..device import Like, Options, check_options
from ..dtypes.dtype import DTypeLike, as_dtype, converted, default_dtype, float32, float64, int64
from ..pointwise.pointwise import Constant
from ..shape.broadcasting import broadcast_shape
from .random import as_generator

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


# ---- Random Tensors -------------------------------------------------------------------------------------------------


@operator(dtypes="")
def rand(
    *extents: Any,
    size: Any = None,
    generator: np.random.Generator | None = None,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """Uniform random numbers in [0, 1); the shape is ``extents``, or ``size`` by name.

    Raises:
        TypeError: ``dtype`` is not a floating-point type.
    """
    if interpreters and (seen := interpreted(rand, locals())) is not None:
        return seen
    if options:
        check_options("rand", options)
    array = as_generator("rand", generator).random(extents_of("rand", extents, size), _float("rand", dtype))
    return Tensor(from_host(array), requires_grad, device=options.get("device"))


@operator(dtypes="")
def randn(
    *extents: Any,
    size: Any = None,
    generator: np.random.Generator | None = None,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """Standard normal random numbers; the shape is ``extents``, or ``size`` by name.

    Raises:
        TypeError: ``dtype`` is not a floating-point type.
    """
    if interpreters and (seen := interpreted(randn, locals())) is not None:
        return seen
    if options:
        check_options("randn", options)
    shape = extents_of("randn", extents, size)
    array = as_generator("randn", generator).standard_normal(shape, _float("randn", dtype))
    return Tensor(from_host(array), requires_grad, device=options.get("device"))


@operator(dtypes="")
def randint(
    low: int,
    high: Any = None,
    size: Any = None,
    generator: np.random.Generator | None = None,
    dtype: DTypeLike = int64,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """Uniform random integers in [low, high); ``randint(high, size)`` starts from 0.

    Raises:
        ValueError: the range is empty, or ``size`` is missing.
    """
    if interpreters and (seen := interpreted(randint, locals())) is not None:
        return seen
    check_options("randint", options)
    if size is None or high is None:
        if size is None and high is None:
            raise ValueError("randint: size is missing: randint(low, high, size) or randint(high, size)")
        low, high, size = 0, low, high if size is None else size
    low, high = as_int64("randint", "low", low), as_int64("randint", "high", high)
    if low >= high:
        raise ValueError(f"randint: low={low} must be smaller than high={high}")
    array = from_host(as_generator("randint", generator).integers(low, high, extents_of("randint", (size,)), np.int64))
    kind = as_dtype(dtype)
    return Tensor(
        array if kind == array.dtype else kernels.cast(array, kind), requires_grad, device=options.get("device")
    )


@operator(dtypes="")
def randperm(
    n: int,
    generator: np.random.Generator | None = None,
    dtype: DTypeLike = int64,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """The numbers 0 to n - 1 in random order.

    Raises:
        ValueError: n is negative, or too large to fit in memory.
    """
    if interpreters and (seen := interpreted(randperm, locals())) is not None:
        return seen
    check_options("randperm", options)
    n = as_count("randperm", "n", n, 0)
    array = as_generator("randperm", generator).permutation(arange(n, dtype=as_dtype(dtype)))
    return Tensor(from_host(array), requires_grad, device=options.get("device"))


@operator(dtypes="bihf")
def rand_like(
    input: Tensor,
    generator: np.random.Generator | None = None,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Like],
) -> Tensor:
    """Uniform random numbers in [0, 1) of input's shape, and of its type if ``dtype`` is None.

    Raises:
        TypeError: the type is not a floating-point type.
    """
    if interpreters and (seen := interpreted(rand_like, locals())) is not None:
        return seen
    check_options("rand_like", options)
    require_tensor("rand_like", input)
    kind = dtype or input.array.dtype
    return on_device_of(
        rand(input.array.shape, generator=generator, dtype=kind, requires_grad=requires_grad),
        input,
        options.get("device"),
    )


@operator(dtypes="bihf")
def randn_like(
    input: Tensor,
    generator: np.random.Generator | None = None,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Like],
) -> Tensor:
    """Standard normal random numbers of input's shape, and of its type if ``dtype`` is None.

    Raises:
        TypeError: the type is not a floating-point type.
    """
    if interpreters and (seen := interpreted(randn_like, locals())) is not None:
        return seen
    check_options("randn_like", options)
    require_tensor("randn_like", input)
    kind = dtype or input.array.dtype
    return on_device_of(
        randn(input.array.shape, generator=generator, dtype=kind, requires_grad=requires_grad),
        input,
        options.get("device"),
    )


@operator
def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    generator: np.random.Generator | None = None,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Like],
) -> Tensor:
    """Uniform random integers in [low, high), or [0, low), of input's shape and type (if ``dtype`` is None).

    Raises:
        ValueError: the range is empty.
    """
    if interpreters and (seen := interpreted(randint_like, locals())) is not None:
        return seen
    check_options("randint_like", options)
    require_tensor("randint_like", input)
    first, last = (0, low) if high is None else (low, high)
    first, last = as_int64("randint_like", "low", first), as_int64("randint_like", "high", last)
    if first >= last:
        raise ValueError(f"randint_like: low={first} must be smaller than high={last}")
    kind = dtype or input.array.dtype
    return on_device_of(
        randint(first, last, input.array.shape, generator, kind, requires_grad), input, options.get("device")
    )


@operator
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: np.random.Generator | None = None,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """Normal random numbers; ``mean`` and ``std`` are Tensors, which broadcast, or numbers with ``size``.

    Raises:
        ValueError: a standard deviation is negative, or ``size`` is missing or given with a Tensor.
        TypeError: the type is not a floating-point type.
    """
    if interpreters and (seen := interpreted(normal, locals())) is not None:
        return seen
    check_options("normal", options)
    source = as_generator("normal", generator)
    tensors = [t for t in (mean, std) if isinstance(t, Tensor)]
    if bool(tensors) == (size is not None):
        raise ValueError("normal: give size with numbers, or a Tensor as mean or std without size")
    m, s = (
        t.array if isinstance(t, Tensor) else from_host(as_real("normal", label, t))
        for label, t in (("mean", mean), ("std", std))
    )
    if any_below(s, 0, "whether deviations are negative"):
        raise ValueError(f"normal: std={to_host(s, 'a message').min()} must be at least 0")
    shape = broadcast_shape("normal", m.shape, s.shape) if tensors else extents_of("normal", (size,))
    kind = _float("normal", dtype or (tensors[0].array.dtype if tensors else default_dtype()))
    noise = from_host(source.standard_normal(shape), like=s)
    return Tensor(kernels.scaled_noise(noise, m, s, kind), requires_grad, device=options.get("device"))


@operator(records=Constant, methods="bernoulli")
def bernoulli(input: Tensor, p: float | None = None, *, generator: np.random.Generator | None = None) -> Tensor:
    """1 with probability input (or ``p`` if given), else 0. The type is that of input; the gradient is 0.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: a probability is not in [0, 1].
    """
    if interpreters and (seen := interpreted(bernoulli, locals())) is not None:
        return seen
    require_float("bernoulli", input)
    source = as_generator("bernoulli", generator)
    probability = input.array if p is None else from_host(as_real("bernoulli", "p", p), like=input.array)
    if not within(probability, 0, 1, "whether probabilities lie between 0 and 1"):
        raise ValueError("bernoulli: probabilities must lie in [0, 1]")
    uniform = from_host(source.random(input.array.shape), like=input.array)
    return Constant.apply(input, kernels.bernoulli(uniform, probability, input.array.dtype))


@operator(records=Constant)
def poisson(input: Tensor, generator: np.random.Generator | None = None) -> Tensor:
    """Poisson random numbers whose rates are the elements of input. The type is that of input; the gradient is 0.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: a rate is negative or NaN, or too large for a count in int64.
    """
    if interpreters and (seen := interpreted(poisson, locals())) is not None:
        return seen
    require_float("poisson", input)
    if not within(input.array, 0, math.inf, "whether rates are negative"):
        raise ValueError("poisson: rates must be at least 0")
    rates = to_host(input.array, "the rates of counts that the host draws")
    source = as_generator("poisson", generator)
    try:
        counts = source.poisson(rates)
    except ValueError:  # NumPy's "lam value too large"
        raise ValueError("poisson: a rate is too large: counts must fit int64, so rates are below 9.2e18") from None
    drawn = from_host(counts, like=input.array)
    return Constant.apply(input, kernels.cast(drawn, input.array.dtype))


@operator(methods="multinomial")
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: np.random.Generator | None = None
) -> Tensor:
    """Indices drawn according to the weights in each row of input: int64, input (M, N) or (N,) -> (M, K) or (K,)

    num_samples: K. replacement: an index may be drawn several times.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: input has the wrong number of axes, a weight is negative or not finite, or a row has no weight above
            0, or, without ``replacement``, fewer than ``num_samples``.
    """
    if interpreters and (seen := interpreted(multinomial, locals())) is not None:
        return seen
    require_float("multinomial", input)
    source = as_generator("multinomial", generator)
    if input.array.ndim not in (1, 2):
        raise ValueError(f"multinomial: input.shape={input.array.shape}, needs (N,) or (M, N)")
    weights = kernels.cast(input.array if input.array.ndim == 2 else input.array[None], np.dtype(np.float64))
    num_samples = as_count("multinomial", "num_samples", num_samples)
    valid = within(weights, 0, sys.float_info.max, "whether weights are finite and not negative")
    counts = integers(kernels.count_positive(weights), "whether enough weights are above 0")
    if not valid or 0 in counts:
        raise ValueError("multinomial: weights must be finite and at least 0, and each row needs one above 0")
    if as_flag("multinomial", "replacement", replacement):
        uniform = from_host(source.random((len(weights), num_samples)), like=weights)
        places = kernels.multinomial_repeated(weights, uniform)
    else:
        fewest = min(counts, default=num_samples)
        if num_samples > fewest:
            raise ValueError(
                f"multinomial: num_samples={num_samples}, but a row has only {fewest} weights above 0; use "
                f"replacement=True"
            )
        times = from_host(source.exponential(size=weights.shape), like=weights)
        places = kernels.multinomial_distinct(weights, times, num_samples)
    return wrap(places if input.array.ndim == 2 else places[0])


def _float(name: str, dtype: Any) -> Any:
    kind = as_dtype(dtype, default=True)
    if kind not in (float32, float64):
        raise TypeError(f"{name}: dtype={kind} must be float32 or float64")
    return kind


# ---- Methods that fill a tensor with random numbers in place --------------------------------------------------------


@operator(records=Replaced, methods="uniform_", dtypes="hf")
def uniform_(
    input: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: np.random.Generator | None = None
) -> Tensor:
    """Fill input with uniform random numbers in [from_, to).

    Raises:
        TypeError: input does not contain floating-point numbers.
        ValueError: ``from_`` is above ``to``. Also as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(uniform_, locals())) is not None:
        return seen
    from_, to = as_real("uniform_", "from_", from_), as_real("uniform_", "to", to)
    if not from_ <= to:
        raise ValueError(f"uniform_: from_={from_} must not be above to={to}")
    return _fill("uniform_", input, generator, lambda rng, shape: rng.random(shape) * (to - from_) + from_)


@operator(records=Replaced, methods="normal_", dtypes="hf")
def normal_(
    input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: np.random.Generator | None = None
) -> Tensor:
    """Fill input with normal random numbers.

    Raises:
        TypeError: input does not contain floating-point numbers.
        ValueError: ``std`` is negative. Also as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(normal_, locals())) is not None:
        return seen
    mean, std = as_real("normal_", "mean", mean), as_real("normal_", "std", std)
    if not std >= 0:
        raise ValueError(f"normal_: std={std} must be at least 0")
    return _fill("normal_", input, generator, lambda rng, shape: rng.standard_normal(shape) * std + mean)


@operator(records=Replaced, methods="exponential_", dtypes="hf")
def exponential_(input: Tensor, lambd: float = 1.0, *, generator: np.random.Generator | None = None) -> Tensor:
    """Fill input with exponential random numbers with the rate ``lambd``.

    Raises:
        TypeError: input does not contain floating-point numbers.
        ValueError: ``lambd`` is not above 0. Also as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(exponential_, locals())) is not None:
        return seen
    lambd = as_real("exponential_", "lambd", lambd)
    if not lambd > 0:
        raise ValueError(f"exponential_: lambd={lambd} must be above 0")
    return _fill("exponential_", input, generator, lambda rng, shape: rng.exponential(1 / lambd, shape))


@operator(records=Replaced, methods="cauchy_", dtypes="hf")
def cauchy_(
    input: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: np.random.Generator | None = None
) -> Tensor:
    """Fill input with Cauchy random numbers with location ``median`` and scale ``sigma``.

    Raises:
        TypeError: input does not contain floating-point numbers.
        ValueError: ``sigma`` is not above 0. Also as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(cauchy_, locals())) is not None:
        return seen
    median, sigma = as_real("cauchy_", "median", median), as_real("cauchy_", "sigma", sigma)
    if not sigma > 0:
        raise ValueError(f"cauchy_: sigma={sigma} must be above 0")
    return _fill("cauchy_", input, generator, lambda rng, shape: rng.standard_cauchy(shape) * sigma + median)


@operator(records=Replaced, methods="log_normal_", dtypes="hf")
def log_normal_(
    input: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: np.random.Generator | None = None
) -> Tensor:
    """Fill input with log-normal random numbers: exp of normal ones.

    Raises:
        TypeError: input does not contain floating-point numbers.
        ValueError: ``std`` is not above 0. Also as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(log_normal_, locals())) is not None:
        return seen
    mean, std = as_real("log_normal_", "mean", mean), as_real("log_normal_", "std", std)
    if not std > 0:
        raise ValueError(f"log_normal_: std={std} must be above 0")
    return _fill("log_normal_", input, generator, lambda rng, shape: rng.lognormal(mean, std, shape))


@operator(records=Replaced, methods="geometric_", dtypes="bihf")
def geometric_(input: Tensor, p: float, *, generator: np.random.Generator | None = None) -> Tensor:
    """Fill input with the number of trials up to the first success, each with success probability p.

    Raises:
        ValueError: p is not in (0, 1). Also as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(geometric_, locals())) is not None:
        return seen
    if not 0 < p < 1:
        raise ValueError(f"geometric_: p={p} is a probability and must lie in (0, 1)")
    return _fill("geometric_", input, generator, lambda rng, shape: rng.geometric(p, shape), any_type=True)


@operator(records=Replaced, methods="bernoulli_")
def bernoulli_(input: Tensor, p: float = 0.5, *, generator: np.random.Generator | None = None) -> Tensor:
    """Fill input with 1 with probability p, else 0.

    Raises:
        ValueError: p is not in [0, 1]. Also as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(bernoulli_, locals())) is not None:
        return seen
    if not 0 <= p <= 1:
        raise ValueError(f"bernoulli_: p={p} is a probability and must lie in [0, 1]")
    return _fill("bernoulli_", input, generator, lambda rng, shape: rng.random(shape) < p, any_type=True)


@operator(records=Replaced, methods="random_", dtypes="bihf")
def random_(
    input: Tensor, from_: int = 0, to: int | None = None, *, generator: np.random.Generator | None = None
) -> Tensor:
    """Fill input with uniform random integers in [from_, to); ``random_(to)`` starts from 0.

    Without ``to`` they go up to the largest integer that input's type represents exactly.

    Raises:
        ValueError: the range is empty. Also as ``engine.modify``.
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
    name: str,
    x: Tensor,
    generator: np.random.Generator | None,
    draw: Callable[[Any, Any], np.ndarray],
    any_type: bool = False,
) -> Tensor:
    rng, kind = as_generator(name, generator), x.array.dtype
    if kind.kind != "f" and not any_type:
        raise TypeError(f"{name}: input is {kind}, needs float32 or float64")

    def values() -> np.ndarray:
        return converted(from_host(draw(rng, x.array.shape), like=x.array), kind)

    return modify(
        x, name, lambda old: Replaced.apply(old, wrap(values())), (), lambda array: kernels.copy(array, values())
    )
