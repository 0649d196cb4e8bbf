"""The progress display of training: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
from collections import deque
from importlib.util import find_spec
from time import perf_counter
from typing import Any, TextIO

from .._files.terminal import printable

__all__ = ["BarProgress", "CompilationLine", "LineProgress", "Progress", "make_progress"]

Record = dict[str, Any]  # one epoch, see Trainer.history
_WINDOW = 10.0  # seconds whose mean is the rate


class Progress:
    """Receives the trainer's progress; this base class shows nothing.

    unit: the name of the samples.
    """

    unit = "images"

    def compiling(self, done: int, total: int) -> None:
        """Called before kernels are compiled, and after each of them."""

    def start(self, epochs: int, per_epoch: int, done: int) -> None:
        """Called when training starts, or resumes after ``done`` samples."""

    def step(self, epoch: int, samples: int, loss: float, accuracy: float | None) -> None:
        """Called after a step on this many samples; loss and accuracy are the means of the epoch so far.

        accuracy: None if the targets are not classes.
        """

    def epoch(self, record: Record) -> None:
        """Called when an epoch is done and the held-out samples were evaluated."""

    def say(self, text: str) -> None:
        """Show a line to the user."""

    def close(self) -> None:
        """Called when training has ended or stopped."""


class CompilationLine:
    """Shows the progress of a compilation: on a terminal in one line that is redrawn, elsewhere in a line now and then.

    stream: None for stderr.
    interval: seconds between lines that are not redrawn.
    """

    def __init__(self, stream: TextIO | None = None, interval: float = 5.0) -> None:
        self.stream: TextIO | Any = sys.stderr if stream is None else stream
        self.interval = interval
        self.live = _is_screen(self.stream)
        self.began: float | None = None
        self.printed = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = perf_counter()
        if self.began is None:
            self.began, self.printed = now, now - self.interval
        if done == total:
            self._print(f"compiled {counted(total, 'kernel')} for this CPU in {duration(now - self.began)}", "\n")
            self.began = None  # the next compilation has a time of its own
        elif self.live or now - self.printed >= self.interval:
            self.printed = now
            text = f"compiling {counted(total, 'kernel')}, once for this CPU: {done} done"
            if done:
                text += f", about {duration((now - self.began) / done * (total - done))} left"
            self._print(text, "" if self.live else "\n")

    def _print(self, text: str, end: str) -> None:
        if self.live:
            text = "\r\033[K" + text[: max(1, os.get_terminal_size(self.stream.fileno())[0] - 1)]
        print(text, end=end, file=self.stream, flush=True)


class _Shown(Progress):
    """Progress on a stream."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream: TextIO | Any = sys.stderr if stream is None else stream
        self._compilation = CompilationLine(self.stream)

    def compiling(self, done: int, total: int) -> None:
        self._compilation(done, total)

    def say(self, text: str) -> None:
        print(printable(text), file=self.stream, flush=True)


class LineProgress(_Shown):
    """One line per epoch, and one every ``interval`` seconds within a long epoch.

    The rate is that of the last seconds: the time from the first step on, which may compile kernels, to a line, or the
    time between the last lines that are ``_WINDOW`` seconds apart.
    """

    epochs: int
    per_epoch: int
    seen: int
    printed: float
    times: deque[tuple[float, int]]

    def __init__(self, stream: TextIO | None = None, interval: float = 10.0) -> None:
        super().__init__(stream)
        self.interval = interval

    def start(self, epochs: int, per_epoch: int, done: int) -> None:
        self.epochs, self.per_epoch, self.seen = epochs, per_epoch, done
        self.printed = perf_counter()
        self.times = deque()

    def step(self, epoch: int, samples: int, loss: float, accuracy: float | None) -> None:
        now = perf_counter()
        self.seen += samples
        self.times.append((now, self.seen))
        while len(self.times) > 2 and now - self.times[1][0] > _WINDOW:
            self.times.popleft()
        if now - self.printed > self.interval and self.seen < epoch * self.per_epoch:
            part = 100 * (self.seen - (epoch - 1) * self.per_epoch) / self.per_epoch
            self._line(f"{self._name(epoch)} at {part:2.0f} %  {_figures(loss, accuracy)}")

    def epoch(self, record: Record) -> None:
        self._line(f"{self._name(record['epoch'])}  {summary(record)}")

    def _name(self, epoch: int) -> str:
        return f"epoch {epoch:{len(str(self.epochs))}}/{self.epochs}"

    def _line(self, text: str) -> None:
        self.printed = perf_counter()
        if len(self.times) > 1:
            (before, first), (now, last) = self.times[0], self.times[-1]
            rate = (last - first) / max(now - before, 1e-9)
            left = duration((self.epochs * self.per_epoch - self.seen) / rate)
            text += f"  {rate:,.0f} {self.unit}/s  {left} left"
        self.say(text)


class BarProgress(_Shown):
    """One bar over the whole training, redrawn in place by tqdm."""

    done: int
    epochs: int
    total: int
    held_out: str

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self.bar: Any = None

    def start(self, epochs: int, per_epoch: int, done: int) -> None:
        self.epochs, self.total, self.done, self.held_out = epochs, epochs * per_epoch, done, ""

    def step(self, epoch: int, samples: int, loss: float, accuracy: float | None) -> None:
        text = f"epoch {epoch}/{self.epochs}  {_figures(loss, accuracy)}{self.held_out}"
        if self.bar is None:  # the first step may compile kernels, so that the clock starts after it
            self.done += samples
            self.bar = self._new_bar(text)
            return
        self.bar.set_description_str(text, refresh=False)
        self.bar.update(samples)

    def _new_bar(self, text: str) -> Any:
        from tqdm import tqdm

        return tqdm(
            desc=text,
            total=self.total,
            initial=self.done,
            file=self.stream,
            unit=f" {self.unit}",
            unit_scale=True,
            dynamic_ncols=True,
            smoothing=0.1,
            bar_format="{desc} {percentage:3.0f}% |{bar}| {rate_fmt} {remaining} left",
        )

    def epoch(self, record: Record) -> None:
        if "held_out_accuracy" in record:
            self.held_out = f"  held out {record['held_out_accuracy']:6.2%}"
        elif "held_out_loss" in record:
            self.held_out = f"  held out {record['held_out_loss']:.4f}"

    def say(self, text: str) -> None:
        if self.bar is None:
            super().say(text)
        else:
            self.bar.write(printable(text), file=self.stream)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def make_progress(stream: TextIO | None = None) -> Progress:
    """Return a bar if ``stream`` (stderr) is a terminal and tqdm is installed, else lines."""
    stream = sys.stderr if stream is None else stream
    return BarProgress(stream) if _is_screen(stream) and find_spec("tqdm") else LineProgress(stream)


def _is_screen(stream: TextIO) -> bool:
    """Return whether stream is a terminal with a size; some CI terminals have none, where tqdm would show nothing."""
    try:
        return stream.isatty() and min(os.get_terminal_size(stream.fileno())) > 0
    except (OSError, ValueError):
        return False


def summary(record: Record) -> str:
    """Format one epoch as text."""
    text = _figures(record["loss"], record.get("accuracy"))
    if "held_out_loss" in record:
        text += f"  held out: {_figures(record['held_out_loss'], record.get('held_out_accuracy'))}"
    return text


def _figures(loss: float, accuracy: float | None) -> str:
    return f"loss {loss:.4f}" + ("" if accuracy is None else f"  accuracy {accuracy:6.2%}")


def duration(seconds: float) -> str:
    """Format a duration: 4 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def counted(number: int, noun: str) -> str:
    """Format a count with its noun: 1 epoch, 2 epochs."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
