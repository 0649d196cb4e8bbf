"""``retrograd train text``: a network learns to predict the next character."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.dataset import TensorDataset
from ..data.loader import DataLoader
from ..data.text import Corpus, TextError, load_pydoc, read_text
from ..engine.tensor import Tensor
from ..nn.functional import cross_entropy
from .faults import TrainingError
from .ngram import bits, witten_bell
from .progress import counted
from .sequence_networks import RECURRENT_KERNELS, TextNetwork
from .task import Task

if TYPE_CHECKING:
    from .page import Page
    from .trainer import Trainer

__all__ = ["STEPS", "TextTask", "in_streams", "text_task"]

STEPS = 64  # characters of a sample, the length of backpropagation through time
_READERS = 8  # streams of held-out text; fewer streams mean fewer starts without context
_ORDER = 6

_KERNELS = (
    *RECURRENT_KERNELS,
    "pointwise.pointwise.scale",
    "recurrent.products.to_x",
    "loss.cross_entropy.rows",
    "loss.cross_entropy.rows_grad",
    "random.random.dropout",
    "random.random.dropout_grad",
    "indexing.sparse.csr_product",
    "indexing.sparse.lines",
)


@dataclass(kw_only=True)
class TextTask(Task):
    """A network with the text it learns from.

    A sample is a row of characters; its target is the same row shifted by one character. Samples are cut from parallel
    streams, so that row n of a batch continues row n of the previous batch.

    corpus: the text; train is its first 90 %, held_out the next 5, test the last.
    """

    samples = "sequences"
    shuffle = False
    carried = {"h": 1, "c": 1}
    held_out_batch = _READERS

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
        """The n of the best n-grams."""
        return 1 + min(range(_ORDER), key=self.baselines.__getitem__)

    def held_out_baseline(self) -> float:
        """Bits per character of the best n-grams on the held-out samples."""
        return self._grams(1, self.held_out)[self.best_grams - 1]

    def bits(self, trainer: Trainer) -> float:
        """Bits per character of the network on the last part of the text."""
        return trainer.evaluate(self.tests())["loss"] / math.log(2)

    def tests(self) -> DataLoader:
        """The batches of the last part, in order."""
        return DataLoader(self.test, min(_READERS, len(self.test)))

    def result(self, trainer: Trainer) -> str:
        result, best = self.bits(trainer), self.best_grams
        return (
            f"{result:.3f} bits per character on the last 5 % of the text after {counted(trainer.epoch, 'epoch')}; "
            f"{best}-grams, the best of 1 to {_ORDER}, {self.baselines[best - 1]:.3f}{self.shortfall(trainer, result)}"
        )

    def shortfall(self, trainer: Trainer, result: float) -> str:
        """If the network is not better than n-grams, why and what helps; otherwise empty."""
        if result < self.baselines[self.best_grams - 1]:
            return ""
        losses = trainer.history.column("held_out_loss")
        lowest = 1 + min(range(len(losses)), key=losses.__getitem__)
        if lowest == len(losses):
            return ". The n-grams are ahead: the held-out loss was still falling, so more --epochs help"
        return (
            f". The n-grams are ahead: the held-out loss was lowest after epoch {lowest}, so the network "
            "overfits; fewer --epochs or a longer text help"
        )

    def page(self, trainer: Trainer) -> Page:
        from .text_report import text_page

        return text_page(self, trainer)


def text_task(path: Path | None, streams: int, **sizes: int) -> TextTask:
    """A character LSTM and a text: that of a file, or of Python's ``help()`` if path is None.

    streams: the batch size.
    sizes: width, hidden and layers of the network, to override the defaults.

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
    readers = min(_READERS, (min(len(second), len(last)) - 1) // STEPS)
    arguments = {"characters": len(corpus.alphabet), "streams": streams, **sizes}
    return TextTask(
        name="text",
        title=f"Text of {corpus.source}",
        model=TextNetwork(**arguments),
        train=in_streams(first, streams),
        held_out=in_streams(second, readers),
        test=in_streams(last, readers),
        corpus=corpus,
        kernels=_KERNELS,
        source=corpus.source,
        network={"name": "text", "arguments": arguments},
        options={"characters": len(corpus.codes), "different": len(corpus.alphabet), "sha256": corpus.sha256},
        warmup=0.05,
    )


def parts_of(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first 90 %, the next 5 and the last 5."""
    first, second = len(codes) * 90 // 100, len(codes) * 95 // 100
    return codes[:first], codes[first:second], codes[second:]


def in_streams(codes: np.ndarray, streams: int, steps: int = STEPS) -> TensorDataset:
    """The samples of a text cut into so many parallel streams; the remainder is not used.

    Sample k * streams + n is the k-th of stream n: x (1 + steps,), which starts with 0 if k is 0 and otherwise 1, and
    the target (steps,).
    """
    length = (len(codes) - 1) // streams // steps
    cut = slice(None, streams * length * steps)
    x, target = (
        part[cut].reshape(streams, length, steps).transpose(1, 0, 2).reshape(-1, steps) for part in (codes, codes[1:])
    )
    continues = np.repeat(np.arange(length) > 0, streams).astype(np.int64)
    return TensorDataset(np.concatenate([continues[:, np.newaxis], x], axis=1), np.ascontiguousarray(target))
