"""Sampling text from a network, character by character."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .._files.state import brief, reason, same, text
from ..data.text import decoded, encoded
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from .checkpoint import CheckpointError, load_checkpoint
from .networks import saved_network
from .sequence_networks import States, TextNetwork

__all__ = ["Writer", "beginning", "sampled"]

_MOST = 10**8  # characters of a text


def sampled(
    model: TextNetwork, prompt: np.ndarray, length: int, temperature: float, random: np.random.Generator
) -> np.ndarray:
    """The codes (length,) that the network samples after those of ``prompt`` (at least one).

    Each is drawn from softmax(scores / temperature): a lower temperature favours likely characters.

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
                chances = np.exp((last - last.max()) / temperature)
                below = np.cumsum(chances / chances.sum())[:-1]  # the rest up to 1 belongs to the last character
                written[place] = int(np.searchsorted(below, random.random(), side="right"))
                codes = written[place : place + 1]
    finally:
        model.train(training)
    return written


def beginning(alphabet: str) -> str:
    """The default prompt: a newline if the alphabet has one, otherwise its first character."""
    return "\n" if "\n" in alphabet else alphabet[0]


class Writer:
    """The network of a checkpoint of ``retrograd train text``.

    path: the checkpoint, or the folder of the run.

    Raises:
        CheckpointError: there is no such checkpoint, it is damaged, or of another task.
    """

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
        """The prompt (by default a newline) and ``length`` more characters, determined by the seed.

        Raises:
            ValueError: length is below 1 or above 10**8, temperature is not positive, or the prompt is empty.
            TextError: the prompt has a character that is not in the network's alphabet.
        """
        if not 1 <= length <= _MOST:
            raise ValueError(f"length={length} must be at least 1 and at most {_MOST}")
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
