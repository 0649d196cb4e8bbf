"""The character-level language modeling task, with its n-gram baseline and report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..data.dataset import TensorDataset
from ..data.loader import DataLoader
from ..data.text import Corpus, TextError, decoded, encoded, load_pydoc, read_text
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..nn.functional import cross_entropy
from .diagnostics import TrainingError
from .html_page import Page, bars_table, curves, filled
from .inference import beginning, sampled
from .networks import RECURRENT_KERNELS, TextNetwork
from .progress import counted, duration
from .task import Task

if TYPE_CHECKING:
    from .html_page import Page
    from .trainer import Trainer

__all__ = ["STEPS", "TextTask", "bits", "in_streams", "text_page", "text_task", "witten_bell"]


# ---- n-gram models of characters: the baseline for text networks ----------------------------------------------------


def witten_bell(train: np.ndarray, test: np.ndarray, characters: int, order: int = 6) -> np.ndarray:
    """Return the probabilities (order, M) that n-gram models of ``train`` give each character of ``test``.

    train, test: codes from 0 to characters - 1, int64 (N,) and (M,).
    order: the greatest n. Row n - 1 of the result predicts a character from the previous n - 1, or fewer at the start
        of a text.

    For a context h, c(h) is the number of its occurrences with a next character in train, c(h, w) the number where that
    is w, and t(h) the number of different next characters. Witten and Bell give a share t / (c + t) to the context one
    character shorter:

        P(w | h) = (c(h, w) + t(h) P(w | h')) / (c(h) + t(h)),

    and, below the context of length 0, to the uniform distribution. A context that is not in train is skipped.

    Raises:
        ValueError: order is not positive.

    Source: I. H. Witten, T. C. Bell, "The Zero-Frequency Problem", 1991, method C, interpolated as in S. F. Chen,
    J. Goodman, "An Empirical Study of Smoothing Techniques for Language Modeling", 1999.
    """
    if order < 1:
        raise ValueError(f"witten_bell: order={order!r} must be at least 1")
    codes, size = np.concatenate([train, test]), len(train)
    preceding = np.concatenate([np.arange(size), np.arange(len(test))])  # number of characters before each
    context = np.zeros(len(codes), np.int64)  # equal numbers for equal contexts
    result = np.empty((order + 1, len(test)))
    result[0] = 1.0 / characters
    for length in range(order):
        lower = result[length]
        if length:
            _, context = np.unique(context * characters + np.roll(codes, length), return_inverse=True)
        known = preceding >= length
        pair = context * characters + codes
        pairs, counts = np.unique(pair[:size][known[:size]], return_counts=True)
        contexts = int(context.max(initial=0)) + 1
        total = np.bincount(context[:size][known[:size]], minlength=contexts)[context[size:]]
        kinds = np.bincount(pairs // characters, minlength=contexts)[context[size:]]
        place = np.minimum(np.searchsorted(pairs, pair[size:]), len(pairs) - 1)
        count = np.where(pairs[place] == pair[size:], counts[place], 0)
        mixed = (count + kinds * lower) / np.maximum(total + kinds, 1)
        result[length + 1] = np.where(known[size:] & (total > 0), mixed, lower)
    return result[1:]


def bits(probabilities: np.ndarray) -> float:
    """Return the mean number of bits per character under these probabilities."""
    return float(-np.log2(probabilities).mean())


# ---- `retrograd train text`: a network that predicts the next character ---------------------------------------------

STEPS = 64  # characters per sample, the length of backpropagation through time
_HELD_OUT_STREAMS = 8  # fewer streams have fewer starts without context
_ORDER = 6

_KERNELS = (
    *RECURRENT_KERNELS,
    "memory.moves.copy",
    "memory.moves.together",
    "pointwise.scale",
    "recurrent.products.to_x",
    "cross_entropy.few",
    "cross_entropy.few_grad",
    "cross_entropy.rows",
    "cross_entropy.rows_grad",
    "random.dropout",
    "random.dropout_grad",
    "indexing.csr_product",
    "indexing.lines",
)


@dataclass(kw_only=True)
class TextTask(Task):
    """A network and the text it learns from.

    A sample is a row of characters; its target is the same row shifted by one character. Samples are cut from parallel
    streams, so that row n of a batch continues row n of the previous batch.

    corpus: the text; train is its first 90 %, held_out the next 5 %, test the last 5 %.
    """

    samples = "sequences"
    shuffle = False
    carried: ClassVar[Mapping[str, int]] = {"h": 1, "c": 1}
    held_out_batch = _HELD_OUT_STREAMS

    model: TextNetwork
    corpus: Corpus
    test: TensorDataset

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(output, target.transpose(0, 1).reshape(-1))

    def identity(self) -> dict[str, Any]:
        return {"alphabet": self.corpus.alphabet, **super().identity()}

    @cached_property
    def baselines(self) -> list[float]:
        """Bits per character of n-gram models for n = 1, ..., 6, on the network's test characters."""
        return self._grams(2, self.test)

    def _grams(self, part: int, data: TensorDataset) -> list[float]:
        parts = parts_of(self.corpus.codes)
        targets = slice(1, 1 + data.tensors[1].numel())
        return [bits(row[targets]) for row in witten_bell(parts[0], parts[part], len(self.corpus.alphabet), _ORDER)]

    @property
    def best_grams(self) -> int:
        """The n of the best n-gram model."""
        return 1 + min(range(_ORDER), key=self.baselines.__getitem__)

    def held_out_baseline(self) -> float:
        """Bits per character of the best n-gram model on the held-out samples."""
        return self._grams(1, self.held_out)[self.best_grams - 1]

    def bits(self, trainer: Trainer) -> float:
        """Return the bits per character of the network on the last part of the text."""
        return trainer.evaluate(self.tests())["loss"] / math.log(2)

    def tests(self) -> DataLoader:
        """The batches of the last part, in order."""
        return DataLoader(self.test, min(_HELD_OUT_STREAMS, len(self.test)))

    def result(self, trainer: Trainer) -> str:
        result, best = self.bits(trainer), self.best_grams
        return (
            f"{result:.3f} bits per character on the last 5 % of the text after {counted(trainer.epoch, 'epoch')}; "
            f"{best}-grams, the best of 1 to {_ORDER}, {self.baselines[best - 1]:.3f}{self.shortfall(trainer, result)}"
        )

    def shortfall(self, trainer: Trainer, result: float) -> str:
        """Explain why the network is not better than n-grams and what helps; empty if it is better."""
        if result < self.baselines[self.best_grams - 1]:
            return ""
        losses = trainer.history.column("held_out_loss")
        lowest = 1 + min(range(len(losses)), key=losses.__getitem__)
        if lowest == len(losses):
            return ". The n-grams are better: the held-out loss was still falling, so more --epochs help"
        return (
            f". The n-grams are better: the held-out loss was lowest after epoch {lowest}, so the network "
            "overfits; fewer --epochs or a longer text help"
        )

    def page(self, trainer: Trainer) -> Page:

        return text_page(self, trainer)


def text_task(path: Path | None, streams: int, **sizes: int) -> TextTask:
    """Build the task of a character LSTM on the text of a file, or of Python's ``help()`` if path is None.

    streams: the batch size.
    sizes: width, hidden and layers of the network, which override the defaults.

    Raises:
        TrainingError: the text cannot be used, or is too short for so many streams.
    """
    try:
        corpus = load_pydoc() if path is None else read_text(path)
    except TextError as error:
        raise TrainingError(str(error)) from None
    first, second, last = parts_of(corpus.codes)
    most = (len(first) - 1) // STEPS
    if streams > most:
        raise TrainingError(
            f"batch-size={streams} is too large for a text of {len(corpus.codes):,} characters, of which "
            f"{len(first):,} are for training: each sequence of a batch needs {STEPS}; choose at most {most}"
        )
    held_out_streams = min(_HELD_OUT_STREAMS, (min(len(second), len(last)) - 1) // STEPS)
    arguments = {"characters": len(corpus.alphabet), "streams": streams, **sizes}
    return TextTask(
        name="text",
        title=f"Text of {corpus.source}",
        model=TextNetwork(**arguments),
        train=in_streams(first, streams),
        held_out=in_streams(second, held_out_streams),
        test=in_streams(last, held_out_streams),
        corpus=corpus,
        kernels=_KERNELS,
        report_kernels=((), ("memory.moves.copy",)),
        source=corpus.source,
        network={"name": "text", "arguments": arguments},
        options={"characters": len(corpus.codes), "different": len(corpus.alphabet), "sha256": corpus.sha256},
        warmup=0.05,
    )


def parts_of(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split codes into the first 90 %, the next 5 % and the last 5 %."""
    first, second = len(codes) * 90 // 100, len(codes) * 95 // 100
    return codes[:first], codes[first:second], codes[second:]


def in_streams(codes: np.ndarray, streams: int, steps: int = STEPS) -> TensorDataset:
    """Cut a text into this many parallel streams and return their samples; the remainder is not used.

    Sample k * streams + n is the k-th of stream n: x (1 + steps,), whose first entry is 0 if k is 0 and otherwise 1,
    and the target (steps,).
    """
    length = (len(codes) - 1) // streams // steps
    cut = slice(None, streams * length * steps)
    x, target = (
        part[cut].reshape(streams, length, steps).transpose(1, 0, 2).reshape(-1, steps) for part in (codes, codes[1:])
    )
    continues = np.repeat(np.arange(length) > 0, streams).astype(np.int64)
    return TensorDataset(np.concatenate([continues[:, np.newaxis], x], axis=1), np.ascontiguousarray(target))


# ---- The report of a text run: bits per character compared with n-grams, surprising characters, and samples ---------

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
    """Build the page, from an evaluation on the last part of the text, and from samples."""
    history, result, grams = trainer.history, task.bits(trainer), task.baselines
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    best, shortfall = task.best_grams, task.shortfall(trainer, result).removeprefix(". ")
    level = f"{best}-grams, held out", task.held_out_baseline()
    lines = {
        "training": [record["loss"] / math.log(2) for record in history],
        "held out": [record["held_out_loss"] / math.log(2) for record in history],
    }
    rows = {"all characters equally likely": math.log2(len(task.corpus.alphabet))}
    rows |= {f"{n}-grams" if n > 1 else "single characters by frequency": b for n, b in enumerate(grams, 1)}
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
    """Show the start of the first stream of the last part, each character darker the more bits it took."""
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
