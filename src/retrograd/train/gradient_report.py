"""The section of a report about the gradients of each layer; empty if none were measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..nn.module import Module
from .gradients import RATIO, LayerGradients, figure, rows_of, share
from .progress import counted

__all__ = ["gradients_section"]

_WIDTH, _HEIGHT = 200.0, 22.0  # of the line of a layer


def gradients_section(history: Sequence[Mapping[str, Any]], model: Module) -> str:
    """HTML: the figures of the last measured epoch, and a line of each layer's norm over all of them."""
    epochs = [rows_of(record, model) for record in history if "gradients" in record]
    if not epochs:
        return ""
    angles = any(row.angle is not None for row in epochs[-1])
    lines = "".join(_row(row, epochs, angles) for row in epochs[-1])
    names = ["‖g‖", "zeros", "NaN, Inf", "update/weight", *["angle (°)"] * angles]
    cells = "".join(f'<th class="n">{name}</th>' for name in names)
    head = f"<tr><th>layer</th>{cells}<th></th></tr>"
    text = (
        "Means of the steps that were measured in the last epoch: the norm of the gradient, the shares of its elements "
        "that are 0, and NaN or infinite, and the norm of the step to that of the weights"
        f"{'; the angle is to the true gradient, without backward rules' * angles}. The lines are the norms over "
        f"{counted(len(epochs), 'epoch')}, on one logarithmic scale."
    )
    return (
        f'<section>\n<h2>Gradients by layer</h2>\n<p>{text}</p>\n<table class="times">{head}{lines}</table>\n</section>'
    )


def _row(row: LayerGradients, epochs: Sequence[Sequence[LayerGradients]], angles: bool) -> str:
    values = [figure(row.norm), share(row.zeros), share(row.not_finite), figure(row.update, RATIO)]
    values += [figure(row.angle, ".1f")] * angles
    kinds = ["n", "n", "n bad" if row.not_finite else "n", "n", "n"]
    cells = "".join(f'<td class="{kind}">{escape(value)}</td>' for kind, value in zip(kinds, values, strict=False))
    name = escape(f"{row.path} {row.kind}".strip())
    return f"<tr><td>{name}</td>{cells}<td>{_line(row.path, epochs)}</td></tr>"


def _line(path: str, epochs: Sequence[Sequence[LayerGradients]]) -> str:
    """The norm of a layer over the epochs as an ``<svg>``; epochs in which it is 0 or unknown are skipped."""
    logs = [[(row.path, math.log10(row.norm)) for row in rows if row.norm] for rows in epochs]
    every = [value for rows in logs for _, value in rows]
    points = [(place, value) for place, rows in enumerate(logs) for other, value in rows if other == path]
    if len(points) < 2:
        return ""
    low, high = min(every), max(max(every), min(every) + 1)  # at least a factor of ten
    step = _WIDTH / (len(epochs) - 1)
    drawn = " ".join(f"{step * x:.1f},{_HEIGHT * (high - y) / (high - low):.1f}" for x, y in points)
    return (
        f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" preserveAspectRatio="none" role="img" '
        f'aria-label="norms of {escape(path) or "the model"} over the epochs"><polyline points="{drawn}" fill="none" '
        'stroke="var(--second)" stroke-width="1.8" vector-effect="non-scaling-stroke"/></svg>'
    )
