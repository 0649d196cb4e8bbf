"""Shared parts of the studies: the training recipe, the table, and the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

from .._files.atomic import write_atomically
from .._files.terminal import aligned
from ..nn.module import Module
from ..ops.random.random import manual_seed
from ..optim import Adam
from ..optim.lr_scheduler import LambdaLR
from ..train.callbacks import Callback, LRScheduler
from ..train.environment import machine, versions
from ..train.fit import History, fit
from ..train.html_page import definitions, facts_tiles, filled
from ..train.image_classification import ImageTask, digits_task, mnist5k_task
from ..train.progress import Progress

__all__ = ["Recipe", "Study", "task_of", "train", "write_study"]

STUDY = "study.html"
_WARMUP = 0.1  # the fraction of the steps in which the learning rate rises
TASKS: dict[str, Callable[[], ImageTask]] = {"digits": digits_task, "mnist5k": mnist5k_task}


@dataclass(frozen=True)
class Recipe:
    """The training recipe of a study: Adam, with a learning rate that rises and then falls along half a cosine.

    Raises:
        ValueError: a value is out of range; the message names the command's option.
    """

    epochs: int = 30
    batch_size: int = 64
    lr: float = 3e-3
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low, high in (("epochs", 1, 10_000), ("batch_size", 1, 10_000), ("seed", 0, 2**63 - 1)):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ValueError(f"{name.replace('_', '-')}={value!r} must be an int from {low} to {high:,}")
        if isinstance(self.lr, bool) or not isinstance(self.lr, (int, float)) or not 0 < self.lr <= 10:
            raise ValueError(f"lr={self.lr!r} must be a number above 0, at most 10")


@dataclass
class Study:
    """The result of a study, as data: str() returns the table and the remarks, ``write_study`` writes the page.

    headings, rows: the table; the first column names the networks. remarks: paragraphs that explain it.
    facts: the main figures by name.
    curves: HTML of pictures. notes: descriptions of the compared networks, one paragraph each, by name.
    figures: all measured values, by network.
    """

    title: str
    subtitle: str
    headings: list[str]
    rows: list[list[str]]
    table_text: str
    remarks: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    curves: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    source: str = ""

    def __str__(self) -> str:
        remarks = [wrapped for text in self.remarks for wrapped in ("", *wrap(text, 100))]
        return "\n".join([*aligned([self.headings, *self.rows], left=1), *remarks])


def task_of(name: str) -> ImageTask:
    """Return the images of a study: "digits" or "mnist5k".

    Raises:
        ValueError: there is no such task.
    """
    if name not in TASKS:
        raise ValueError(f"data={name!r} must be one of {', '.join(TASKS)}")
    return TASKS[name]()


def train(
    model: Module,
    task: ImageTask,
    recipe: Recipe,
    progress: Progress,
    callbacks: Sequence[Callback] = (),
    lr: float | None = None,
) -> History:
    """Train a network by the recipe, on images in an order determined only by the seed."""
    steps = recipe.epochs * math.ceil(len(task.train) / recipe.batch_size)

    def rate(step: int) -> float:
        falling = 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps)))
        return min(1.0, (step + 1) / (_WARMUP * steps)) * falling

    optimizer = Adam(model.parameters(), lr=recipe.lr if lr is None else lr)
    manual_seed(recipe.seed + 1)
    return fit(
        model,
        task.train,
        epochs=recipe.epochs,
        batch_size=recipe.batch_size,
        optimizer=optimizer,
        held_out=task.held_out,
        augment=task.augment,
        progress=progress,
        callbacks=[LRScheduler(LambdaLR(optimizer, rate), every="step"), *callbacks],
    )


def write_study(study: Study, folder: Path) -> Path:
    """Write the page ``study.html`` into a folder, which is created if necessary, and return its path.

    Raises:
        OSError: the page cannot be written; an earlier one is unchanged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / STUDY
    page = study_page(study)
    write_atomically(path, lambda file: file.write(page.encode()))
    return path


def study_page(study: Study) -> str:
    """Return the self-contained page as text."""
    curves = [study.curves[first : first + 2] for first in range(0, len(study.curves), 2)]
    return filled(
        STUDY,
        __package__,
        title=escape(study.title),
        headline=escape(next(iter(study.facts.values()), "")),
        subtitle=escape(study.subtitle),
        facts=facts_tiles(study.facts),
        table_text="</p><p>".join(map(escape, (study.table_text, *study.remarks))),
        table=_table(study.headings, study.rows),
        curves="".join(
            f'<section class="pair">{"".join(f"<div>{svg}</div>" for svg in pair)}</section>' for pair in curves
        ),
        notes=definitions(study.notes),
        settings=definitions(study.settings),
        versions=definitions({**machine(), **versions()}),
        source=escape(f"Images: {study.source}." if study.source else "") + " Made by retrograd.",
    )


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [_table_row("th", headings), *[_table_row("td", row) for row in rows]]
    return f'<table class="times">{"".join(lines)}</table>'


def _table_row(tag: str, cells: Sequence[str]) -> str:
    """Format a row of a table: the first cell is a name, the others are numbers."""
    first, *others = map(escape, cells)
    numbers = "".join(f'<{tag} class="n">{cell}</{tag}>' for cell in others)
    return f"<tr><{tag}>{first}</{tag}>{numbers}</tr>"


def settings_of(task: ImageTask, recipe: Recipe) -> Mapping[str, Any]:
    """Return the settings that the page shows."""
    return {
        "images": f"{len(task.train):,} to train on, {len(task.held_out):,} held out",
        "epochs": recipe.epochs,
        "batch size": recipe.batch_size,
        "learning rate": f"{recipe.lr:g}, rising in the first {_WARMUP:.0%} of the steps, then falling to 0",
        "seed": recipe.seed,
    }
