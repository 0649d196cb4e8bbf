"""Baseline forecasts to compare a network for series with: seasonal naive and an autoregression.

A forecast from origin s uses values[:s] to predict values[s : s + horizon]; the result has one row per origin.
"""

from __future__ import annotations

import numpy as np

__all__ = ["Autoregression", "errors", "period_of", "seasonal_naive"]

_LEAST_CORRELATION = 0.1


def seasonal_naive(values: np.ndarray, origins: np.ndarray, horizon: int, period: int) -> np.ndarray:
    """Predicts the value one period earlier, or as many periods as needed to be known: (len(origins), horizon).

    Each origin must be at least one period into the series.
    """
    lag = period - np.arange(horizon) % period
    return np.asarray(values[np.asarray(origins)[:, None] - lag])


class Autoregression:
    """x[t] = constant + sum over i = 1 ... p of a[i] x[t - i], fitted to ``values`` by least squares.

    most: the greatest order p to try; p minimises Akaike's criterion n log(RSS / n) + 2 (p + 2), in which all orders
        predict the same n values.

    ``order`` is p; ``constant`` and ``coefficients`` (p,) are fitted to all values with p predecessors.

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
        residual = np.maximum(np.square(values[most:]).sum() - explained[1:], np.finfo(np.float64).tiny)
        criterion = count * np.log(residual / count) + 2 * (np.arange(1, most + 1) + 2)
        self.order = int(criterion.argmin()) + 1
        fitted, *_ = np.linalg.lstsq(_design(values, self.order), values[self.order :], rcond=None)
        self.constant, self.coefficients = float(fitted[0]), fitted[1:]

    def forecast(self, values: np.ndarray, origins: np.ndarray, horizon: int) -> np.ndarray:
        """Forecasts step by step, each from the previous ones: (len(origins), horizon)."""
        known = values[np.asarray(origins)[:, None] - 1 - np.arange(self.order)]  # latest first
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
    """The period of the series, up to a quarter of its length, after removing the linear trend; None if it has none.

    It is the lag of the highest autocorrelation after the first negative one.
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
    """The mean absolute and the root mean square error."""
    error = forecast - truth
    return float(np.abs(error).mean()), float(np.sqrt(np.square(error).mean()))
