"""The report of a run on a series: forecasts compared with the truth, and errors with baselines."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from .forecast import errors
from .page import Page, filled
from .pictures import curves, forecasts
from .progress import counted, duration

if TYPE_CHECKING:
    from .series import SeriesTask
    from .trainer import Trainer

__all__ = ["series_page"]

_STYLE = """.errors td, .errors th { padding: .4rem .6rem .4rem 0; border-bottom: 1px solid var(--line); }
.errors { text-align: right; }
.errors td:first-child, .errors th:first-child { text-align: left; }
.errors th { color: var(--muted); font-weight: 500; }
.errors tr:last-child td { border-bottom: 0; }
.errors b { font-weight: 700; }
"""


def series_page(task: SeriesTask, trainer: Trainer) -> Page:
    """The page, from forecasts at every position of the held-out part."""
    history, values = trainer.history, task.series.values
    by_method = {"the network": task.forecasts(trainer), **task.baselines}
    error_of = {name: errors(forecast, task.truth) for name, forecast in by_method.items()}
    regression, season = task.baselines
    lines = {"training": [r["loss"] for r in history], "held out": [r["held_out_loss"] for r in history]}
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
        curves=f"<div>{curves('Mean squared error, standardised', lines)}</div>"
        f"<div><h2>Errors on the held-out part</h2>{_errors(error_of)}</div>",
        body=filled(
            "report_series.html",
            picture=_picture(task, by_method["the network"]),
            horizon=str(task.horizon),
            steps=_steps(task, by_method),
        ),
        style=_STYLE,
    )


def _picture(task: SeriesTask, forecast: np.ndarray) -> str:
    """The last part of the series, with consecutive forecasts that do not overlap."""
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
    """Mean absolute errors by number of steps ahead."""
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
