"""Inference with a checkpoint's network: image classification and text continuation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._files.state import brief, items, reason, same, text
from ..data.images import read_planes
from ..data.text import decoded, encoded
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..nn.module import Module
from ..ops.normalization.softmax import softmax
from .checkpoint import CheckpointError, load_checkpoint
from .networks import States, TextNetwork, image_of, saved_network

__all__ = ["Predictor", "Writer", "beginning", "sampled"]


# ---- Classification of images ---------------------------------------------------------------------------------------


class Predictor:
    """Classifies images with the network of a checkpoint of ``retrograd train``, in eval mode.

    path: the checkpoint, or the folder of the run.

    ``classes`` are the class names; ``size`` and ``channels`` describe the images it takes.

    Raises:
        CheckpointError: there is no such checkpoint, it is damaged, or its network does not classify images.
    """

    task: str
    channels: int
    size: int

    def __init__(self, path: str | Path) -> None:
        from .trainer import CHECKPOINT

        path = Path(path)
        if path.is_dir():
            path = path / CHECKPOINT
        state = load_checkpoint(path)
        self._path = path
        try:
            self.task, classes = text("task", state["task"]), items(text)("classes", state["classes"])
            takes = image_of(state["network"])
            if not same(state["image"], takes):
                raise ValueError(f"its image is {brief(state['image'])}, but its network takes {takes}")
            self.size, self.channels = takes["size"], takes["channels"]
            if len(set(classes)) != len(classes):
                raise ValueError("two of its classes have the same name")
            self.model: Module = saved_network(state, "images")
            self.model.eval()
            self.classes: tuple[Any, ...] = tuple(classes)
            probe = np.zeros((1, self.channels, self.size, self.size), np.uint8)
            if self.probabilities(probe).shape[1] != len(classes):
                raise ValueError(f"its network does not have one output for each of the {len(classes)} classes")
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{path} is not a checkpoint that classifies images: {reason(error)}") from error

    def read(self, path: str | Path, invert: bool = False) -> np.ndarray:
        """Read a PNG or JPEG file, prepared as in training: uint8 (channels, size, size).

        invert: swap dark and bright.

        Raises:
            ImageError: the file cannot be used; the message says why, without its name.
            ImportError: Pillow is not installed.
        """
        return read_planes(path, self.channels, self.size, invert)

    def probabilities(self, images: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        """Return the probability of each class (N, classes) for images uint8 (N, channels, size, size).

        Raises:
            CheckpointError: the probabilities are NaN because the network's weights are too large.
        """
        batch: Any = np.asarray(images).astype(np.float32) / np.float32(255)
        with no_grad(), np.errstate(all="ignore"):
            result = softmax(self.model(Tensor(batch)), 1).numpy()
        if not np.isfinite(result).all():
            raise CheckpointError(f"{self._path}: the network's weights are too large, its outputs are not finite")
        return result


# ---- Sampling of text, character by character -----------------------------------------------------------------------

_MAX_LENGTH = 10**8  # characters of a text


def sampled(
    model: TextNetwork, prompt: np.ndarray, length: int, temperature: float, random: np.random.Generator
) -> np.ndarray:
    """Sample the codes (length,) that continue ``prompt``, which must not be empty.

    Each is drawn from softmax(scores / temperature): a lower temperature favors likely characters.

    Raises:
        CheckpointError: the network's scores are not finite.
    """
    training = model.training
    model.eval()
    states: States | None = None
    written = np.empty(length, np.int64)
    codes = prompt
    try:
        with no_grad(), np.errstate(all="ignore"):
            for place in range(length):
                scores, states = model.step(Tensor(codes[:, np.newaxis]), states)
                last = scores.array[-1].astype(np.float64)
                if not np.isfinite(last).all():
                    raise CheckpointError("the network's weights are too large, its scores are not finite")
                weights = np.exp((last - last.max()) / temperature)
                below = np.cumsum(weights / weights.sum())[:-1]  # the rest up to 1 belongs to the last character
                written[place] = int(np.searchsorted(below, random.random(), side="right"))
                codes = written[place : place + 1]
    finally:
        model.train(training)
    return written


def beginning(alphabet: str) -> str:
    """Return the default prompt: a newline if the alphabet has one, otherwise its first character."""
    return "\n" if "\n" in alphabet else alphabet[0]


class Writer:
    """Writes text with the network of a checkpoint of ``retrograd train text``.

    path: the checkpoint, or the folder of the run.

    Raises:
        CheckpointError: there is no such checkpoint, it is damaged, or it is of another task.
    """

    alphabet: str
    model: TextNetwork

    def __init__(self, path: str | Path) -> None:
        from .trainer import CHECKPOINT

        path = Path(path)
        path = path / CHECKPOINT if path.is_dir() else path
        state = load_checkpoint(path)
        try:
            if not same(state.get("task"), "text"):
                raise ValueError(f"it is of the task {brief(state.get('task'))}, not 'text'")
            alphabet, model = text("alphabet", state["alphabet"]), saved_network(state, "text")
            assert isinstance(model, TextNetwork)
            if len(alphabet) != model.embedding.num_embeddings or len(set(alphabet)) != len(alphabet):
                raise ValueError(f"its network has {model.embedding.num_embeddings} characters, not {len(alphabet)}")
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{path} is not a checkpoint that writes text: {reason(error)}") from error
        self.model, self.alphabet = model, alphabet

    def write(self, length: int, temperature: float = 0.8, seed: int = 0, prompt: str | None = None) -> str:
        """Return the prompt (by default a newline) and ``length`` more characters, determined by the seed.

        Raises:
            ValueError: length is below 1 or above 10**8, temperature is not positive, or the prompt is empty.
            TextError: the prompt has a character that is not in the network's alphabet.
        """
        if not 1 <= length <= _MAX_LENGTH:
            raise ValueError(f"length={length} must be at least 1 and at most {_MAX_LENGTH}")
        if not 0 < temperature < float("inf"):
            raise ValueError(f"temperature={temperature} must be greater than 0 and finite; 0.8 is a good start")
        if seed < 0:
            raise ValueError(f"seed={seed} must be 0 or more")
        if prompt is None:
            prompt = beginning(self.alphabet)
        if not prompt:
            raise ValueError("prompt is empty; it needs at least one character")
        codes = encoded(prompt, self.alphabet)
        random = np.random.Generator(np.random.PCG64(seed))
        return prompt + decoded(sampled(self.model, codes, length, temperature, random), self.alphabet)
