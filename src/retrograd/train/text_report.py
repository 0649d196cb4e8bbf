"""The report of a run on text: bits per character compared with n-grams, surprising characters, and samples."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from ..data.text import decoded, encoded
from ..engine.grad_mode import no_grad
from .page import Page, bars_table, filled
from .pictures import curves
from .progress import counted, duration
from .sample import beginning, sampled

if TYPE_CHECKING:
    from .text import TextTask
    from .trainer import Trainer

__all__ = ["text_page"]

_TEMPERATURES = (0.5, 0.8, 1.0)
_SAMPLE = 600
_SHOWN = 900  # characters of the surprise plot
_STYLE = """pre { margin: .75rem 0 0; white-space: pre-wrap; overflow-wrap: anywhere; }
pre { font: .8rem/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
.heat span { background: rgb(var(--bad) / var(--b)); border-radius: 2px; }
.three { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr)); gap: 1rem; }
.three h3 { margin: .75rem 0 0; font-size: .875rem; color: var(--muted); font-weight: 500; }
"""


def text_page(task: TextTask, trainer: Trainer) -> Page:
    """The page, from an evaluation on the last part of the text and samples."""
    history, result, grams = trainer.history, task.bits(trainer), task.baselines
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    best, shortfall = task.best_grams, task.shortfall(trainer, result).removeprefix(". ")
    level = f"{best}-grams, held out", task.held_out_baseline()
    lines = {
        "training": [record["loss"] / math.log(2) for record in history],
        "held out": [record["held_out_loss"] / math.log(2) for record in history],
    }
    rows = {"all characters alike": math.log2(len(task.corpus.alphabet))}
    rows |= {f"{n}-grams" if n > 1 else "characters by how frequent they are": b for n, b in enumerate(grams, 1)}
    rows |= {"the network": result}
    return Page(
        headline=f"{result:.3f} bits per character",
        subtitle=f"{len(task.corpus.codes):,} characters, {len(task.corpus.alphabet)} different ones, "
        f"{counted(len(history), 'epoch')}, seed {trainer.settings.seed}",
        facts={
            "bits per character": f"{result:.3f}",
            f"with {best}-grams": f"{grams[best - 1]:.3f}",
            "training time": duration(trainer.seconds),
            "parameters": f"{parameters:,}",
        },
        curves=f"<div>{curves('Bits per character', lines, level=level)}</div>"
        f"<div><h2>The last 5 % of the text</h2>{bars_table(rows, '{:.3f}', 'bits')}"
        f"{f'<p>{escape(shortfall)}.</p>' if shortfall else ''}</div>",
        body=filled("report_text.html", surprise=_surprise(task, trainer), samples=_samples(task, trainer)),
        style=_STYLE,
    )


def _surprise(task: TextTask, trainer: Trainer) -> str:
    """The start of the first stream of the last part, each character darker the more bits it took."""
    codes, surprise = [], []
    with no_grad():
        trainer.model.eval()
        for x, target in task.tests():
            streams = x.shape[0]  # scores are ordered by step, then stream
            scores = trainer.model(x).array[::streams].astype(np.float64)
            scores -= scores.max(1, keepdims=True)
            truth = target.array[0]
            log = scores[np.arange(len(truth)), truth] - np.log(np.exp(scores).sum(1))
            codes += truth.tolist()
            surprise += (-log / math.log(2)).tolist()
            if len(codes) >= _SHOWN:
                break
        trainer.model.train()
    parts = []
    for code, amount in zip(codes[:_SHOWN], surprise[:_SHOWN], strict=True):
        character = escape(task.corpus.alphabet[code])
        shade = min(amount / 10, 1.0)
        parts.append(character if shade < 0.05 else f'<span style="--b:{shade:.1f}">{character}</span>')
    return "".join(parts)


def _samples(task: TextTask, trainer: Trainer) -> str:
    alphabet = task.corpus.alphabet
    begin = encoded(beginning(alphabet), alphabet)
    parts = []
    for temperature in _TEMPERATURES:
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence((trainer.settings.seed, 2))))
        text = decoded(sampled(task.model, begin, _SAMPLE, temperature, random), alphabet)
        parts.append(f"<div><h3>temperature {temperature}</h3><pre>{escape(text)}</pre></div>")
    return "".join(parts)
