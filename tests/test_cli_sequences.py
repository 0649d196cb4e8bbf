"""``retrograd train text``, ``train series`` and ``sample``."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from retrograd.cli import main
from retrograd.train import load_checkpoint
from retrograd.train.language_modeling import text_task

QUICK = ("--kernels", "textbook", "--epochs", "1")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def series(*arguments: str) -> int:
    return main(["train", "series", *arguments])


def test_text_is_learned_and_written(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrograd.train.language_modeling._SAMPLE", 20)
    monkeypatch.setattr("retrograd.train.language_modeling.text_task", partial(text_task, width=4, hidden=8))
    Path("a book.txt").write_text("to be or not to be, that is the question\n" * 250)
    book = ("train", "text", "--text", "a book.txt")
    assert main([*book, *QUICK, "--batch-size", "16", "--output", "run"]) == 0
    out, err = capsys.readouterr()
    words = r"\d\.\d{3} bits per character on the last 5 % of the text after 1 epoch; 6-grams, the best of 1 to 6, 0"
    assert re.search(words + r"\.\d{3}\. The n-grams are better: the held-out loss was still falling, so more --", out)
    assert "run/report.html" in out and "training on 144 sequences, 7 held out; seed 0" in err and "sequences/s" in err
    assert main([*book, "--resume", "--output", "run"]) == 0
    assert "holds a finished run" in capsys.readouterr().err
    assert main(["sample", "run", "--length", "20", "--prompt", "to be", "--kernels", "textbook"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("to be") and len(out) == 26
    assert main(["sample", "run", "--prompt", "x", "--kernels", "textbook"]) == 2
    assert "retrograd: --prompt: the network's training text has no 'x'" in capsys.readouterr().err
    assert main(["sample", "run", "--length", "0", "--kernels", "textbook"]) == 2
    assert "retrograd: --length=0 must be at least 1" in capsys.readouterr().err
    assert main(["sample", "run", "--length", "1000000000000", "--kernels", "textbook"]) == 2
    assert "--length=1000000000000 must be at least 1 and at most 100000000" in capsys.readouterr().err
    assert main(["sample", "nowhere"]) == 1
    assert "there is no such checkpoint" in capsys.readouterr().err


def test_a_series_is_learned(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file.csv").write_text("day,x y\n" + "".join(f"{day},{day % 6}\n" for day in range(60)))
    given = ("--csv", "file.csv", "--column", "x y")
    assert series(*given, *QUICK, "--horizon", "3") == 0
    out, err = capsys.readouterr()
    assert re.search(r"mean absolute error \d.* over the next 3 values of the held-out part, after 1 epoch", out)
    assert "training on 28 windows" in err and Path("runs/series/report.html").exists()
    assert load_checkpoint("runs/series/checkpoint.npz")["options"]["period"] == 6
    assert series(*given, "--resume") == 0
    assert series(*given, "--resume", "--horizon", "4") == 2
    assert "--horizon 4 differs from the checkpoint's 3" in capsys.readouterr().err
    assert series("--resume") == 1  # without the file, the series would be the sunspots
    assert "its windows differ: they had the SHA-256" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("series", "--csv", "file.csv"), 2, "--csv FILE and --column NAME belong together"),
        (("series", "--column", "x"), 2, "--csv FILE and --column NAME belong together"),
        (("series", "--text", "file.txt"), 2, "--text is for the task text; leave it out"),
        (("text", "--csv", "file.csv", "--column", "x"), 2, "--csv is for the task series; leave it out"),
        (("digits", "--period", "3"), 2, "--period is for the task series; leave it out"),
        (("text", "--size", "32"), 2, "--size is for --images; leave it out"),
        (("series", "--horizon", "0"), 2, "--horizon=0 must be an int of at least 1"),
        (("series", "--csv", "file.csv", "--column", "y"), 1, "file.csv, line 1: there is no column 'y'"),
        (("series", "--csv", "none.csv", "--column", "x"), 1, "none.csv cannot be read: No such file"),
        (("text", "--text", "file.csv"), 1, "file.csv has 8 characters; training needs at least 10,000"),
    ],
)
def test_wrong_arguments_end_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, message: str
) -> None:
    Path("file.csv").write_text("x\n1\n2\n3\n")
    assert main(["train", *arguments]) == code
    out, err = capsys.readouterr()
    assert message in err and err.startswith("retrograd: ") and err.count("\n") == 1 and not out
    assert not Path("runs").exists()
