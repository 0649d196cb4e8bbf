"""``retrograd train series``: a network learns to forecast a series of numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._files.state import brief
from ..data.dataset import TensorDataset
from ..data.series import Series, SeriesError, load_sunspots, read_series
from ..engine.tensor import Tensor
from ..nn.functional import mse_loss
from .faults import TrainingError
from .forecast import Autoregression, errors, period_of, seasonal_naive
from .networks import build_network
from .progress import counted
from .sequence_networks import RECURRENT_KERNELS
from .task import Task

if TYPE_CHECKING:
    from .page import Page
    from .trainer import Trainer

__all__ = ["SeriesOptions", "SeriesTask", "series_task"]

_PERIODS = 3  # in the network's input window
_LEAST_PERIODS = 4
_HELD_OUT = 0.2
_SUNSPOTS = 132  # months: eleven years

_KERNELS = (
    *RECURRENT_KERNELS,
    "pointwise.pointwise.add",
    "pointwise.pointwise.add_broadcast",
    "loss.loss.squared_error",
    "loss.loss.squared_error_grad_x",
    "reduction.merge.total",
)


@dataclass(frozen=True)
class SeriesOptions:
    """Options of a series task.

    column: of the file; None for the sunspots.
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
    """A network with the series it learns from.

    A sample is a window of three periods, standardised by mean and deviation of the training part; its target is the
    next ``horizon`` values. The targets of held-out samples, and only these, are in the last fifth of the series.

    series: the numbers; ``first`` is the position of the first held-out one.
    period, horizon: see SeriesOptions.
    mean, deviation: of the training part.
    """

    samples = "windows"

    series: Series
    first: int
    period: int
    horizon: int
    mean: float
    deviation: float

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return mse_loss(output, target)

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
        values = self.series.values
        regression = Autoregression(values[: self.first], min(2 * self.period, (self.first - 1) // 3))
        return {
            f"autoregression of order {regression.order}": regression.forecast(values, self.origins, self.horizon),
            "one period before": seasonal_naive(values, self.origins, self.horizon, self.period),
        }

    def forecasts(self, trainer: Trainer) -> np.ndarray:
        """The network's forecasts from each origin, (origins, horizon)."""
        return trainer.scores().astype(np.float64) * self.deviation + self.mean

    def result(self, trainer: Trainer) -> str:
        others = "; ".join(f"{name} {errors(forecast, self.truth)[0]:.4g}" for name, forecast in self.baselines.items())
        return (
            f"mean absolute error {errors(self.forecasts(trainer), self.truth)[0]:.4g} over the next {self.horizon} "
            f"values of the held-out part, after {counted(trainer.epoch, 'epoch')}; {others}"
        )

    def page(self, trainer: Trainer) -> Page:
        from .series_report import series_page

        return series_page(self, trainer)


def series_task(path: Path | None, options: SeriesOptions) -> SeriesTask:
    """A GRU and a series: a column of a CSV file, or the bundled sunspots if path is None.

    Raises:
        TrainingError: the file cannot be used, or the series is constant, too short, or has no period.
        RuntimeError: the bundled data file is missing or damaged.
    """
    try:
        series = load_sunspots() if path is None else read_series(path, options.column or "")
    except SeriesError as error:
        raise TrainingError(str(error)) from None
    name = f"{series.name} of {path.name}" if path is not None else "monthly sunspot numbers, 1749 to 1980"
    values = series.values
    first = len(values) - int(len(values) * _HELD_OUT)
    if values[:first].min() == values[:first].max():
        raise TrainingError(f"{name}: the first {first:,} values are all {values[0]:g}; there is nothing to learn")
    period = options.period or (_SUNSPOTS if path is None else _detected_period(name, values[:first]))
    _check_length(name, len(values), first, period, options.horizon)
    mean, deviation = float(values[:first].mean()), float(values[:first].std())
    scaled = ((values - mean) / deviation).astype(np.float32)
    look = _PERIODS * period
    network = {"name": "series", "arguments": {"horizon": options.horizon}}
    used = {**asdict(options), "period": period}
    return SeriesTask(
        name="series",
        title="Sunspots" if path is None else f"{series.name} of {path.name}",
        model=build_network(network),
        train=_windows(scaled, look, options.horizon, look, first),
        held_out=_windows(scaled, look, options.horizon, first, len(scaled)),
        series=series,
        first=first,
        period=period,
        horizon=options.horizon,
        mean=mean,
        deviation=deviation,
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
    if size < _LEAST_PERIODS * period:
        raise TrainingError(
            f"{name}: {size:,} values are fewer than {_LEAST_PERIODS} periods of {period}; pass a longer series, or a "
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
    """The samples whose targets are in values[start:stop]: x (look,), target (horizon,)."""
    both = np.lib.stride_tricks.sliding_window_view(values, look + horizon)[start - look : stop - look - horizon + 1]
    return TensorDataset(np.ascontiguousarray(both[:, :look]), np.ascontiguousarray(both[:, look:]))
