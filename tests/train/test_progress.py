"""Progress output: a bar on a terminal, lines elsewhere."""

import io
import os
import sys

import pytest

from retrograd.train.progress import BarProgress, LineProgress, Progress, duration, make_progress

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
    assert middle.startswith("epoch 1/2 at 50 %  loss 1.5000  accuracy 25.00%") and middle.endswith("left")
    assert end.startswith("epoch 1/2  loss 0.5000  accuracy 75.00%  held out: loss 0.2500  accuracy 90.00%")
    assert "images/s" in end and hello == "hello"


def test_the_bar_shows_loss_accuracy_rate_and_time_left():
    stream = Terminal()
    progress = BarProgress(stream)
    progress.say("before")
    progress.start(2, 100, 100)
    progress.step(2, 50, 1.5, 0.25)
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
    progress.start(1, 1, 0)
    progress.step(1, 1, 0.0, 0.0)
    progress.epoch(RECORD)
    progress.say("nothing")
    progress.close()
    assert capsys.readouterr() == ("", "")


def test_durations():
    assert [duration(seconds) for seconds in (3.4, 59.6, 200, 7500)] == ["3 s", "1 min 0 s", "3 min 20 s", "2 h 5 min"]
