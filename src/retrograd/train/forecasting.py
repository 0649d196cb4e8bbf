"""The time series forecasting task, with its baselines and report.

A forecast from origin s uses values[:s] to predict values[s : s + horizon]. The result has one row per origin.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files.state import brief
from ..data.dataset import TensorDataset
from ..data.series import Series, SeriesError, load_sunspots, read_series
from ..engine.tensor import Tensor
from ..nn.functional import mse_loss
from .diagnostics import TrainingError
from .html_page import Page, advice, curves, filled, forecasts
from .networks import RECURRENT_KERNELS, SeriesNetwork, build_network
from .progress import counted, duration
from .task import Task

if TYPE_CHECKING:
    from .html_page import Page
    from .trainer import Trainer

__all__ = [
    "Autoregression",
    "SeriesOptions",
    "SeriesTask",
    "errors",
    "period_of",
    "seasonal_naive",
    "series_page",
    "series_task",
]


# ---- Baseline forecasts: seasonal naive and autoregression ----------------------------------------------------------

_MIN_CORRELATION = 0.1


def seasonal_naive(values: np.ndarray, origins: np.ndarray, horizon: int, period: int) -> np.ndarray:
    """Predict each value as the latest known one a whole number of periods before it: (len(origins), horizon).

    Each origin must be at least one period into the series.
    """
    lag = period - np.arange(horizon) % period
    return np.asarray(values[np.asarray(origins)[:, None] - lag])


class Autoregression:
    """x[t] = constant + sum over i = 1 ... p of a[i] x[t - i], fitted to ``values`` by least squares.

    most: the greatest order p to try; p minimizes Akaike's criterion n log(RSS / n) + 2 (p + 2), in which all orders
        predict the same n values.

    ``order`` is p; ``constant`` and ``coefficients`` (p,) are fitted to all values with p predecessors.

    Raises:
        ValueError: there are too few values for so many coefficients.

    Source: H. Akaike, "A New Look at the Statistical Model Identification", 1974.
    """

    constant: float
    coefficients: np.ndarray

    def __init__(self, values: np.ndarray, most: int) -> None:
        if not 1 <= most < len(values) // 2:
            raise ValueError(f"Autoregression: most={most!r} must be from 1 to less than half of {len(values)} values")
        q, r = np.linalg.qr(_design(values, most))
        explained = np.cumsum((q.T @ values[most:]) ** 2)  # by the constant and the first 0, 1, ... lags
        count = len(values) - most
        residual = np.maximum(np.square(values[most:]).sum() - explained[1:], np.finfo(np.float64).tiny)
        criterion = count * np.log(residual / count) + 2 * (np.arange(1, most + 1) + 2)
        self.order: int = int(criterion.argmin()) + 1
        fitted, *_ = np.linalg.lstsq(_design(values, self.order), values[self.order :], rcond=None)
        self.constant, self.coefficients = float(fitted[0]), fitted[1:]

    def ahead(self, horizon: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the forecasts as a linear function of the last values: weights (order, horizon), bias (horizon,).

        The weights of the latest value are in the last row.
        """
        known, constants = np.eye(self.order), np.zeros(self.order)  # of the previous values, latest first
        weights, bias = np.empty((self.order, horizon)), np.empty(horizon)
        for step in range(horizon):
            row, bias[step] = self.coefficients @ known, self.constant + self.coefficients @ constants
            weights[:, step] = row[::-1]
            known, constants = np.concatenate([row[None], known[:-1]]), np.concatenate([[bias[step]], constants[:-1]])
        return weights, bias

    def forecast(self, values: np.ndarray, origins: np.ndarray, horizon: int) -> np.ndarray:
        """Forecast step by step, each from the previous ones: (len(origins), horizon)."""
        known = values[np.asarray(origins)[:, None] - 1 - np.arange(self.order)]  # latest first
        result = np.empty((len(known), horizon))
        for step in range(horizon):
            result[:, step] = self.constant + known @ self.coefficients
            known = np.concatenate([result[:, step : step + 1], known[:, :-1]], axis=1)
        return result


def _design(values: np.ndarray, order: int) -> np.ndarray:
    """Return rows (1, x[t-1], ..., x[t-order]) for t = order, order + 1, ..."""
    lags = np.lib.stride_tricks.sliding_window_view(values[:-1], order)[:, ::-1]
    return np.concatenate([np.ones((len(lags), 1)), lags], axis=1)


def period_of(values: np.ndarray) -> int | None:
    """Return the period of the series, up to a quarter of its length; None if it has none.

    After removal of the linear trend, it is the lag of the highest autocorrelation after the first negative one.
    """
    time = np.arange(len(values), dtype=np.float64)
    rest = values - np.polynomial.Polynomial.fit(time, values, 1)(time)
    power = np.abs(np.fft.rfft(rest, 2 * len(values))) ** 2
    correlation = np.fft.irfft(power)[: len(values) // 4 + 1]
    below = np.flatnonzero(correlation < 0)
    if not len(below):
        return None
    best = int(below[0] + correlation[below[0] :].argmax())
    return best if correlation[best] > _MIN_CORRELATION * correlation[0] else None


def errors(forecast: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return the mean absolute and the root mean square error."""
    error = forecast - truth
    return float(np.abs(error).mean()), float(np.sqrt(np.square(error).mean()))


# ---- `retrograd train series`: a network that forecasts a series of numbers -----------------------------------------

_PERIODS = 3  # periods in the network's input window
_MIN_PERIODS = 4
_HELD_OUT = 0.2
_FEW_WINDOWS = 1000
_LEVEL = 1.02  # the last loss, divided by the lowest one, from which on it counts as rising again
_LABELS = 8  # stored in a checkpoint, to find out how they go on
_SUNSPOTS = 132  # months: eleven years

_KERNELS = (
    *RECURRENT_KERNELS,
    "memory.moves.copy",
    "memory.moves.tiles",
    "pointwise.add",
    "pointwise.add_broadcast",
    "pointwise.scale",
    "pointwise.sub",
    "pointwise.sub_broadcast",
    "loss.squared_error",
    "loss.squared_error_grad_x",
    "reduction.sum_rows",
    "moments.merge_total",
)


@dataclass(frozen=True)
class SeriesOptions:
    """Options of a series task.

    column: a column of the file; None for the sunspots.
    period: number of values after which the series repeats; None detects it.
    horizon: number of values to forecast at once.

    Raises:
        ValueError: a value is out of range; the message names the command's option.
    """

    column: str | None = None
    period: int | None = None
    horizon: int = 12

    def __post_init__(self) -> None:
        for name, value, least in (("period", self.period, 2), ("horizon", self.horizon, 1)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise ValueError(f"{name}={brief(value)} must be an int of at least {least}")
        if self.column is not None and not isinstance(self.column, str):
            raise ValueError(f"column={brief(self.column)} must be a name")


@dataclass(kw_only=True)
class SeriesTask(Task):
    """A network and the series it learns from.

    A sample is a window of three periods, standardized by mean and deviation of the training part; its target is the
    next ``horizon`` values. The targets of held-out samples, and only these, are in the last fifth of the series.

    series: the numbers; ``first`` is the position of the first held-out value.
    period, horizon: see SeriesOptions.
    mean, deviation: of the training part.
    regression: an autoregression fitted to the training part.
    """

    samples = "windows"

    series: Series
    first: int
    period: int
    horizon: int
    mean: float
    deviation: float
    regression: Autoregression

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return mse_loss(output, target)

    def stored(self) -> dict[str, Any]:
        return {
            "series": {
                "values": self.series.values,
                "labels": list(self.series.labels[-_LABELS:]),
                "column": self.series.name,
                "first": self.first,
                "period": self.period,
                "window": int(self.held_out.tensors[0].shape[1]),
                "mean": self.mean,
                "deviation": self.deviation,
            }
        }

    @cached_property
    def origins(self) -> np.ndarray:
        """The first positions of the held-out targets."""
        return np.arange(self.first, len(self.series.values) - self.horizon + 1)

    @cached_property
    def truth(self) -> np.ndarray:
        """The values to forecast from each origin, (origins, horizon)."""
        return self.series.values[self.origins[:, np.newaxis] + np.arange(self.horizon)]

    @cached_property
    def baselines(self) -> Mapping[str, np.ndarray]:
        """Baseline forecasts from each origin, by name."""
        values, regression = self.series.values, self.regression
        return {
            f"autoregression of order {regression.order}": regression.forecast(values, self.origins, self.horizon),
            "one period before": seasonal_naive(values, self.origins, self.horizon, self.period),
        }

    def forecasts(self, trainer: Trainer) -> np.ndarray:
        """The network's forecasts from each origin, (origins, horizon)."""
        return trainer.scores().astype(np.float64) * self.deviation + self.mean

    def result(self, trainer: Trainer) -> str:
        error = errors(self.forecasts(trainer), self.truth)[0]
        others = "; ".join(f"{name} {errors(forecast, self.truth)[0]:.4g}" for name, forecast in self.baselines.items())
        shortfall = self.shortfall(trainer, error)
        return (
            f"mean absolute error {error:.4g} over the next {self.horizon} values of the held-out part, after "
            f"{counted(trainer.epoch, 'epoch')}; {others}" + (f". {shortfall}" if shortfall else "")
        )

    def shortfall(self, trainer: Trainer, error: float) -> str:
        """Name the baselines that are better than the network and what to try; empty if none is."""
        better = [name for name, forecast in self.baselines.items() if errors(forecast, self.truth)[0] < error]
        if not better:
            return ""
        verdict = f"Better than the network: {', '.join(better)}"
        losses = trainer.history.column("held_out_loss")
        lowest = 1 + min(range(len(losses)), key=losses.__getitem__)
        if lowest == len(losses):
            return f"{verdict}. The held-out loss was still falling: try more --epochs"
        longer = "a longer series, " if len(self.train) < _FEW_WINDOWS else ""
        if losses[-1] < _LEVEL * min(losses):
            return f"{verdict}. The held-out loss has leveled off: try {longer}another --period or a higher --lr"
        return (
            f"{verdict}. The held-out loss was lowest after epoch {lowest}, so the network overfits its "
            f"{len(self.train):,} windows: try {longer}fewer --epochs, a lower --lr or another --period"
        )

    def page(self, trainer: Trainer) -> Page:
        return series_page(self, trainer)


def series_task(path: Path | None, options: SeriesOptions, series: Series | None = None) -> SeriesTask:
    """Build the task of a GRU and an autoregression on a column of a CSV file, or on the sunspots if path is None.

    series: the content of the file, if it has been read before.

    Raises:
        TrainingError: the file cannot be used, or the series is constant, too short, or has no period.
        RuntimeError: the bundled data file is missing or damaged.
    """
    try:
        if series is None:
            series = load_sunspots() if path is None else read_series(path, options.column or "")
    except SeriesError as error:
        raise TrainingError(str(error)) from None
    name = f"{series.name} of {path.name}" if path is not None else "monthly sunspot numbers, 1749 to 1980"
    values = series.values
    first = len(values) - int(len(values) * _HELD_OUT)
    if values[:first].min() == values[:first].max():
        raise TrainingError(f"{name}: the first {first:,} values are all {values[0]:g}; there is nothing to learn")
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(values[:first].mean()), float(values[:first].std())
    if not 0 < deviation < np.inf:
        raise TrainingError(
            f"{name}: the values are too {'large' if deviation else 'close to each other'}, so that their standard "
            f"deviation is {deviation:g}; choose another unit, such as {'millions' if deviation else 'millionths'}"
        )
    period = options.period or (_SUNSPOTS if path is None else _detected_period(name, values[:first]))
    _check_length(name, len(values), first, period, options.horizon)
    scaled = ((values - mean) / deviation).astype(np.float32)
    look = _PERIODS * period
    regression = Autoregression(values[:first], min(2 * period, (first - 1) // 3))
    network = {"name": "series", "arguments": {"horizon": options.horizon, "lags": regression.order}}
    model = build_network(network)
    assert isinstance(model, SeriesNetwork)
    weights, bias = regression.ahead(options.horizon)
    model.regression_weight.array[:] = weights
    model.regression_bias.array[:] = (bias + (weights.sum(0) - 1) * mean) / deviation  # of standardized values
    used = {**asdict(options), "period": period}
    return SeriesTask(
        name="series",
        title="Sunspots" if path is None else f"{series.name} of {path.name}",
        model=model,
        train=_windows(scaled, look, options.horizon, look, first),
        held_out=_windows(scaled, look, options.horizon, first, len(scaled)),
        series=series,
        first=first,
        period=period,
        horizon=options.horizon,
        mean=mean,
        deviation=deviation,
        regression=regression,
        kernels=_KERNELS,
        source=f"{name}{', see files/ATTRIBUTION.txt' if path is None else ''}",
        network=network,
        options={**used, "sha256": hashlib.sha256(values.astype("<f8").tobytes()).hexdigest()},
        warmup=0.05,
    )


def _detected_period(name: str, values: np.ndarray) -> int:
    period = period_of(values)
    if period is None:
        raise TrainingError(
            f"{name}: no period found in the {len(values):,} values to train on; pass one with --period, or a longer "
            "series"
        )
    return max(period, 2)


def _check_length(name: str, size: int, first: int, period: int, horizon: int) -> None:
    if size < _MIN_PERIODS * period:
        raise TrainingError(
            f"{name}: {size:,} values are fewer than {_MIN_PERIODS} periods of {period}; pass a longer series, or a "
            "shorter --period"
        )
    spare = min(first - _PERIODS * period, size - first)
    if spare < horizon:
        remedy = f"choose a --horizon of at most {spare}" if spare > 0 else "pass a longer one, or a shorter --period"
        raise TrainingError(
            f"{name}: {size:,} values, of which {first:,} are trained on, are too few for windows of {_PERIODS} "
            f"periods of {period} and the {horizon} values after them; {remedy}"
        )


def _windows(values: np.ndarray, look: int, horizon: int, start: int, stop: int) -> TensorDataset:
    """Return the samples whose targets are in values[start:stop]: x (look,), target (horizon,)."""
    both = np.lib.stride_tricks.sliding_window_view(values, look + horizon)[start - look : stop - look - horizon + 1]
    return TensorDataset(np.ascontiguousarray(both[:, :look]), np.ascontiguousarray(both[:, look:]))


# ---- The report of a series run: forecasts, and errors compared with the baselines ----------------------------------

_STYLE = """.errors td, .errors th { padding: .4rem .6rem .4rem 0; border-bottom: 1px solid var(--line); }
.errors { text-align: right; }
.errors td:first-child, .errors th:first-child { text-align: left; }
.errors th { color: var(--muted); font-weight: 500; }
.errors tr:last-child td { border-bottom: 0; }
.errors b { font-weight: 700; }
"""


def series_page(task: SeriesTask, trainer: Trainer) -> Page:
    """Build the page, from forecasts at every position of the held-out part."""
    history, values = trainer.history, task.series.values
    by_method = {"the network": task.forecasts(trainer), **task.baselines}
    error_of = {name: errors(forecast, task.truth) for name, forecast in by_method.items()}
    regression, season = task.baselines
    lines = {"training": [r["loss"] for r in history], "held out": [r["held_out_loss"] for r in history]}
    shortfall = task.shortfall(trainer, error_of["the network"][0])
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    return Page(
        headline=f"mean absolute error {error_of['the network'][0]:.4g}",
        subtitle=f"{task.first:,} values to train on, {len(values) - task.first:,} held out, a period of "
        f"{task.period}, {counted(len(history), 'epoch')}, seed {trainer.settings.seed}",
        facts={
            f"mean absolute error, next {task.horizon}": f"{error_of['the network'][0]:.4g}",
            regression: f"{error_of[regression][0]:.4g}",
            season: f"{error_of[season][0]:.4g}",
            "training time": duration(trainer.seconds),
            "parameters": f"{parameters:,}",
        },
        curves=f"<div>{curves('Mean squared error, standardized', lines)}</div>"
        f"<div><h2>Errors on the held-out part</h2>{_errors(error_of)}</div>",
        body=filled(
            "report_series.html",
            shortfall=f"<p>{advice(shortfall)}</p>" if shortfall else "",
            picture=_picture(task, by_method["the network"]),
            horizon=str(task.horizon),
            steps=_steps(task, by_method),
        ),
        style=_STYLE,
    )


def _picture(task: SeriesTask, forecast: np.ndarray) -> str:
    """Draw the last part of the series, with consecutive forecasts that do not overlap."""
    values = task.series.values
    start = task.first - min(task.period, task.first)
    pieces = [
        (int(task.origins[row]) - start, [float(value) for value in forecast[row]])
        for row in range(0, len(forecast), task.horizon)
    ]

    def label(place: int) -> str:
        return task.series.label(start + place) if 0 <= start + place < len(values) else ""

    name = f"forecast of the next {task.horizon}"
    return forecasts("Held-out part", values[start:].tolist(), {name: pieces}, label)


def _errors(error_of: dict[str, tuple[float, float]]) -> str:
    best = [min(error[column] for error in error_of.values()) for column in (0, 1)]
    lines = "".join(
        f"<tr><td>{escape(name)}</td>"
        + "".join(
            f"<td>{f'<b>{error:.4g}</b>' if error == least else f'{error:.4g}'}</td>"
            for error, least in zip(row, best, strict=True)
        )
        + "</tr>"
        for name, row in error_of.items()
    )
    head = "<tr><th>forecast by</th><th>mean absolute</th><th>root mean square</th></tr>"
    return f'<table class="errors">{head}{lines}</table>'


def _steps(task: SeriesTask, by_method: dict[str, np.ndarray]) -> str:
    """Return a table of mean absolute errors by number of steps ahead."""
    horizon = task.horizon
    ahead = sorted({1, max(1, horizon // 4), max(1, horizon // 2), max(1, 3 * horizon // 4), horizon})
    head = "".join(f"<th>{step}</th>" for step in ahead)
    lines = "".join(
        f"<tr><td>{escape(name)}</td>"
        + "".join(f"<td>{errors(forecast[:, step - 1], task.truth[:, step - 1])[0]:.4g}</td>" for step in ahead)
        + "</tr>"
        for name, forecast in by_method.items()
    )
    return f'<table class="errors"><tr><th>values ahead</th>{head}</tr>{lines}</table>'
