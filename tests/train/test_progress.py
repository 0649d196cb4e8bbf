"""Progress output: a bar on a terminal, lines elsewhere."""

import io
import os
import sys

import pytest

from retrograd.train.progress import BarProgress, CompilationLine, LineProgress, Progress, duration, make_progress

RECORD = {"epoch": 1, "loss": 0.5, "accuracy": 0.75, "held_out_loss": 0.25, "held_out_accuracy": 0.9}


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def fileno(self):
        return 99


@pytest.fixture(autouse=True)
def size(monkeypatch):
    sizes = {99: (100, 40)}
    monkeypatch.setattr(os, "get_terminal_size", sizes.__getitem__)
    return sizes


def test_the_bar_is_for_terminals_and_needs_tqdm(monkeypatch, size):
    assert isinstance(make_progress(Terminal()), BarProgress)
    assert isinstance(make_progress(io.StringIO()), LineProgress)
    size[99] = (0, 0)
    assert isinstance(make_progress(Terminal()), LineProgress)
    size[99] = (100, 40)
    monkeypatch.setattr("retrograd.train.progress.find_spec", lambda name: None)
    assert isinstance(make_progress(Terminal()), LineProgress)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(make_progress(), LineProgress)


def test_lines():
    stream = io.StringIO()
    progress = LineProgress(stream, interval=0.0)
    progress.start(2, 100, 0)
    progress.step(1, 50, 1.5, 0.25)
    progress.step(1, 50, 0.5, 0.75)
    progress.epoch(RECORD)
    progress.say("hello")
    progress.close()
    middle, end, hello = stream.getvalue().splitlines()
    assert middle == "epoch 1/2 at 50 %  loss 1.5000  accuracy 25.00%"  # one step: no rate yet
    assert end.startswith("epoch 1/2  loss 0.5000  accuracy 75.00%  held out: loss 0.2500  accuracy 90.00%")
    assert "images/s" in end and hello == "hello"


@pytest.fixture
def clock(monkeypatch):
    """Seconds that only the test moves on."""
    now = [100.0]
    monkeypatch.setattr("retrograd.train.progress.perf_counter", lambda: now[0])
    return now


def test_the_rate_is_that_of_the_last_seconds(clock):
    stream = io.StringIO()
    progress = LineProgress(stream)
    progress.start(3, 10_000, 0)
    clock[0] += 30  # compiles kernels
    progress.step(1, 100, 1.0, None)
    clock[0] += 5
    progress.step(1, 500, 1.0, None)
    progress.epoch({"epoch": 1, "loss": 1.0})
    for _ in range(20):  # then ten times as fast
        clock[0] += 1
        progress.step(1, 1000, 1.0, None)
    assert "epoch 1/3  loss 1.0000  100 images/s  4 min 54 s left" in stream.getvalue()
    progress.epoch({"epoch": 2, "loss": 1.0})
    assert stream.getvalue().endswith("epoch 2/3  loss 1.0000  1,000 images/s  9 s left\n")


def test_compilation_in_lines(clock):
    stream = io.StringIO()
    line = CompilationLine(stream)
    for done in range(3):
        line(done, 3)
        clock[0] += 4
    line(3, 3)
    assert stream.getvalue().splitlines() == [
        "compiling 3 kernels, once for this CPU: 0 done",
        "compiling 3 kernels, once for this CPU: 2 done, about 4 s left",
        "compiled 3 kernels for this CPU in 12 s",
    ]
    clock[0] += 100
    line(0, 1)  # that of the report, later
    clock[0] += 3
    line(1, 1)
    assert stream.getvalue().endswith("compiled 1 kernel for this CPU in 3 s\n")


def test_compilation_on_a_terminal(clock, size):
    size[99] = (40, 40)
    stream = Terminal()
    progress = BarProgress(stream)
    progress.compiling(0, 1)
    clock[0] += 4
    progress.compiling(1, 1)
    first, last = stream.getvalue().split("\r\033[K")[1:]
    assert first == "compiling 1 kernel, once for this CPU: 0 done"[:39]
    assert last == "compiled 1 kernel for this CPU in 4 s\n"


def test_the_bar_shows_loss_accuracy_rate_and_time_left():
    stream = Terminal()
    progress = BarProgress(stream)
    progress.say("before")
    progress.start(2, 100, 100)
    progress.step(2, 25, 2.0, 0.25)
    progress.step(2, 25, 1.5, 0.25)
    progress.epoch(RECORD)
    progress.say("between")
    progress.step(2, 50, 0.5, 0.75)
    progress.close()
    progress.close()
    text = stream.getvalue()
    assert text.startswith("before\n") and "between" in text
    last = text.rstrip().split("\r")[-1]
    assert "epoch 2/2  loss 0.5000  accuracy 75.00%  held out 90.00% 100% |" in last
    assert "images/s" in last and last.endswith("left")


def test_progress_itself_is_silent(capsys):
    progress = Progress()
    progress.compiling(0, 1)
    progress.start(1, 1, 0)
    progress.step(1, 1, 0.0, 0.0)
    progress.epoch(RECORD)
    progress.say("nothing")
    progress.close()
    assert capsys.readouterr() == ("", "")


def test_durations():
    assert [duration(seconds) for seconds in (3.4, 59.6, 200, 7500)] == ["3 s", "1 min", "3 min 20 s", "2 h 5 min"]
