"""report.html: one self-contained page about a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from .._files.atomic import why_not_written, write_atomically
from ..kernel_set import use_kernels
from .environment import machine, versions
from .explained import EXPLANATION, explained, links
from .gradient_report import gradients_section
from .page import definitions, facts_tiles, filled, times_table
from .profile import profile
from .task import Task
from .trainer import Trainer

__all__ = ["REPORT", "ReportError", "write_report"]

REPORT = "report.html"
_MOST_TIMED = 256


class ReportError(RuntimeError):
    """The report could not be written; the checkpoint is not affected."""


def write_report(trainer: Trainer, shares: Sequence[Mapping[str, Any]] = ()) -> Path:
    """Evaluate held-out samples, time the layers, write ``report.html`` next to the checkpoint, and return its path.

    Of a network for images ``explain.html`` stands beside it, where the gradients of held-out images are taken apart.

    shares: of each worker its shards, its seconds in steps, and those that it waited for others.

    Raises:
        PicturesMissing: Matplotlib is not installed.
        ReportError: the file could not be written; an earlier one is unchanged.
    """
    path = trainer.output / REPORT
    explanation = explained(trainer)
    page = report_page(trainer, {} if explanation is None else links(explanation), shares)
    try:
        if explanation is not None:
            explanation.save(trainer.output / EXPLANATION)
        write_atomically(path, lambda file: file.write(page.encode()))
    except OSError as error:
        raise ReportError(f"report {why_not_written(path, error)}") from error
    return path


def report_page(
    trainer: Trainer, pages: Mapping[str, str] | None = None, shares: Sequence[Mapping[str, Any]] = ()
) -> str:
    """The page as text; the trainer must have finished at least one epoch. pages: of layers, by path."""
    task, settings = trainer.task, trainer.settings
    with use_kernels(settings.kernels):
        page = task.page(trainer)
        count = min(settings.batch_size, len(task.train), _MOST_TIMED)
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
        + (" Each layer's name leads to its gradients on held-out samples, entry by entry." if pages else ""),
        settings=definitions({**chosen, **_more_settings(task), **_workers(shares)}),
        versions=definitions({**machine(), **versions()}),
        source=escape(f"{task.samples.capitalize()}: {task.source}." if task.source else "") + " Made by retrograd.",
    )


def _workers(shares: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Describe the shards and waiting time of each worker, and the workers lost."""
    found = {}
    for rank, share in enumerate(shares):
        waiting = share["waited"] / share["busy"] if share["busy"] else 0.0
        shards = f"{share['shards']} shard{'s' if share['shards'] != 1 else ''} of each batch"
        found[f"worker {rank}"] = f"{shards}, waited {waiting:.0%} of {share['busy']:.1f} s"
    if shares and shares[0]["lost"]:
        found["workers lost"] = shares[0]["lost"]
    return found


def _more_settings(task: Task) -> dict[str, Any]:
    rising = f"rising in the first {task.warmup:.0%} of the steps, then " if task.warmup else ""
    own = {name.replace("_", " "): value for name, value in task.options.items() if value is not None}
    return {**own, "optimizer": f"Adam, learning rate {rising}along half a cosine to 0"}
