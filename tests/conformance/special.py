"""Cases of special functions, against sums, integrals and bisection."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import retrograd
from conformance.table import Op, Refusal, beside, normal, uniform
from retrograd import special

X, UNIT, FAR = normal(3, 5), uniform(-0.9, 0.9, 3, 5), uniform(0.3, 6.0, 3, 5)
SHAPE = np.round(uniform(1.6, 5.4, 3, 5, seed=1))  # t**(a - 1) is smooth
NODES, WEIGHTS = np.polynomial.legendre.leggauss(120)


def integral(function: Callable[[Any], Any], low: Any, high: Any) -> np.ndarray:
    """By Gauss and Legendre; the nodes are the last axis of what the function gets."""
    low, high = np.asarray(low)[..., None], np.asarray(high)[..., None]
    return (function((high + low) / 2 + (high - low) / 2 * NODES) * WEIGHTS * (high - low) / 2).sum(-1)


def log_gamma(x: np.ndarray) -> np.ndarray:
    """Stirling's series beyond 30, and the recurrence down to x; of complex numbers too."""
    z = x + 30
    series = 1 / (12 * z) - 1 / (360 * z**3) + 1 / (1260 * z**5) - 1 / (1680 * z**7)
    far = (z - 0.5) * np.log(z) - z + 0.5 * math.log(2 * math.pi) + series
    return far - sum(np.log(x + k) for k in range(30))


def digamma(x: np.ndarray) -> np.ndarray:
    return log_gamma(x + 1e-30j).imag / 1e-30


def powers(s: float, x: np.ndarray) -> np.ndarray:
    """The sum of (x + k)**-s, the last part as an integral."""
    last = x[..., None] + 20000
    head = ((x[..., None] + np.arange(20000)) ** -s).sum(-1)
    return head + (last ** (1 - s) / (s - 1) + last**-s / 2)[..., 0]


def bessel(n: int) -> Callable[[np.ndarray], np.ndarray]:
    angles = (np.arange(200) + 0.5) * math.pi / 200
    return lambda x: (np.exp(x[..., None] * np.cos(angles)) * np.cos(n * angles)).mean(-1)


def inverse(function: Callable[[float], float], low: float, high: float) -> Callable[[np.ndarray], np.ndarray]:
    """Of an increasing function, by bisection."""

    def of(y: float) -> float:
        a, b = low, high
        for _ in range(200):
            a, b = ((a + b) / 2, b) if function((a + b) / 2) < y else (a, (a + b) / 2)
        return a

    return lambda x: np.array([of(y) for y in x.ravel()]).reshape(x.shape)


def probability(x: Any) -> Any:
    return integral(lambda t: np.exp(-t * t / 2), -13.0 + 0 * x, x) / math.sqrt(2 * math.pi)


def incomplete(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    return integral(lambda t: t ** (a[..., None] - 1) * np.exp(-t), 0 * x, x) / np.exp(log_gamma(a))


OPERATORS = [
    Op("lgamma", retrograd.lgamma, FAR, oracle=log_gamma),
    Op(
        "lgamma: negative",
        retrograd.lgamma,
        UNIT - 3,
        rtol=1e-8,
        single=1e-2,
        oracle=lambda x: np.log(math.pi / abs(np.sin(math.pi * x))) - log_gamma(1 - x),
    ),
    Op("digamma", retrograd.digamma, FAR, oracle=digamma),
    Op(
        "polygamma",
        retrograd.polygamma,
        3,
        FAR,
        batch=(0,),
        rtol=1e-9,
        oracle=lambda n, x: 6 * powers(4.0, x),
        errors=[
            Refusal(ValueError, "polygamma: n=-1 must be at least 0", -1, FAR),
            Refusal(TypeError, "polygamma: n=0.5 must be an int", 0.5, FAR),
        ],
    ),
    Op(
        "mvlgamma",
        retrograd.mvlgamma,
        FAR + 1,
        3,
        oracle=lambda x, p: sum(log_gamma(x - j / 2) for j in range(3)) + 1.5 * math.log(math.pi),
        errors=[Refusal(ValueError, "mvlgamma: p=0 must be at least 1", FAR, 0)],
    ),
    Op("igamma", lambda x: retrograd.igamma(beside(x, SHAPE), x), FAR, batch=(), oracle=lambda x: incomplete(SHAPE, x)),
    Op(
        "igammac",
        lambda x: retrograd.igammac(beside(x, SHAPE[0]), x),
        FAR,
        batch=(),
        oracle=lambda x: 1 - incomplete(SHAPE[:1] + 0 * x, x),
    ),
    Op(
        "special.zeta",
        special.zeta,
        SHAPE,
        FAR,
        order=0,
        batch=(0, 1),
        rtol=1e-7,
        oracle=lambda s, x: np.array(
            [powers(p, y[None])[0] for p, y in zip(s.ravel(), x.ravel(), strict=True)]
        ).reshape(x.shape),
    ),
    Op("special.zeta: a number", lambda x: special.zeta(3.0, x), FAR, oracle=lambda x: powers(3.0, x), rtol=1e-7),
    Op("i0", retrograd.i0, X, oracle=bessel(0)),
    Op("special.i0e", special.i0e, X * 20, rtol=1e-9, single=1e-3, oracle=lambda x: bessel(0)(x) * np.exp(-abs(x))),
    Op("special.i1", special.i1, X, oracle=bessel(1)),
    Op("special.i1e", special.i1e, X * 3, oracle=lambda x: bessel(1)(x) * np.exp(-abs(x))),
    Op("erfinv", retrograd.erfinv, UNIT, oracle=inverse(math.erf, -9, 9), single=1e-3),
    Op("special.ndtr", special.ndtr, X, oracle=probability),
    Op(
        "special.ndtri",
        special.ndtri,
        UNIT / 2 + 0.5,
        single=1e-3,
        oracle=inverse(lambda x: math.erfc(-x * 0.5**0.5) / 2, -9, 9),
    ),
    Op("special.log_ndtr", special.log_ndtr, X * 3, oracle=lambda x: np.log(probability(x)), rtol=1e-9),
    Op("special.entr", special.entr, FAR, oracle=lambda x: -x * np.log(x)),
    Op(
        "special.xlog1py",
        special.xlog1py,
        X,
        FAR,
        oracle=lambda x, y: x * np.log(1 + y),
        batch=(0, 1),
        broadcast=(0, 1),
    ),
]
