"""How accurate the compiled exp, log, tanh and sigmoid are: at most two units in the last place, everywhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from retrograd import kernels

Function = Callable[[np.ndarray], np.ndarray]
LIMIT = 2.0  # units in the last place
STEP = 10007  # of the float32 bit patterns, a prime: 430,000 numbers of every size and sign
LONG = np.finfo(np.longdouble).eps < np.finfo(np.float64).eps


def _sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


EXACT: dict[str, Function] = {"exp": np.exp, "log": np.log, "tanh": np.tanh, "sigmoid": _sigmoid}
# where the interesting float64 arguments lie, denormal results included
RANGES = {"exp": (-746.0, 710.0), "log": (0.0, 4.0), "tanh": (-22.0, 22.0), "sigmoid": (-746.0, 746.0)}


def check(name: str, x: np.ndarray, wide: type[np.floating]) -> None:
    """The compiled function of x against NumPy's in a wider type: same NaN and infinities, values within LIMIT."""
    y = getattr(kernels, name)(x)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(wide))
        rounded = exact.astype(x.dtype)
        finite = np.isfinite(rounded)
        np.testing.assert_array_equal(y[~finite], rounded[~finite])
        ulps = np.abs(y[finite].astype(wide) - exact[finite]) / np.spacing(np.abs(rounded[finite])).astype(wide)
    worst = ulps.argmax()
    assert ulps[worst] <= LIMIT, f"{name}({x[finite][worst]!r}) is {float(ulps[worst]):.3f} ulp off"


@pytest.mark.parametrize("name", EXACT)
def test_float32_range(name: str) -> None:
    check(name, np.arange(0, 2**32, STEP).astype(np.uint32).view(np.float32), np.float64)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.skipif(not LONG, reason="this platform has no number type wider than float64 to compare with")
def test_float64_samples(name: str) -> None:
    rng = np.random.default_rng(5)
    low, high = RANGES[name]
    bits = rng.integers(-(2**63), 2**63, 100_000).view(np.float64)
    near = rng.uniform(-1, 1, 100_000)
    check(name, np.concatenate([rng.uniform(low, high, 100_000), near, near * 1e-3, 1 + near / 2, bits]), np.longdouble)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_values(dtype: type[np.floating]) -> None:
    inf, nan, tiny = np.inf, np.nan, float(np.finfo(dtype).smallest_subnormal)
    table = {
        "exp": [(0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0), (nan, nan), (tiny, 1.0), (1e6, inf), (-1e6, 0.0)],
        "log": [(0.0, -inf), (-0.0, -inf), (inf, inf), (-inf, nan), (nan, nan), (-tiny, nan), (1.0, 0.0), (-1.0, nan)],
        "tanh": [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (nan, nan), (tiny, tiny), (-tiny, -tiny)],
        "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (inf, 1.0), (-inf, 0.0), (nan, nan), (tiny, 0.5), (1e6, 1.0), (-1e6, 0.0)],
    }
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
