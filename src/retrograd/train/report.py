"""report.html: one page about one run that loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from ..atomic import why_not_written, write_atomically
from ..nn.module import Module
from ..ops.kernel_set import use_kernels
from .environment import machine, versions
from .leaves import leaves
from .pictures import colour, curves, diverging, grey, png_uri
from .profile import LayerTime, profile
from .progress import duration
from .task import Task
from .trainer import Trainer

__all__ = ["REPORT", "ReportError", "write_report"]

REPORT = "report.html"
_MOST_FILTERS = 64
_MOST_WRONG = 100
_MOST_TIMED = 256


class ReportError(RuntimeError):
    """The report could not be written; the checkpoint is not touched by that."""


def write_report(trainer: Trainer) -> Path:
    """Classify the held-out images, time the layers, and write ``report.html`` beside the checkpoint; returns its path.

    Raises:
        PicturesMissing: Matplotlib is not installed.
        ReportError: the file could not be written; an earlier one is unchanged.
    """
    path = trainer.output / REPORT
    page = report_page(trainer)
    try:
        write_atomically(path, lambda file: file.write(page.encode()))
    except OSError as error:
        raise ReportError(f"report {why_not_written(path, error)}") from error
    return path


def report_page(trainer: Trainer) -> str:
    """The page as text; the trainer has finished at least one epoch."""
    task, settings, history = trainer.task, trainer.settings, trainer.history
    with use_kernels(settings.kernels):
        scores = trainer.scores()
        count = min(settings.batch_size, len(task.train), _MOST_TIMED)
        images, labels = task.train.take(range(count))
        rows = profile(trainer.model, images, labels, repeats=5)
    truth = task.held_out.tensors[-1].data
    answers = scores.argmax(1)
    wrong = np.flatnonzero(answers != truth)
    accuracy = f"{1 - len(wrong) / len(truth):.2%}"
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    filters, filters_text = _filters(trainer.model)
    chosen = {name.replace("_", " "): value for name, value in settings.as_dict().items()}
    template = Template(resources.files(__package__).joinpath("files", REPORT).read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(task.title),
        accuracy=accuracy,
        subtitle=escape(
            f"{len(task.train):,} images to train on, {len(truth):,} held out, {len(history)} epochs, "
            f"seed {settings.seed}"
        ),
        facts=_facts(
            {
                "right on held-out images": accuracy,
                f"wrong of {len(truth):,}": f"{len(wrong):,}",
                "training time": duration(trainer.seconds),
                "parameters": f"{parameters:,}",
            }
        ),
        curves=_curves(history),
        confusion=_confusion(truth, answers, task.classes),
        filters=filters,
        filters_text=filters_text,
        wrong=_wrong(task, scores, wrong),
        wrong_text=_wrong_text(wrong, len(truth)),
        times=_times(rows),
        times_text=f"A training step on {count} images, medians in milliseconds.",
        settings=_definitions({**chosen, **_more_settings(task)}),
        versions=_definitions({**machine(), **versions()}),
        source=escape(f"Images: {task.source}." if task.source else "") + " Made by retrograd.",
    )


def _more_settings(task: Task) -> dict[str, Any]:
    rising = f"rising in the first {task.warmup:.0%} of the steps, then " if task.warmup else ""
    own = {name.replace("_", " "): value for name, value in task.options.items()}
    return {**own, "optimizer": f"Adam, learning rate {rising}along half a cosine to 0"}


def _facts(facts: Mapping[str, str]) -> str:
    return "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in facts.items())


def _definitions(values: Mapping[str, Any]) -> str:
    items = (f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in values.items())
    return f"<dl>{''.join(items)}</dl>"


def _curves(history: Sequence[Mapping[str, Any]]) -> str:
    loss = {"training": [r["loss"] for r in history], "held out": [r["held_out_loss"] for r in history]}
    accuracy = {"training": [r["accuracy"] for r in history], "held out": [r["held_out_accuracy"] for r in history]}
    return f"<div>{curves('Loss', loss)}</div><div>{curves('Accuracy', accuracy, percent=True)}</div>"


def _confusion(labels: np.ndarray, answers: np.ndarray, classes: Sequence[str]) -> str:
    counts = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(counts, (labels, answers), 1)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in classes)
    lines = []
    for true, row in enumerate(counts):
        cells = []
        for answer, count in enumerate(row):
            kind = "none" if not count else "hit" if answer == true else "miss"
            share = f' style="--share:{count / row.sum():.2f}"' if kind == "hit" else ""
            says = f"{count} x {classes[true]}, answered {classes[answer]}"
            cells.append(f'<td class="{kind}"{share} title="{escape(says)}">{count or "·"}</td>')
        lines.append(f'<tr><th scope="row">{escape(classes[true])}</th>{"".join(cells)}</tr>')
    return f'<table class="confusion"><tr><td></td>{head}</tr>{"".join(lines)}</table>'


def _wrong_text(wrong: np.ndarray, total: int) -> str:
    if not len(wrong):
        return f"Nothing: all {total:,} held-out images are right."
    shown = "" if len(wrong) <= _MOST_WRONG else f" The {_MOST_WRONG} it was surest of are shown."
    return f"{len(wrong):,} of {total:,} held-out images, surest first, with the probability of each answer.{shown}"


def _wrong(task: Task, scores: np.ndarray, wrong: np.ndarray) -> str:
    labels = task.held_out.tensors[-1].data
    exponents = np.exp(scores.astype(np.float64) - scores.max(1, keepdims=True))
    probabilities = exponents / exponents.sum(1, keepdims=True)
    tiles = []
    for index in sorted(wrong, key=lambda index: -probabilities[index].max())[:_MOST_WRONG]:
        answer, label = int(probabilities[index].argmax()), int(labels[index])
        image = task.held_out.take([int(index)])[0].data[0]
        tiles.append(
            f'<figure><img src="{png_uri(colour(image) if len(image) == 3 else grey(image))}" '
            f'alt="held-out image {index}">'
            f"<b>says {escape(task.classes[answer])}</b> {probabilities[index, answer]:.0%}<br>"
            f"is {escape(task.classes[label])} {probabilities[index, label]:.0%}</figure>"
        )
    return "".join(tiles)


def _filters(model: Module) -> tuple[str, str]:
    """Pictures of the first layer's weights that have two axes of extent, and a sentence about them."""
    for path, module in leaves(model):
        weight = getattr(module, "weight", None)
        if weight is None or weight.ndim != 4:
            continue
        kernels = weight.data.mean(1)[:_MOST_FILTERS]
        limit = float(np.abs(kernels).max())
        tiles = "".join(
            f'<figure><img src="{png_uri(diverging(kernel, limit))}" alt="filter {number}"></figure>'
            for number, kernel in enumerate(kernels)
        )
        out, inside, *extents = weight.shape
        size = "×".join(map(str, extents))
        mean = ", averaged over its channels" if inside > 1 else ""
        some = f"the first {len(kernels)} of {out}" if out > len(kernels) else f"{out}"
        text = f"Layer {escape(path)}: {some} kernels of {size}{mean}; blue weights are positive, orange ones negative."
        return tiles, text
    return "", "The network has no convolution over images."


def _times(rows: Sequence[LayerTime]) -> str:
    longest = max(row.forward + row.backward for row in rows) or 1.0
    lines = []
    for row in rows:
        name, _, arguments = row.layer.partition("(")
        operators = ", ".join(f"{name} {1e3 * seconds:.3f}" for name, seconds in row.operators.items())
        bars = "".join(
            f'<i class="{kind}" style="width:{100 * seconds / longest:.1f}%"></i>'
            for kind, seconds in (("f", row.forward), ("b", row.backward))
        )
        lines.append(
            f"<tr><td>{escape(f'{row.path} {name}'.strip())}"
            f'<small class="wide">{escape(arguments.removesuffix(")"))}</small></td>'
            f'<td class="wide">{"×".join(map(str, row.output))}</td>'
            f'<td class="n wide">{f"{row.parameters:,}" if row.parameters else ""}</td>'
            f'<td class="n">{1e3 * row.forward:.3f}</td>'
            f'<td class="n" title="{escape(operators)}">{1e3 * row.backward:.3f}</td>'
            f'<td><div class="bar">{bars}</div></td></tr>'
        )
    forward, backward = sum(row.forward for row in rows), sum(row.backward for row in rows)
    lines.append(
        '<tr><td><b>together</b></td><td class="wide"></td><td class="wide"></td>'
        f'<td class="n"><b>{1e3 * forward:.3f}</b></td><td class="n"><b>{1e3 * backward:.3f}</b></td><td></td></tr>'
    )
    head = (
        '<tr><th>layer</th><th class="wide">output</th><th class="n wide">parameters</th>'
        '<th class="n">forward</th><th class="n">backward</th><th></th></tr>'
    )
    return f'<table class="times">{head}{"".join(lines)}</table>'
