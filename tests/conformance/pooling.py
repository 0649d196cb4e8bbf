from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.table import Layer, Op, Refusal, beside, distinct, normal, uniform
from retrograd import Tensor, nn
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

Sizes = Any


def every(value: Any, axes: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes


def windows(size: int, r: int, s: int, p: int, d: int, ceil_mode: bool) -> list[list[int]]:
    """The positions that each output reads, padding included."""
    count = (size + 2 * p - d * (r - 1) - 1) / s
    outputs = (math.ceil(count) if ceil_mode else math.floor(count)) + 1
    if ceil_mode and (outputs - 1) * s >= size + p:  # PyTorch's rule: a window starts before the padding behind
        outputs -= 1
    return [[o * s - p + tap * d for tap in range(r)] for o in range(outputs)]


def pooled(x: np.ndarray, axes: list[list[list[int]]], reduce: Callable[[list[float], list[Any]], Any]) -> np.ndarray:
    """``reduce`` of the values inside of x, and all places, of every window of the last axes."""
    lead, extents = x.shape[: -len(axes)], x.shape[-len(axes) :]
    y = np.zeros((*lead, *(len(axis) for axis in axes)))
    for at in np.ndindex(y.shape):
        places = list(itertools.product(*(axis[o] for axis, o in zip(axes, at[len(lead) :], strict=True))))
        inside = [p for p in places if all(0 <= i < n for i, n in zip(p, extents, strict=True))]
        y[at] = reduce([float(x[(*at[: len(lead)], *p)]) for p in inside], [inside, places])
    return y


def max_pool(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    axes: int = 2,
) -> Any:
    given = [every(v, axes) for v in (kernel_size, kernel_size if stride is None else stride, padding, dilation)]
    spans = [windows(n, *sizes, ceil_mode) for n, *sizes in zip(x.shape[-axes:], *given, strict=True)]
    y = pooled(x, spans, lambda values, _: max(values))
    if not return_indices:
        return y
    extents = x.shape[-axes:]
    places = pooled(x, spans, lambda values, at: np.ravel_multi_index(at[0][int(np.argmax(values))], extents))
    return y, places.astype(np.int64)


def avg_pool(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: Any = None,
    axes: int = 2,
) -> Any:
    pads = every(padding, axes)
    given = [every(kernel_size, axes), every(kernel_size if stride is None else stride, axes), pads, (1,) * axes]
    spans = [windows(n, *sizes, ceil_mode) for n, *sizes in zip(x.shape[-axes:], *given, strict=True)]

    def mean(values: list[float], at: list[Any]) -> float:
        padded = [p for p in at[1] if all(i < n + q for i, n, q in zip(p, x.shape[-axes:], pads, strict=True))]
        return sum(values) / (divisor_override or (len(padded) if count_include_pad else len(values)))

    return pooled(x, spans, mean)


def lp_pool(
    x: Any, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False, axes: int = 2
) -> Any:
    if math.isinf(norm_type):
        return max_pool(np.abs(x), kernel_size, stride, ceil_mode=ceil_mode, axes=axes)
    taps = math.prod(every(kernel_size, axes))
    return (avg_pool(x**norm_type, kernel_size, stride, 0, ceil_mode, axes=axes) * taps) ** (1 / norm_type)


def adaptive(x: Any, output_size: Any, axes: int) -> list[list[list[int]]]:
    spans = []
    for n, o in zip(x.shape[-axes:], every(output_size, axes), strict=True):
        o = n if o is None else o
        spans.append(
            [[i for i in range(n) if math.floor(k * n / o) <= i < math.ceil((k + 1) * n / o)] for k in range(o)]
        )
    return spans


def adaptive_avg_pool(x: Any, output_size: Any, axes: int = 2) -> Any:
    return pooled(x, adaptive(x, output_size, axes), lambda values, _: sum(values) / len(values))


def adaptive_max_pool(x: Any, output_size: Any, return_indices: bool = False, axes: int = 2) -> Any:
    spans, extents = adaptive(x, output_size, axes), x.shape[-axes:]
    y = pooled(x, spans, lambda values, _: max(values))
    if not return_indices:
        return y
    places = pooled(x, spans, lambda values, at: np.ravel_multi_index(at[0][int(np.argmax(values))], extents))
    return y, places.astype(np.int64)


def max_unpool(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None, axes: int = 2
) -> Any:
    given = [every(v, axes) for v in (kernel_size, kernel_size if stride is None else stride, padding)]
    size = [(n - 1) * s + r - 2 * p for n, r, s, p in zip(x.shape[-axes:], *given, strict=True)]
    lead = x.shape[:-axes]
    y = np.zeros((*lead, math.prod(size if output_size is None else output_size[-axes:])))
    for at in np.ndindex(x.shape):
        y[(*at[: len(lead)], indices[at])] = x[at]
    return y.reshape(*lead, *(size if output_size is None else output_size[-axes:]))


def starts(u: float, extent: int, r: int, outputs: int) -> list[int]:
    """The first position of each window: the last one ends with the input."""
    step = (extent - r) / (outputs - 1) if outputs > 1 else 0.0
    return [math.floor((o + u) * step) - math.floor(u * step) for o in range(outputs - 1)] + [extent - r]


def fractional(x: Any, kernel_size: Any, output_size: Any, samples: np.ndarray) -> Any:
    """Values and places; each image and channel has its own windows."""
    axes = samples.shape[-1]
    sizes, extents = every(output_size, axes), x.shape[2:]
    y, places = np.zeros((*x.shape[:2], *sizes)), np.zeros((*x.shape[:2], *sizes), np.int64)
    for n, c in np.ndindex(*x.shape[:2]):
        u = samples[n, c] if axes == 3 else samples[n, c][::-1]  # of two numbers, the first is for the last axis
        taps = every(kernel_size, axes)
        spans = [
            [list(range(first, first + r)) for first in starts(*given, r, o)]
            for *given, r, o in zip(u, extents, taps, sizes, strict=True)
        ]
        y[n, c] = pooled(x[n, c], spans, lambda values, _: max(values))
        places[n, c] = pooled(
            x[n, c], spans, lambda values, at: np.ravel_multi_index(at[0][int(np.argmax(values))], extents)
        )
    return y, places


def sampled(function: Callable[..., Any], samples: np.ndarray) -> Callable[..., Any]:
    """The function with these samples, which have no gradient, in the type and for the images of x."""

    def of(x: Any, *sizes: Any, **options: Any) -> Any:
        own = samples[: (*x.shape, 1)[0]].astype(x.dtype) if isinstance(x, Tensor) else samples
        return function(x, *sizes, return_indices=True, _random_samples=beside(x, own), **options)

    return of


def refused(function: Callable[..., Any], samples: np.ndarray) -> Callable[..., Any]:
    """The function with these samples and two outputs an axis, unless others are given."""

    def of(x: Any, *sizes: Any, **options: Any) -> Any:
        own = beside(x, samples[: (*x.shape, 1)[0]])
        return function(x, *sizes, **{"output_size": 2, "_random_samples": own, **options})

    return of


SIZE = {1: (2, 3, 7), 2: (2, 2, 5, 6), 3: (2, 1, 3, 4, 5)}
LARGE = {1: (3, 20, 3000), 2: (3, 40, 60, 31), 3: (2, 18, 9, 20, 17)}
AXES = (1, 2, 3)


def table(oracle: Callable[..., Any], axes: int) -> Callable[..., Any]:
    return lambda *args, **kwargs: oracle(*args, axes=axes, **kwargs)


def case(kind: str, axes: int, what: str, *args: Any, linear: bool = False, x: Any = None, **kwargs: Any) -> Op:
    name, oracle = f"{kind}{axes}d", globals()[kind]
    options = {key: kwargs.pop(key) for key in ("errors", "batch", "single") if key in kwargs}
    big = {} if x is not None else {"large": (distinct(*LARGE[axes]), *args)}
    x = distinct(*SIZE[axes]) if x is None else x
    label = f"{name}: {what}" if what else name
    return Op(
        label, getattr(F, name), x, *args, kwargs=kwargs, oracle=table(oracle, axes), linear=linear, **big, **options
    )


def pooled_places(axes: int, extent: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Places that no two windows share, in an input of this extent on every axis; of extent 5 without batch."""
    x, batched = distinct(2, 2, *(extent,) * axes), extent == 4
    indices = max_pool(x, 2, return_indices=True, axes=axes)[1]
    values = normal(*indices.shape)
    return (values, indices) if batched else (values[0], indices[0])


OPERATORS = []
for n in AXES:
    more = {"divisor_override": 3} if n > 1 else {}
    OPERATORS += [
        case("max_pool", n, "", 2, errors=[Refusal(ValueError, f"max_pool{n}d: no output", distinct(*SIZE[n]), 9)]),
        case("max_pool", n, "overlapping, places", 3, 2, 1, return_indices=True),
        case("max_pool", n, "dilated, rounded up", 2, 2, 1, dilation=2, ceil_mode=True),
        case("avg_pool", n, "", 2, linear=True),
        case("avg_pool", n, "overlapping", 3, 2, 1, linear=True, count_include_pad=False, **more),
        case("avg_pool", n, "rounded up", 3, 2, 1, linear=True, ceil_mode=True),
        case("lp_pool", n, "", 2.0, 2, single=1e-3),
        case("lp_pool", n, "p = 3, rounded up", 3.0, 2, ceil_mode=True, x=np.abs(distinct(*SIZE[n]))),
        case("lp_pool", n, "maximum", math.inf, 2, x=distinct(*SIZE[n]) + 0.02),
        case("adaptive_avg_pool", n, "", 3, linear=True),
        case("adaptive_avg_pool", n, "one", 1, linear=True),
        case("adaptive_max_pool", n, "", 3),
        case("adaptive_max_pool", n, "one, places", 1, return_indices=True),
        case("max_unpool", n, "", pooled_places(n)[1], 2, linear=True, x=pooled_places(n)[0], batch=(0, 1)),
        case(
            "max_unpool",
            n,
            "output_size",
            pooled_places(n, 5)[1],
            2,
            linear=True,
            x=pooled_places(n, 5)[0],
            output_size=(5,) * n,
            batch=(),
        ),
    ]
for n, more in ((2, (4, 3)), (3, (1, 2, 3))):
    name, image = f"fractional_max_pool{n}d", distinct(2, 3, *SIZE[n][2:])
    draws = uniform(0.05, 0.95, 2, 3, n)
    OPERATORS += [
        Op(
            name,
            sampled(getattr(F, name), draws),
            image,
            (1,) * (n - 2) + (2, 3),
            more,
            oracle=lambda x, r, o, draws=draws: fractional(x, r, o, draws[: len(x)]),
        ),
        Op(
            f"{name}: one window",
            sampled(getattr(F, name), draws),
            image,
            2,
            1,
            oracle=lambda x, r, o, draws=draws: fractional(x, r, o, draws[: len(x)]),
        ),
        Op(
            f"{name}: messages",
            refused(getattr(F, name), draws),
            image,
            2,
            oracle=lambda x, r, draws=draws: fractional(x, r, 2, draws[: len(x)])[0],
            errors=[
                Refusal(
                    ValueError,
                    f"{name}: pass either output_size or output_ratio; got 2 and 0.5",
                    image,
                    2,
                    output_ratio=0.5,
                ),
                Refusal(ValueError, "output_size or output_ratio; got None and None", image, 2, output_size=None),
                Refusal(
                    ValueError,
                    f"{name}: output_ratio=1.5 must be a number between 0 and 1, or {n} of them",
                    image,
                    2,
                    output_size=None,
                    output_ratio=1.5,
                ),
                Refusal(
                    ValueError,
                    f"{name}: output_ratio=0.01 of the extents {SIZE[n][2:]} leaves no output",
                    image,
                    2,
                    output_size=None,
                    output_ratio=0.01,
                ),
                Refusal(ValueError, f"{name}: kernel_size=0 must be at least 1", image, 0),
                Refusal(TypeError, f"{name}: output_size=2.5 must be an int", image, 1, output_size=2.5),
                Refusal(
                    ValueError,
                    f"kernel_size=2 and output_size={SIZE[n][2]} on axis 0 need an extent of",
                    image,
                    2,
                    output_size=SIZE[n][2:],
                ),
                Refusal(
                    ValueError,
                    f"{name}: _random_samples.shape=(2,) must be (2, 3, {n}): (N, C, {n})",
                    image,
                    2,
                    _random_samples=np.ones(2),
                ),
                Refusal(
                    ValueError, f"{name}: _random_samples must lie between 0 and 1", image, 2, _random_samples=draws + 1
                ),
                Refusal(ValueError, f"{name}: an axis of positions is empty", image[..., :0], 2),
            ],
        ),
    ]
X = distinct(*SIZE[2])
OPERATORS += [
    case("max_pool", 2, "without batch", (2, 3), (1, 2), x=X[0], batch=()),
    case("avg_pool", 2, "without batch", (2, 3), (1, 2), (1, 0), x=X[0], batch=(), linear=True, ceil_mode=True),
    case("adaptive_avg_pool", 2, "without batch", (None, 4), x=X[0], batch=(), linear=True),
    case("adaptive_avg_pool", 2, "equal windows", (5, 3), linear=True),
    case("adaptive_avg_pool", 2, "more outputs than inputs", (7, 2), linear=True, x=X),
    case(
        "adaptive_max_pool",
        2,
        "without batch",
        [3, None],
        x=X[0],
        batch=(),
        return_indices=True,
        errors=[
            Refusal(
                ValueError, "adaptive_max_pool2d: output_size=(2, 3, 4) has 3 entries, needs one or 2", X, (2, 3, 4)
            ),
            Refusal(ValueError, "adaptive_max_pool2d: output_size=0 must be at least 1", X, 0),
            Refusal(TypeError, "adaptive_max_pool2d: output_size=2.0 must be an int or None", X, 2.0),
            Refusal(ValueError, "adaptive_max_pool2d: input has 2 axes, needs 4", X[0, 0], 2),
            Refusal(ValueError, "adaptive_max_pool2d: an axis of positions is empty", X[:, :, :0], 2),
        ],
    ),
    case(
        "lp_pool",
        2,
        "smallest, and messages",
        2.0,
        (2, 3),
        (1, 2),
        x=X[0],
        batch=(),
        errors=[
            Refusal(ValueError, "lp_pool2d: norm_type=0 must not be 0", X, 0, 2),
            Refusal(TypeError, "lp_pool2d: norm_type='2' is str, needs a number", X, "2", 2),
            Refusal(ValueError, "lp_pool2d: kernel_size=0 must be at least 1", X, 2, 0),
        ],
    ),
]
LAYERS = []
for n in AXES:
    for kind, oracle, args in (
        ("MaxPool", max_pool, (2, 1)),
        ("AvgPool", avg_pool, (2, 1)),
        ("LPPool", lp_pool, (2.0, 2)),
        ("AdaptiveAvgPool", adaptive_avg_pool, (2,)),
        ("AdaptiveMaxPool", adaptive_max_pool, (2,)),
    ):
        make = getattr(nn, f"{kind}{n}d")
        LAYERS.append(
            Layer(
                f"{kind}{n}d",
                lambda make=make, args=args: make(*args),
                distinct(*SIZE[n]),
                oracle=lambda x, oracle=oracle, args=args, n=n: oracle(x, *args, axes=n),
                single=1e-3,
            )
        )
    if n > 1:
        draws = uniform(0.05, 0.95, 2, 2, n)[:, : SIZE[n][1]]
        LAYERS.append(
            Layer(
                f"FractionalMaxPool{n}d",
                lambda n=n, draws=draws: getattr(nn, f"FractionalMaxPool{n}d")(2, 2, _random_samples=Tensor(draws)),
                distinct(*SIZE[n]),
                oracle=lambda x, n=n, draws=draws: fractional(x, 2, 2, draws)[0],
                batch=(),
            )
        )
    LAYERS.append(
        Layer(
            f"MaxUnpool{n}d",
            lambda n=n: getattr(nn, f"MaxUnpool{n}d")(2),
            *pooled_places(n),
            oracle=lambda x, indices, n=n: max_unpool(x, indices, 2, axes=n),
            batch=(0, 1),
        )
    )
