"""Special functions: values over wide ranges and at special numbers, gradients and second gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_agree, assert_close, normal, uniform

WIDE = np.concatenate(
    [np.linspace(-20.37, 20.41, 501), np.logspace(-8, 4, 60), [0.0, -0.0, 1, 2, np.nan, -1, -2, 170, 1e10, 1e-300]]
)
PROBABILITIES = np.concatenate([np.linspace(0, 1, 201), [1 - 1e-10, 1e-10, 1e-300, 1.5, -0.5, np.nan, 1 - 1e-15]])
POSITIVE = np.concatenate([np.logspace(-6, 2, 100), [0, np.inf, np.nan]])
ONE: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray, np.ndarray]] = {
    "gammaln": (lambda m, x: m.special.gammaln(x), WIDE, uniform(0.3, 9.0, 20)),
    "digamma": (lambda m, x: x.digamma(), WIDE, normal(20)),
    "polygamma 2": (lambda m, x: m.polygamma(2, x), WIDE, normal(20)),
    "polygamma 3": (lambda m, x: x.polygamma(3), WIDE, uniform(0.3, 9.0, 20)),
    "mvlgamma": (lambda m, x: m.mvlgamma(x, 3), WIDE[WIDE > 1.1], uniform(1.3, 9.0, 20)),
    "i0": (lambda m, x: m.i0(x), WIDE, normal(20)),
    "i0e": (lambda m, x: m.special.i0e(x), WIDE, normal(20)),
    "i1": (lambda m, x: m.special.i1(x), WIDE, normal(20)),
    "i1e": (lambda m, x: m.special.i1e(x), WIDE, normal(20)),
    "ndtr": (lambda m, x: m.special.ndtr(x), WIDE, normal(20)),
    "log_ndtr": (lambda m, x: m.special.log_ndtr(x), WIDE, normal(20)),
    "entr": (lambda m, x: m.special.entr(x), WIDE, uniform(0.1, 2.0, 20)),
    "sinc": (lambda m, x: m.sinc(x), WIDE, normal(20)),
    "erfinv": (lambda m, x: m.erfinv(x), 2 * PROBABILITIES - 1, uniform(-0.9, 0.9, 20)),
    "ndtri": (lambda m, x: m.special.ndtri(x), PROBABILITIES, uniform(0.1, 0.9, 20)),
    "logit": (lambda m, x: m.special.logit(x, 1e-3), PROBABILITIES, uniform(0.1, 0.9, 20)),
    "expit": (lambda m, x: m.special.expit(x), WIDE, normal(20)),
    **{
        f"{name} {a}": (
            lambda m, x, name=name, a=a: getattr(m, name)(m.tensor(a, dtype=x.dtype), x),
            POSITIVE,
            uniform(0.1, 9.0, 20),
        )
        for name in ("igamma", "igammac")
        for a in (0.5, 1.0, 3.7)
    },
}


@pytest.mark.parametrize("name", ONE)
def test_values_over_a_wide_range(name: str) -> None:
    call, x, _ = ONE[name]
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 3e-5)):
        xs = x.astype(dtype)
        with np.errstate(all="ignore"):
            mine, yours = call(retrograd, retrograd.tensor(xs)), call(torch, torch.tensor(xs))
        finite = np.isfinite(yours.numpy())
        np.testing.assert_array_equal(np.isnan(mine.numpy()), np.isnan(yours.numpy()))
        np.testing.assert_allclose(mine.numpy()[finite], yours.numpy()[finite], rtol=tolerance, atol=tolerance)
        assert mine.dtype == dtype


@pytest.mark.parametrize("name", ONE)
def test_gradients(name: str) -> None:
    call, _, x = ONE[name]
    second = not name.startswith("polygamma 3")  # PyTorch's orders above are less accurate
    assert_agree(lambda x: call(retrograd, x), lambda x: call(torch, x), x, second=second, tolerance=1e-9)


def test_two_operands() -> None:
    x, y = normal(14), uniform(0.3, 5.0, 14)
    assert_agree(retrograd.logaddexp2, torch.logaddexp2, x, y)
    assert_agree(retrograd.special.xlog1py, torch.special.xlog1py, x, y)
    zero = np.array([0.0, 0, 0, 1]), np.array([-1.0, np.inf, np.nan, -1])
    assert_close(
        retrograd.special.xlog1py(*map(retrograd.tensor, zero)),
        torch.special.xlog1py(*map(torch.tensor, zero)),
        "xlog1py",
    )
    s, q = np.array([2.0, 3, 1.5, 1, 0.5, 2, 3, 1.5]), np.array([1.0, 0.1, 20, 1, 1, -0.5, -3.75, -0.5])
    assert_close(
        retrograd.special.zeta(*map(retrograd.tensor, (s, q))), torch.special.zeta(*map(torch.tensor, (s, q))), "zeta"
    )
