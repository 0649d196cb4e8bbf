"""Forecasts without a network, the season before and an autoregression: what a network for series is measured against.

A forecast from the origin s knows values[:s] and says values[s : s + horizon]; the result has a row for each origin.
"""

from __future__ import annotations

import numpy as np

__all__ = ["Autoregression", "errors", "period_of", "seasonal_naive"]

_LEAST_CORRELATION = 0.1


def seasonal_naive(values: np.ndarray, origins: np.ndarray, horizon: int, period: int) -> np.ndarray:
    """Every value is what it was a period before, or as many periods as it takes to be known: (len(origins), horizon).

    Each origin must be at least one period into the series.
    """
    back = period - np.arange(horizon) % period
    return np.asarray(values[np.asarray(origins)[:, None] - back])


class Autoregression:
    """x[t] = constant + sum over i = 1 ... p of a[i] x[t - i], fitted to ``values`` by least squares.

    most: the greatest order p that is tried; p is chosen by Akaike's criterion n log(RSS / n) + 2 (p + 2), for which
        all orders predict the same n values.

    ``order`` is p, ``constant`` and ``coefficients`` (p,) what was fitted, to all values that have p before them.

    Raises:
        ValueError: there are too few values for so many coefficients.

    Source: H. Akaike, "A New Look at the Statistical Model Identification", 1974.
    """

    def __init__(self, values: np.ndarray, most: int) -> None:
        if not 1 <= most < len(values) // 2:
            raise ValueError(f"Autoregression: most={most!r} must be from 1 to less than half of {len(values)} values")
        q, r = np.linalg.qr(_design(values, most))
        explained = np.cumsum((q.T @ values[most:]) ** 2)  # by the constant and the first 0, 1, ... lags
        count = len(values) - most
        left = np.maximum(np.square(values[most:]).sum() - explained[1:], np.finfo(np.float64).tiny)
        criterion = count * np.log(left / count) + 2 * (np.arange(1, most + 1) + 2)
        self.order = int(criterion.argmin()) + 1
        fitted, *_ = np.linalg.lstsq(_design(values, self.order), values[self.order :], rcond=None)
        self.constant, self.coefficients = float(fitted[0]), fitted[1:]

    def forecast(self, values: np.ndarray, origins: np.ndarray, horizon: int) -> np.ndarray:
        """Step by step, each forecast the last known value of the next: (len(origins), horizon)."""
        known = values[np.asarray(origins)[:, None] - 1 - np.arange(self.order)]  # the latest first
        result = np.empty((len(known), horizon))
        for step in range(horizon):
            result[:, step] = self.constant + known @ self.coefficients
            known = np.concatenate([result[:, step : step + 1], known[:, :-1]], axis=1)
        return result


def _design(values: np.ndarray, order: int) -> np.ndarray:
    """Rows (1, x[t-1], ..., x[t-order]) for t = order, order + 1, ..."""
    lags = np.lib.stride_tricks.sliding_window_view(values[:-1], order)[:, ::-1]
    return np.concatenate([np.ones((len(lags), 1)), lags], axis=1)


def period_of(values: np.ndarray) -> int | None:
    """The distance at which the series is most like itself, up to a quarter of its length, without its straight trend;
    None if it is like itself at no distance.

    The distance is that of the highest autocorrelation behind the first one below 0.
    """
    time = np.arange(len(values), dtype=np.float64)
    rest = values - np.polynomial.Polynomial.fit(time, values, 1)(time)
    power = np.abs(np.fft.rfft(rest, 2 * len(values))) ** 2
    correlation = np.fft.irfft(power)[: len(values) // 4 + 1]
    below = np.flatnonzero(correlation < 0)
    if not len(below):
        return None
    best = int(below[0] + correlation[below[0] :].argmax())
    return best if correlation[best] > _LEAST_CORRELATION * correlation[0] else None


def errors(forecast: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """The mean absolute error, and the root of the mean squared one."""
    off = forecast - truth
    return float(np.abs(off).mean()), float(np.sqrt(np.square(off).mean()))
