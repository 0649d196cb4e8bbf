"""The baselines of series."""

from __future__ import annotations

import math

import numpy as np
import pytest

from retrograd.data.series import load_sunspots
from retrograd.train.forecasting import Autoregression, errors, period_of, seasonal_naive


def made(size: int, noise: float, seed: int = 0) -> np.ndarray:
    """x[t] = 2 + 1.5 x[t-1] - 0.8 x[t-2] + noise."""
    random = np.random.default_rng(seed)
    values = [1.0, 3.0]
    for _ in range(size - 2):
        values.append(2 + 1.5 * values[-1] - 0.8 * values[-2] + noise * random.normal())
    return np.array(values)


def test_the_season_before() -> None:
    values = np.arange(100.0, 120.0)
    assert seasonal_naive(values, np.array([5, 9]), 3, 4).tolist() == [[101, 102, 103], [105, 106, 107]]
    assert seasonal_naive(values, np.array([5]), 7, 3).tolist() == [[102, 103, 104, 102, 103, 104, 102]]


def test_an_autoregression_finds_its_own_equation() -> None:
    found = Autoregression(made(400, 1.0), 12)
    assert 2 <= found.order <= 4
    assert np.allclose(found.coefficients[:2], [1.5, -0.8], atol=0.15)
    assert np.abs(found.coefficients[2:]).max(initial=0) < 0.2
    exact = Autoregression(made(40, 0.0), 2)
    assert exact.order == 2 and np.allclose(exact.coefficients, [1.5, -0.8]) and exact.constant == pytest.approx(2)


def test_the_order_is_that_of_the_least_criterion() -> None:
    values, most = made(120, 1.0, seed=3), 9
    criteria = []
    for order in range(1, most + 1):
        rows = np.array([[1, *(values[t - i] for i in range(1, order + 1))] for t in range(most, len(values))])
        fitted = np.linalg.lstsq(rows, values[most:], rcond=None)[0]
        rest = ((rows @ fitted - values[most:]) ** 2).sum()
        criteria.append(len(rows) * math.log(rest / len(rows)) + 2 * (order + 2))
    assert Autoregression(values, most).order == int(np.argmin(criteria)) + 1


def test_forecasts_go_on_from_forecasts() -> None:
    values = made(200, 1.0)
    found = Autoregression(values, 4)
    result = found.forecast(values, np.array([50, 200]), 5)
    for origin, row in zip((50, 200), result, strict=True):
        known = values[:origin].tolist()
        for _ in range(5):
            known.append(found.constant + sum(a * known[-i] for i, a in enumerate(found.coefficients, 1)))
        np.testing.assert_allclose(row, known[origin:])


def test_forecasts_as_a_linear_function_of_the_last_values() -> None:
    values = made(200, 1.0)
    found = Autoregression(values, 4)
    weights, bias = found.ahead(5)
    assert weights.shape == (found.order, 5)
    for origin in (50, 200):
        expected = found.forecast(values, np.array([origin]), 5)[0]
        np.testing.assert_allclose(values[origin - found.order : origin] @ weights + bias, expected)


def test_too_many_coefficients() -> None:
    with pytest.raises(ValueError, match="most=10 must be from 1 to less than half of 20 values"):
        Autoregression(np.arange(20.0), 10)


def test_periods() -> None:
    random = np.random.default_rng(0)
    time = np.arange(300)
    assert period_of(np.sin(2 * np.pi * time / 24) + 0.3 * random.normal(size=300)) == 24
    assert period_of(0.5 * time + np.tile([3.0, 0, 0, 1, 0, 0, 0], 43)[:300]) == 7
    assert period_of(random.normal(size=3000)) is None and period_of(np.ones(100)) is None
    assert 120 < (period_of(load_sunspots().values) or 0) < 140  # eleven years


def test_errors() -> None:
    assert errors(np.array([[1.0, 2.0]]), np.array([[0.0, 5.0]])) == (2, math.sqrt(5))
