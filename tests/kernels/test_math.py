"""Accuracy of the compiled functions: within a few units in the last place everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from retrograd import kernels

Function = Callable[[np.ndarray], np.ndarray]
# units in the last place
LIMITS = {"exp": 2.0, "log": 2.0, "tanh": 2.01, "sigmoid": 2.0, "tan": 4.0, "erf": 4.0, "erfc": 5.0}
LIMIT = 3.0  # of the others
STEP = 10007  # of the float32 bit patterns, a prime: 430,000 numbers of every size and sign
LONG = np.finfo(np.longdouble).eps < np.finfo(np.float64).eps


def _sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _each(function: Callable[[float], float]) -> Function:
    """NumPy has no error functions; Python's are right to less than a unit of float64."""
    return lambda x: np.array([function(float(value)) for value in x], x.dtype)


EXACT: dict[str, Function] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
# where the interesting float64 arguments lie, denormal results included
RANGES = {
    "exp": (-746.0, 710.0),
    "tanh": (-22.0, 22.0),
    "sigmoid": (-746.0, 746.0),
    "exp2": (-1075.0, 1024.0),
    "expm1": (-40.0, 710.0),
    "sin": (-1e4, 1e4),
    "cos": (-1e4, 1e4),
    "tan": (-1e4, 1e4),
    "asin": (-1.0, 1.0),
    "acos": (-1.0, 1.0),
    "sinh": (-711.0, 711.0),
    "cosh": (-711.0, 711.0),
    "acosh": (1.0, 9.0),
    "atanh": (-1.0, 1.0),
    "erf": (-6.0, 6.0),
    "erfc": (-6.0, 27.0),
}


def check(name: str, x: np.ndarray, wide: type[np.floating]) -> None:
    """The compiled function of x against NumPy's in a wider type: same NaN and infinities, values within LIMIT."""
    y = getattr(kernels, name)(x)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(wide))
        rounded = exact.astype(x.dtype)
        finite = np.isfinite(rounded)
        np.testing.assert_array_equal(y[~finite], rounded[~finite])
        ulps = np.abs(y[finite].astype(wide) - exact[finite]) / np.spacing(np.abs(rounded[finite])).astype(wide)
    if not ulps.size:  # all of them overflow
        return
    worst = ulps.argmax()
    assert ulps[worst] <= LIMITS.get(name, LIMIT), f"{name}({x[finite][worst]!r}) is {float(ulps[worst]):.3f} ulp off"


@pytest.mark.parametrize("name", EXACT)
def test_float32_range(name: str) -> None:
    step = 10 * STEP if name.startswith("erf") else STEP
    check(name, np.arange(0, 2**32, step).astype(np.uint32).view(np.float32), np.float64)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh"])
@pytest.mark.parametrize("half", [0, 1], ids=["positive", "negative"])
def test_every_float32(name: str, half: int) -> None:
    """The functions in the gates of recurrent layers, for every float32."""
    for first in range(half << 31, (half + 1) << 31, 1 << 24):
        check(name, np.arange(first, first + (1 << 24)).astype(np.uint32).view(np.float32), np.float64)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.skipif(not LONG, reason="this platform has no number type wider than float64 to compare with")
def test_float64_samples(name: str) -> None:
    rng = np.random.default_rng(5)
    low, high = RANGES.get(name, (0.0, 4.0))
    count = 10_000 if name.startswith("erf") else 50_000
    bits = rng.integers(-(2**63), 2**63, count).view(np.float64)
    near = rng.uniform(-1, 1, count)
    check(name, np.concatenate([rng.uniform(low, high, count), near, near * 1e-3, 1 + near / 2, bits]), np.longdouble)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh"])
def test_a_number_does_not_depend_on_its_neighbors(name: str, dtype: type[np.floating]) -> None:
    """Extreme numbers take another code path; the other numbers in their register keep their bits."""
    x = (np.random.default_rng(0).standard_normal(500) * 8).astype(dtype)
    x[::37], x[7::53], x[5::91] = 300, -30, np.nan
    function = getattr(kernels, name)
    together = function(x)
    for first in range(1, 17):
        np.testing.assert_array_equal(function(x[first:].copy()), together[first:])
    alone = np.concatenate([function(x[i : i + 1].copy()) for i in range(len(x))])
    np.testing.assert_array_equal(alone, together)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_multiples_of_a_quarter_turn(name: str, dtype: type[np.floating]) -> None:
    """Near zeros and poles, where an argument reduction with too few digits loses all precision."""
    x = np.concatenate([np.arange(1, 3000), 2 ** np.arange(12, 60)]) * (np.pi / 2)
    for shifted in (x, np.nextafter(x, 0), -x):
        check(name, shifted.astype(dtype), np.float64 if dtype is np.float32 else np.longdouble)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers(dtype: type[np.floating]) -> None:
    """Over the whole range of results, with negative bases and with all special values."""
    rng = np.random.default_rng(7)
    wide = np.float64 if dtype is np.float32 else np.longdouble
    x = np.exp(rng.uniform(-40, 40, 50_000)).astype(dtype)
    near = rng.uniform(0.5, 2, 50_000).astype(dtype)
    top = 100 if dtype is np.float32 else 1000
    y, far = rng.uniform(-3, 3, 50_000).astype(dtype), rng.uniform(-top, top, 50_000).astype(dtype)
    whole = rng.integers(-9, 10, 50_000).astype(dtype)
    for base, exponent in ((x, y), (near, far), (-near, whole), (near, whole)):
        exact = np.power(base.astype(wide), exponent.astype(wide))
        with np.errstate(over="ignore", under="ignore"):
            rounded = exact.astype(dtype)
        z = kernels.pow(base, exponent)
        finite = np.isfinite(rounded)
        np.testing.assert_array_equal(z[~finite], rounded[~finite])
        error = np.abs(z[finite].astype(wide) - exact[finite]) / np.spacing(np.abs(rounded[finite])).astype(wide)
        assert error.max() <= 2
    special = [0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1e-42, -1e-42, 1e30, np.inf, -np.inf, np.nan]
    a, b = (side.ravel().astype(dtype) for side in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        expected = np.power(a.astype(np.float64), b.astype(np.float64)).astype(dtype)
    z = kernels.pow(a, b)
    np.testing.assert_allclose(z, expected, rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(z[~np.isnan(z)]), np.signbit(expected[~np.isnan(z)]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_atan2_of_special_values(dtype: type[np.floating]) -> None:
    special = [0.0, -0.0, 1, -1, 1e-30, -1e30, np.inf, -np.inf, np.nan]
    a, b = (side.ravel().astype(dtype) for side in np.meshgrid(special, special))
    z, expected = kernels.atan2(a, b), np.arctan2(a, b)
    np.testing.assert_allclose(z, expected, rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(z[~np.isnan(z)]), np.signbit(expected[~np.isnan(z)]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_values(dtype: type[np.floating]) -> None:
    inf, nan, tiny = np.inf, np.nan, float(np.finfo(dtype).smallest_subnormal)
    table = {
        "exp": [(0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0), (nan, nan), (tiny, 1.0), (1e6, inf), (-1e6, 0.0)],
        "log": [(0.0, -inf), (-0.0, -inf), (inf, inf), (-inf, nan), (nan, nan), (-tiny, nan), (1.0, 0.0), (-1.0, nan)],
        "tanh": [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (nan, nan), (tiny, tiny), (-tiny, -tiny)],
        "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (inf, 1.0), (-inf, 0.0), (nan, nan), (tiny, 0.5), (1e6, 1.0), (-1e6, 0.0)],
    }
    odd = ("sin", "tan", "asin", "atan", "sinh", "asinh", "atanh", "erf", "expm1", "log1p")
    table |= {name: [(0.0, 0.0), (-0.0, -0.0), (nan, nan), (tiny, tiny), (-tiny, -tiny)] for name in odd}
    for name, pairs in table.items():
        x, expected = np.array(pairs, dtype).T.copy()
        for repeats in (1, 9):  # a few registers and the rest of one
            y = getattr(kernels, name)(np.tile(x, repeats))
            np.testing.assert_array_equal(y, np.tile(expected, repeats), err_msg=name)
            np.testing.assert_array_equal(np.signbit(y[y == 0]), np.signbit(np.tile(expected, repeats)[y == 0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_denormal_results(dtype: type[np.floating]) -> None:
    """Tiny results keep the bits that a denormal number has: they are rounded once, not cut to zero."""
    largest = np.log(float(np.finfo(dtype).smallest_normal))
    x = np.linspace(largest - 15, largest, 1001).astype(dtype)
    for name in ("exp", "sigmoid"):
        check(name, x, np.float64 if dtype is np.float32 else np.longdouble)
    assert np.count_nonzero(kernels.exp(x)) == 1001
