"""Trained runs, ready to use: a classifier of images, a forecaster of a series, a writer of text."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._files.state import brief, check_table, count, items, number, reason, same, table, text
from .._files.terminal import display_name
from .._files.untrusted import as_path
from ..data.images import ImageError, read_planes
from ..data.series import following
from ..data.text import decoded, encoded
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..nn.compilation import compiled_if_repeated
from ..nn.module import Module
from ..ops.normalization.softmax import softmax
from .checkpoint import CheckpointError, load_checkpoint
from .networks import States, TextNetwork, image_of, saved_network

__all__ = ["Forecast", "ImageRun", "Run", "SeriesRun", "TextRun", "beginning", "load_run", "sampled"]


# ---- Any run --------------------------------------------------------------------------------------------------------


def load_run(path: str | Path) -> ImageRun | SeriesRun | TextRun:
    """Load a run of ``retrograd train``: its network, in eval mode, with everything that its use needs.

    path: the folder of the run, or its ``checkpoint.npz``.

    The result depends on the kind of the run: an ``ImageRun`` classifies images, a ``SeriesRun`` forecasts a series,
    and a ``TextRun`` writes text. The network is its attribute ``model``.

    Raises:
        CheckpointError: there is no run at this path, or its checkpoint is damaged; the message says which.
    """
    file = _checkpoint_of(as_path("load_run", "path", path))
    state = load_checkpoint(file)
    if "task" not in state or "network" not in state:
        raise CheckpointError(
            f"{file} is a checkpoint, but not of a run of 'retrograd train'; retrograd.train.load_checkpoint reads it"
        )
    kinds: dict[Any, Any] = {"series": SeriesRun, "text": TextRun}
    task = state["task"]
    run: ImageRun | SeriesRun | TextRun = kinds.get(task if isinstance(task, str) else None, ImageRun)(file, state)
    return run


def _checkpoint_of(path: Path) -> Path:
    """Return the checkpoint of a run, given its folder or the file itself.

    Raises:
        CheckpointError: it is a folder without a checkpoint, or there is nothing.
    """
    from .trainer import CHECKPOINT

    if path.is_dir():
        file = path / CHECKPOINT
        if not file.exists():
            raise CheckpointError(f"{path} is not the folder of a run: there is no {CHECKPOINT} in it{_runs_in(path)}")
        return file
    if not path.exists() and path.suffix != ".npz":
        raise CheckpointError(f"there is no run at {path}{_runs_in(path.parent)}")
    return path


def _runs_in(folder: Path) -> str:
    """List the runs in the subfolders of a folder, for a message."""
    from .trainer import CHECKPOINT

    runs = sorted(each.parent for each in folder.glob(f"*/{CHECKPOINT}"))
    return f"; runs there: {', '.join(map(str, runs[:10]))}" if runs else ""


class Run:
    """A trained run.

    path: the folder of the run, or its checkpoint.

    ``path`` is the checkpoint, ``task`` the name of the task, ``model`` the network in eval mode.

    Raises:
        CheckpointError: there is no such run, its checkpoint is damaged, or it is of another kind.
    """

    path: Path
    task: str
    model: Module
    _does: str  # what its network does, for messages

    def __init__(self, path: str | Path, state: Mapping[str, Any] | None = None) -> None:
        self.path = _checkpoint_of(Path(path))
        state = load_checkpoint(self.path) if state is None else state
        try:
            self.task = text("task", state["task"])
            self._load(state)
        except (IndexError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{self.path} is not a checkpoint that {self._does}: {_reason(error)}") from error

    def _load(self, state: Mapping[str, Any]) -> None:
        """Set the attributes from the checkpoint's state.

        Raises:
            IndexError, KeyError, TypeError, ValueError, RuntimeError: the state is of another task, or inconsistent.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}: {self._summary()}>"

    def _summary(self) -> str:
        raise NotImplementedError

    def _run(self, x: np.ndarray) -> np.ndarray:
        """Return the network's output.

        Raises:
            CheckpointError: it is not finite, because the network's weights are too large.
        """
        with no_grad(), np.errstate(all="ignore"):
            result: np.ndarray = self.model(Tensor(x)).numpy()
        if not np.isfinite(result).all():
            raise CheckpointError(f"{self.path}: the network's weights are too large, its outputs are not finite")
        return result


def _reason(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else reason(error)


# ---- Images ---------------------------------------------------------------------------------------------------------


class ImageRun(Run):
    """A run that classifies images.

    path: the folder of the run, or its checkpoint.

    ``classes`` are the class names; ``size`` and ``channels`` describe the images that the network takes. Its input is
    (N, channels, size, size), pixels from 0 to 1; its output is a score for each class.

    Raises:
        CheckpointError: there is no such run, its checkpoint is damaged, or it does not classify images.
    """

    classes: tuple[str, ...]
    channels: int
    size: int
    _does = "classifies images"

    def _load(self, state: Mapping[str, Any]) -> None:
        classes = items(text)("classes", state["classes"])
        takes = image_of(state["network"])
        if not same(state["image"], takes):
            raise ValueError(f"its image is {brief(state['image'])}, but its network takes {takes}")
        self.size, self.channels = takes["size"], takes["channels"]
        if len(set(classes)) != len(classes):
            raise ValueError("two of its classes have the same name")
        self.model = saved_network(state, "images").eval()
        self.classes = tuple(classes)
        probe = np.zeros((1, self.channels, self.size, self.size), np.uint8)
        if self.probabilities(probe).shape[1] != len(classes):
            raise ValueError(f"its network does not have one output for each of the {len(classes)} classes")

    def _summary(self) -> str:
        shown = ", ".join(map(display_name, self.classes[:10])) + ", ..." * (len(self.classes) > 10)
        return f"images of {self.size} x {self.size} pixels, {self.channels} channels; classes {shown}"

    def read(self, image: str | Path | bytes, invert: bool = False) -> np.ndarray:
        """Read a PNG or JPEG file, prepared as in training: uint8 (channels, size, size).

        image: the file's path, or its content.
        invert: swap dark and bright.

        Raises:
            ImageError: the file cannot be used; the message says why, without its name.
            ImportError: Pillow is not installed.
        """
        return read_planes(image, self.channels, self.size, invert)

    def probabilities(self, images: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        """Return the probability of each class (N, classes) for images uint8 (N, channels, size, size).

        Raises:
            CheckpointError: the network's outputs are not finite because its weights are too large.
        """
        scores = self._run(np.asarray(images).astype(np.float32) / np.float32(255))
        with no_grad():
            result: np.ndarray = softmax(Tensor(scores), 1).numpy()
        return result

    def classify(self, image: str | Path | bytes, invert: bool = False) -> dict[str, float]:
        """Return the probability of each class for a PNG or JPEG file, the most likely class first.

        image, invert: see ``read``.

        Raises:
            TypeError: image is neither a path nor bytes.
            ImageError: the file cannot be used; the message names it and says why.
            CheckpointError: as ``probabilities``.
            ImportError: Pillow is not installed.
        """
        if not isinstance(image, str | os.PathLike | bytes):
            raise TypeError(
                f"classify: image must be the path of a PNG or JPEG file, or its content as bytes, got "
                f"{type(image).__name__}; arrays of pixels are for probabilities()"
            )
        try:
            planes = self.read(image, invert)
        except ImageError as error:
            name = "the content" if isinstance(image, bytes) else display_name(Path(image))
            raise ImageError(f"{name} {error}") from error
        shares = self.probabilities(planes[np.newaxis])[0]
        return dict(sorted(zip(self.classes, map(float, shares), strict=True), key=lambda pair: -pair[1]))


# ---- Series ---------------------------------------------------------------------------------------------------------

_MAX_STEPS = 100_000
_MAX_ORIGINS, _MIN_ORIGINS = 2_000, 100  # positions to measure errors from: more do not change the quantiles much
_BATCH = 512
_FARTHEST = 2.0**24  # standard deviations from the mean: beyond, float32 does not resolve one


@dataclass(frozen=True, eq=False)
class Forecast:
    """Values that follow a series, each with an interval.

    values, lower, upper: float64 (steps,); lower and upper are infinite where the held-out part is too short.
    labels: one for each value: dates that continue those of the series, or "+1", "+2", ....
    level: the share of held-out values that were in intervals of this width.
    """

    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    labels: tuple[str, ...]
    level: float


class SeriesRun(Run):
    """A run that forecasts a series.

    path: the folder of the run, or its checkpoint.

    ``values`` is the series that it was trained on, float64 (N,), of which those from position ``first`` on were held
    out; ``labels`` are the labels of its last values. ``column`` is its name; ``period`` is the number of values after
    which it repeats. The network's input is (N, window), values minus ``mean`` divided by ``deviation``, and its output
    (N, horizon) the next ones.

    Raises:
        CheckpointError: there is no such run, its checkpoint is damaged, or it does not forecast a series.
    """

    column: str
    values: np.ndarray
    labels: tuple[str, ...]
    first: int
    period: int
    window: int
    horizon: int
    mean: float
    deviation: float
    _does = "forecasts a series"

    def _load(self, state: Mapping[str, Any]) -> None:
        self.model = saved_network(state, "series").eval()
        if "series" not in state:
            raise ValueError("it does not contain its series, because an earlier version wrote it; train again")
        series = check_table("series", state["series"])
        values = series.get("values")
        if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.ndim != 1:
            raise ValueError("series['values'] must be a line of float64 numbers")
        if not np.isfinite(values).all():
            raise ValueError("series['values'] holds NaN or infinity")
        checks = {
            "values": lambda name, value: value,
            "labels": items(text),
            "column": text,
            "first": count(1, len(values) - 1),
            "period": count(1),
            "window": count(1, len(values)),
            "mean": number(),
            "deviation": number(above=0),
        }
        entries = table(checks)("series", series)
        for name, value in entries.items():
            setattr(self, name, tuple(value) if name == "labels" else value)
        if self.window > self.first:
            raise ValueError(f"its window of {self.window} values is longer than the {self.first} to train on")
        self.horizon = self._run(np.zeros((1, self.window), np.float32)).shape[1]

    def _summary(self) -> str:
        return f"{display_name(self.column)}, the next {self.horizon} values from the last {self.window}"

    def forecast(
        self, values: np.ndarray | None = None, steps: int | None = None, level: float = 0.9, labels: Sequence[str] = ()
    ) -> Forecast:
        """Forecast the values that follow a series.

        values: the series, (N,), whose last ``window`` values are used; None means the one it was trained on.
        steps: the number of values; None means ``horizon``. Beyond it, forecasts are based on earlier forecasts.
        level: share of the held-out values that intervals of this width contain, greater than 0 and less than 1.
        labels: labels of the last of these values, such as dates, which those of the result continue; only with values.

        The interval of a value h steps ahead is the forecast plus and minus a quantile of the absolute errors that the
        network makes h steps ahead on the held-out part: the ceil((n + 1) level)-th smallest of n errors, from at most
        2,000 positions, fewer for long forecasts. A value of a future like the held-out part is in it with at least
        this probability, if errors are exchangeable. If n is too small for this level, the interval is infinite.

        Raises:
            ValueError: there are fewer values than ``window``, or one is not finite or far outside the run's series;
                there are labels without values; steps or level is out of range.
            CheckpointError: the network's outputs are not finite.

        Source: V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", 2005 (split conformal
        prediction).
        """
        if values is None:
            if len(labels):
                raise ValueError("labels are those of values; pass both, or neither for the series of the run")
            values, labels = self.values, self.labels
        values = np.asarray(values, np.float64)
        steps = self.horizon if steps is None else steps
        if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= _MAX_STEPS:
            raise ValueError(f"steps={brief(steps)} must be from 1 to {_MAX_STEPS:,}")
        if values.ndim != 1:
            remedy = f"; for the number of steps, write steps={values:g}" if values.ndim == 0 else ""
            raise ValueError(f"values must be a series of shape (N,), got the shape {values.shape}{remedy}")
        if len(values) < self.window:
            raise ValueError(
                f"values of shape {tuple(values.shape)} are too few: a forecast is based on the last {self.window:,}"
            )
        last = values[-self.window :]
        if not np.isfinite(last).all():
            raise ValueError(f"values holds {last[~np.isfinite(last)][0]}; they must be finite")
        width = self.half_widths(steps, level)
        forecast = self._ahead(last[np.newaxis], steps)[0]
        names = following(labels, steps) or tuple(f"+{step}" for step in range(1, steps + 1))
        return Forecast(forecast, forecast - width, forecast + width, names, level)

    def half_widths(self, steps: int, level: float) -> np.ndarray:
        """Return half the width of the intervals, by the number of steps ahead: (steps,); see ``forecast``.

        Raises:
            ValueError: level is out of range.
        """
        if not 0 < level < 1:
            raise ValueError(f"level={brief(level)} must be greater than 0 and less than 1, such as 0.9")
        size = len(self.values)
        result, known_steps = np.full(steps, np.inf), min(steps, size - self.first)
        most = max(_MIN_ORIGINS, _MAX_ORIGINS // math.ceil(known_steps / self.horizon))
        origins = np.arange(self.first, size)
        if len(origins) > most:
            origins = np.linspace(self.first, size - 1, most).astype(np.int64)
        windows = np.lib.stride_tricks.sliding_window_view(self.values, self.window)
        parts = [
            self._ahead(windows[origins[start : start + _BATCH] - self.window], known_steps)
            for start in range(0, len(origins), _BATCH)
        ]
        forecasts = np.concatenate(parts)
        for step in range(known_steps):
            known = origins + step < size
            error = np.sort(np.abs(forecasts[known, step] - self.values[origins[known] + step]))
            rank = max(1, math.ceil((len(error) + 1) * level - 1e-9))
            if rank <= len(error):
                result[step] = error[rank - 1]
        return result

    def _ahead(self, windows: np.ndarray, steps: int) -> np.ndarray:
        """Forecast the values (N, steps) after windows (N, window).

        Raises:
            ValueError: a value is so far outside the run's series that float32 loses its size.
        """
        with np.errstate(over="ignore"):
            scaled = (windows - self.mean) / self.deviation
        if (far := np.abs(scaled) > _FARTHEST).any():
            raise ValueError(
                f"values holds {windows[far][0]:g}, which is far outside the series of the run: mean {self.mean:g}, "
                f"standard deviation {self.deviation:g}; pass the same series, in the same unit"
            )
        known = scaled.astype(np.float32)
        parts = []
        for _ in range(math.ceil(steps / self.horizon)):
            parts.append(self._run(known))
            known = np.concatenate([known, parts[-1]], axis=1)[:, -self.window :]
        return np.concatenate(parts, axis=1)[:, :steps].astype(np.float64) * self.deviation + self.mean


# ---- Text, character by character -----------------------------------------------------------------------------------

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
    codes, step = prompt, compiled_if_repeated(model.step)
    try:
        with no_grad(), np.errstate(all="ignore"):
            for place in range(length):
                scores, states = step(Tensor(codes[:, np.newaxis]), states)
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


class TextRun(Run):
    """A run that writes text.

    path: the folder of the run, or its checkpoint.

    ``alphabet`` has the characters that the network knows; character i has the code i.

    Raises:
        CheckpointError: there is no such run, its checkpoint is damaged, or it does not write text.
    """

    alphabet: str
    model: TextNetwork
    _does = "writes text"

    def _load(self, state: Mapping[str, Any]) -> None:
        if not same(self.task, "text"):
            raise ValueError(f"it is of the task {brief(self.task)}, not 'text'")
        alphabet, model = text("alphabet", state["alphabet"]), saved_network(state, "text").eval()
        assert isinstance(model, TextNetwork)
        if len(alphabet) != model.embedding.num_embeddings or len(set(alphabet)) != len(alphabet):
            raise ValueError(f"its network has {model.embedding.num_embeddings} characters, not {len(alphabet)}")
        self.model, self.alphabet = model, alphabet

    def _summary(self) -> str:
        return f"text of {len(self.alphabet)} different characters"

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
