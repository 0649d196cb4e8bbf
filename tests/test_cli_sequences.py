"""``retrograd train text``, ``train series`` and ``sample``."""

from __future__ import annotations

import csv
import json
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
    assert "retrograd: --length 0 must be at least 1" in capsys.readouterr().err
    assert main(["sample", "run", "--length", "1000000000000", "--kernels", "textbook"]) == 2
    assert "--length 1000000000000 must be at least 1 and at most 100000000" in capsys.readouterr().err
    assert main(["sample", "nowhere"]) == 1
    assert "there is no run at nowhere" in capsys.readouterr().err
    _continue_and_export(capsys)


def _continue_and_export(capsys: pytest.CaptureFixture[str]) -> None:
    """Use the run of a text network in the folder ``run``."""

    def predicted(*arguments: str) -> str:
        assert main(["predict", "run", *arguments, "--kernels", "textbook"]) == 0
        out, err = capsys.readouterr()
        assert not err
        return out

    text = predicted("to be", "--steps", "20")
    assert text.startswith("to be") and len(text) == 26
    answers = json.loads(predicted("to be", "or not", "--steps", "20", "--json"))
    assert [each["prompt"] for each in answers] == ["to be", "or not"] and answers[0]["text"] + "\n" == text
    assert list(csv.DictReader(predicted("to be", "or not", "--steps", "20", "--csv").splitlines(keepends=True)))[
        0
    ] == dict(answers[0])
    assert json.loads(predicted("--steps", "5", "--json"))[0]["prompt"] == "\n"
    for arguments, message in (
        (("x",), "the prompt 'x' cannot be continued: the network's training text has no 'x'"),
        (("--steps", "0"), "--steps 0 must be at least 1"),
        (("--temperature", "0"), "--temperature 0 must be greater than 0"),
        (("--level", "0.5"), "--level is for a series; run is for text: leave it out"),
    ):
        assert main(["predict", "run", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert main(["export", "run", "model.onnx"]) == 0
    assert "model.onnx: 0.0" in (out := capsys.readouterr().out) and "inputs codes, h, c; outputs scores, next_h" in out


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


def test_a_series_is_forecast(capsys: pytest.CaptureFixture[str]) -> None:
    def write(name: str, days: int, header: str = "day,x,y") -> None:
        lines = [header, *(f"2024-{1 + day // 28:02}-{1 + day % 28:02},{day % 6},1" for day in range(days))]
        Path(name).write_text("\n".join(lines))

    write("file.csv", 80)
    assert series("--csv", "file.csv", "--column", "x", *QUICK, "--horizon", "3", "--output", "run") == 0
    capsys.readouterr()

    def predicted(*arguments: str) -> str:
        assert main(["predict", "run", *arguments, "--kernels", "textbook"]) == 0
        out, err = capsys.readouterr()
        assert not err
        return out

    lines = predicted("--level", "0.75").splitlines()
    assert lines[0] == "x after 2024-03-24; intervals contain 75 % of the held-out values"
    assert lines[1].split() == ["forecast", "lower", "upper"] and len(lines) == 5
    answer = json.loads(predicted("--level", "0.75", "--json"))
    assert answer["column"] == "x" and answer["after"] == "2024-03-24" and answer["level"] == 0.75
    rows = list(csv.DictReader(predicted("--level", "0.75", "--csv").splitlines()))
    assert [row["label"] for row in rows] == ["2024-03-25", "2024-03-26", "2024-03-27"]
    for row, line, entry in zip(rows, lines[2:], answer["forecasts"], strict=True):
        assert {key: value if key == "label" else float(value) for key, value in row.items()} == entry
        assert entry["lower"] < entry["forecast"] < entry["upper"]
        assert [float(cell) for cell in line.split()[1:]] == pytest.approx(list(entry.values())[1:], abs=0.05)
    for form, empty in (("--csv", ",,"), ("--json", '"lower": null')):  # 16 values are held out
        assert main(["predict", "run", form, "--level", "0.94", "--kernels", "textbook"]) == 0
        out, err = capsys.readouterr()
        assert out.count(empty) == 2
        assert "the last 2 intervals are missing: too few values were held out for --level 0.94; try" in err
    assert main(["predict", "run", "--level", "0.99", "--kernels", "textbook"]) == 0
    assert capsys.readouterr().out.count(" -") == 6
    write("newer.csv", 82)
    rows = predicted("newer.csv", "--csv", "--steps", "1").splitlines()[1:]
    assert len(rows) == 1 and rows[0].startswith("2024-03-27,")
    write("older.csv", 17)
    write("other.csv", 80, "day,a,b")
    assert main(["predict", "run", "other.csv", "--column", "a", "--kernels", "textbook"]) == 0
    capsys.readouterr()
    for arguments, code, message in (
        (("older.csv",), 1, "older.csv: 17 values are too few: the network forecasts from the last 18"),
        (("other.csv",), 1, "no column 'x'; the columns are 'day', 'a', 'b'; --column NAME names another one"),
        (("none.csv",), 1, "none.csv cannot be read: No such file"),
        (("other.csv", "file.csv"), 2, "run forecasts a series; name one CSV file after it, or none"),
        (("--column", "a"), 2, "--column is for a CSV file; name the file, or leave the option out"),
        (("--steps", "0"), 2, "--steps 0 must be from 1 to 100,000"),
        (("--level", "1"), 2, "--level 1 must be greater than 0 and less than 1"),
        (("--top", "3"), 2, "--top is for images; run is for a series: leave it out"),
        (("--invert",), 2, "--invert is for images; run is for a series: leave it out"),
    ):
        assert main(["predict", "run", *arguments, "--kernels", "textbook"]) == code
        out, err = capsys.readouterr()
        assert message in err and err.count("\n") == 1 and not out
    assert main(["explain", "run", "--html", "page.html"]) == 0  # without the CSV file, which the checkpoint contains
    assert main(["export", "run", "model.onnx", "--level", "0.75"]) == 0
    assert "inputs values; outputs forecast, lower, upper" in capsys.readouterr().out
    assert main(["predict", "model.onnx", "--steps", "2"]) == 1
    assert "model.onnx forecasts a series; retrograd predict does this with the run" in capsys.readouterr().err
    for arguments, code, message in (
        (("run", "model.pb"), 2, "model.pb must end in .onnx"),
        (("none", "model.onnx"), 1, "there is no run at none; runs there: run"),
        (("run", "file.csv/model.onnx"), 1, "model.onnx was not written: file.csv is a file, not a folder"),
        (("run", "model.onnx", "--opset", "3"), 2, "--opset 3 must be an int from 7"),
        (("run", "model.onnx", "--level", "2"), 2, "--level 2 must be greater than 0 and less than 1"),
    ):
        assert main(["export", *arguments]) == code
        out, err = capsys.readouterr()
        assert message in err and err.count("\n") == 1 and not out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("series", "--csv", "file.csv"), 2, "--csv needs --column NAME; the columns of file.csv are 'x'"),
        (("series", "--csv", "none.csv"), 2, "--csv needs --column NAME; none.csv cannot be read: No such file"),
        (("series", "--column", "x"), 2, "--column is for --csv FILE; pass both, or neither for the sunspots"),
        (("series", "--text", "file.txt"), 2, "--text is for the task text; leave it out"),
        (("text", "--csv", "file.csv", "--column", "x"), 2, "--csv is for the task series; leave it out"),
        (("digits", "--period", "3"), 2, "--period is for the task series; leave it out"),
        (("text", "--size", "32"), 2, "--size is for --images; leave it out"),
        (("--csv", "file.csv", "--column", "x"), 2, "or --images DIR; --csv needs the task series"),
        (("--resume",), 2, "; --resume goes at the end of the command that started the run"),
        (("file.csv",), 2, "to train on this file, write series --csv file.csv"),
        (("series", "--horizon", "0"), 2, "--horizon 0 must be an int of at least 1"),
        (("series", "--csv", "file.csv", "--column", "y"), 1, "file.csv, line 1: there is no column 'y'"),
        (("series", "--csv", "named.csv", "--column", "a=b"), 1, "retrograd: a=b of named.csv: no period found"),
        (("series", "--csv", "none.csv", "--column", "x"), 1, "none.csv cannot be read: No such file"),
        (("text", "--text", "file.csv"), 1, "file.csv has 8 characters; training needs at least 10,000"),
    ],
)
def test_wrong_arguments_end_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, message: str
) -> None:
    Path("file.csv").write_text("x\n1\n2\n3\n")
    Path("named.csv").write_text("a=b\n1\n2\n3\n")
    assert main(["train", *arguments]) == code
    out, err = capsys.readouterr()
    assert message in err and err.startswith("retrograd: ") and err.count("\n") == 1 and not out
    assert not Path("runs").exists()
