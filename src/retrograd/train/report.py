"""report.html: a self-contained page about a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from .._files.atomic import write_atomically
from ..explanation.model import ModelExplanation
from ..kernel_set import begin_compiling, use_kernels
from ..nn.module import Module
from .diagnostics import leaves, profile
from .environment import machine, versions
from .gradients import RATIO, LayerGradients, figure, rows_of, share
from .html_page import PicturesMissing, definitions, facts_tiles, filled, has_pictures, times_table
from .progress import Progress, counted
from .task import Settings, Task
from .trainer import Trainer

__all__ = ["EXPLANATION", "REPORT", "ReportError", "explained", "gradients_section", "links", "write_report"]


# ---- Gradients of a trained network on held-out samples, in a page next to the report --------------------------------

EXPLANATION = "explain.html"


def explained(trainer: Trainer) -> ModelExplanation | None:
    """Return the network's layers as they ran in eval mode on some held-out samples; None if the task has none."""
    task, model = trainer.task, trainer.model
    samples = min(task.explained, len(task.held_out))
    if not samples:
        return None
    training = model.training
    model.eval()
    try:
        with use_kernels(trainer.settings.kernels):
            return ModelExplanation(model, task.held_out.take(range(samples)), task.loss)
    finally:
        model.train(training)


def links(explanation: ModelExplanation) -> dict[str, str]:
    """Return, for each layer whose gradients can be explained, its anchor in that page."""
    paths = [each["path"] for each in explanation.to_dict()["layers"] if not each["why_not"]]
    return {path: f"{EXPLANATION}#{urlencode({'layer': path})}" for path in paths}


# ---- The report's section about the gradients of each layer; empty if none were measured ----------------------------

_WIDTH, _HEIGHT = 200.0, 22.0  # size of a layer's sparkline


def gradients_section(history: Sequence[Mapping[str, Any]], model: Module) -> str:
    """Return HTML: each layer's figures in the last measured epoch, and a sparkline of its norm over all epochs."""
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
        "that are 0, and NaN or infinite, and the ratio of the norms of the weight update and the weights"
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
    return f"<tr><td>{name}</td>{cells}<td>{_sparkline(row.path, epochs)}</td></tr>"


def _sparkline(path: str, epochs: Sequence[Sequence[LayerGradients]]) -> str:
    """Draw the norm of a layer over the epochs as an ``<svg>``; epochs in which it is 0 or unknown are skipped."""
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


# ---- The report page ------------------------------------------------------------------------------------------------

REPORT = "report.html"
_MAX_TIMED = 256


class ReportError(RuntimeError):
    """The report could not be written; the checkpoint is not affected."""


def write_report(trainer: Trainer, shares: Sequence[Mapping[str, Any]] = ()) -> Path:
    """Evaluate held-out samples, time the layers, write ``report.html`` next to the checkpoint, and return its path.

    For an image network, ``explain.html`` is written next to it; it shows the gradients of held-out images entry by
    entry.

    shares: for each worker its shards, the seconds of its steps, and the seconds that it waited for other workers.

    Raises:
        PicturesMissing: Matplotlib is not installed.
        ReportError: the file could not be written; an earlier one is unchanged.
    """
    if not has_pictures():
        raise PicturesMissing
    path = trainer.output / REPORT
    parts = "curves, times and gradients" if trainer.task.explained else "curves and times"
    trainer.progress.say(f"writing the report: {parts} of {counted(len(leaves(trainer.model)), 'layer')}")
    compilation = trainer.report_compilation
    if compilation is None:
        with use_kernels(trainer.settings.kernels):
            compilation = begin_compiling(*trainer.task.report_kernels)
    if compilation is not None:
        left = compilation.done < compilation.total
        compilation.finish(trainer.progress.compiling if left else Progress().compiling)
    explanation = explained(trainer)
    page = report_page(trainer, {} if explanation is None else links(explanation), shares)
    try:
        if explanation is not None:
            explanation.save(trainer.output / EXPLANATION)
        write_atomically(path, lambda file: file.write(page.encode()))
    except OSError as error:
        raise ReportError(f"report {error}") from error
    return path


def report_page(
    trainer: Trainer, pages: Mapping[str, str] | None = None, shares: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Return the page as text; the trainer must have finished at least one epoch. pages: pages of layers, by path."""
    task, settings = trainer.task, trainer.settings
    with use_kernels(settings.kernels):
        page = task.page(trainer)
        count = min(settings.batch_size, len(task.train), _MAX_TIMED)
        x, target = task.train.take(range(count))
        rows = profile(trainer.model, x, target, repeats=5, loss=task.loss)
    chosen = {name.replace("_", " "): value for name, value in settings.as_dict().items()}
    return filled(
        REPORT,
        style=page.style,
        title=escape(task.title),
        headline=page.headline,
        subtitle=escape(page.subtitle),
        facts=facts_tiles(page.facts),
        curves=page.curves,
        body=page.body,
        gradients=gradients_section(trainer.history, trainer.model),
        times=times_table(rows, pages or {}),
        times_text=f"A training step on {count} {task.samples}, medians in milliseconds."
        + (" Each layer's name links to its gradients on held-out samples, entry by entry." if pages else ""),
        settings=definitions({**chosen, **_more_settings(task, settings), **_workers(shares)}),
        versions=definitions({**machine(), **versions()}),
        source=escape(f"{task.samples.capitalize()}: {task.source}." if task.source else "") + " Made by retrograd.",
    )


def _workers(shares: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Describe the shards and waiting time of each worker, and the workers lost."""
    found = {}
    for rank, work in enumerate(shares):
        waiting = work["waited"] / work["busy"] if work["busy"] else 0.0
        shards = f"{work['shards']} shard{'s' if work['shards'] != 1 else ''} of each batch"
        found[f"worker {rank}"] = f"{shards}, waited {waiting:.0%} of {work['busy']:.1f} s"
    if shares and shares[0]["lost"]:
        found["workers lost"] = shares[0]["lost"]
    return found


def _more_settings(task: Task, settings: Settings) -> dict[str, Any]:
    rising = f"rising in the first {task.warmup:.0%} of the steps, then " if task.warmup else ""
    own = {name.replace("_", " "): value for name, value in task.options.items() if value is not None}
    falling = "along half a cosine to 0" if settings.schedule == "cosine" else "constant"
    rate = f"{rising if settings.schedule == 'cosine' else ''}{falling}"
    name = f"AdamW with weight decay {task.weight_decay:g}" if task.weight_decay else "Adam"
    return {**own, **task.measures(), "optimizer": f"{name}, learning rate {rate}"}
