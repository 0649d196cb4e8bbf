"""The report of a run on images: confusion matrix, filters, and wrong answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..nn.module import Module
from .leaves import leaves
from .page import Page, filled
from .pictures import colour, curves, diverging, grey, png_uri
from .progress import counted, duration

if TYPE_CHECKING:
    from .image_task import ImageTask
    from .trainer import Trainer

__all__ = ["image_page"]

_MOST_FILTERS = 64
_MOST_WRONG = 100


def image_page(task: ImageTask, trainer: Trainer) -> Page:
    """The page, from a classification of the held-out images."""
    history, scores = trainer.history, trainer.scores()
    truth = task.held_out.tensors[-1].array
    answers = scores.argmax(1)
    wrong = np.flatnonzero(answers != truth)
    accuracy = f"{1 - len(wrong) / len(truth):.2%}"
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    filters, filters_text = _filters(trainer.model)
    return Page(
        headline=accuracy,
        subtitle=f"{len(task.train):,} images to train on, {len(truth):,} held out, {counted(len(history), 'epoch')}, "
        f"seed {trainer.settings.seed}",
        facts={
            "right on held-out images": accuracy,
            f"wrong of {len(truth):,}": f"{len(wrong):,}",
            "training time": duration(trainer.seconds),
            "parameters": f"{parameters:,}",
        },
        curves=_curves(history),
        body=filled(
            "report_images.html",
            confusion=_confusion(truth, answers, task.classes),
            filters=filters,
            filters_text=filters_text,
            wrong=_wrong(task, scores, wrong),
            wrong_text=_wrong_text(wrong, len(truth)),
        ),
    )


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
            title = f"{count} x {classes[true]}, answered {classes[answer]}"
            cells.append(f'<td class="{kind}"{share} title="{escape(title)}">{count or "·"}</td>')
        lines.append(f'<tr><th scope="row">{escape(classes[true])}</th>{"".join(cells)}</tr>')
    return f'<table class="confusion"><tr><td></td>{head}</tr>{"".join(lines)}</table>'


def _wrong_text(wrong: np.ndarray, total: int) -> str:
    if not len(wrong):
        return f"Nothing: all {total:,} held-out images are right."
    shown = "" if len(wrong) <= _MOST_WRONG else f" The {_MOST_WRONG} it was surest of are shown."
    return f"{len(wrong):,} of {total:,} held-out images, surest first, with the probability of each answer.{shown}"


def _wrong(task: ImageTask, scores: np.ndarray, wrong: np.ndarray) -> str:
    labels = task.held_out.tensors[-1].array
    exponents = np.exp(scores.astype(np.float64) - scores.max(1, keepdims=True))
    probabilities = exponents / exponents.sum(1, keepdims=True)
    tiles = []
    for index in sorted(wrong, key=lambda index: -probabilities[index].max())[:_MOST_WRONG]:
        answer, label = int(probabilities[index].argmax()), int(labels[index])
        image = task.held_out.take([int(index)])[0].array[0]
        tiles.append(
            f'<figure><img src="{png_uri(colour(image) if len(image) == 3 else grey(image))}" '
            f'alt="held-out image {index}">'
            f"<b>says {escape(task.classes[answer])}</b> {probabilities[index, answer]:.0%}<br>"
            f"is {escape(task.classes[label])} {probabilities[index, label]:.0%}</figure>"
        )
    return "".join(tiles)


def _filters(model: Module) -> tuple[str, str]:
    """Pictures of the weights of the first layer with 2-d kernels, and a sentence about them."""
    for path, module in leaves(model):
        weight = getattr(module, "weight", None)
        if weight is None or weight.ndim != 4:
            continue
        kernels = weight.array.mean(1)[:_MOST_FILTERS]
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
