"""``retrograd explain`` with the folder of a run: its layers on held-out samples."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from retrograd.cli import main
from retrograd.train.held_out import held_out

QUICK = ("--kernels", "textbook", "--epochs", "1", "--batch-size", "512")


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "digits"
    assert main(["train", "digits", *QUICK, "--output", str(folder)]) == 0
    return folder


def test_the_report_leads_to_the_layers(digits):
    page, report = ((digits / name).read_text(encoding="utf-8") for name in ("explain.html", "report.html"))
    assert 'href="explain.html#layer=3"' in report and 'href="explain.html#layer=7"' not in report
    assert "data-packed" in page and "see the gradient" in page


@pytest.mark.parametrize("what", ["", "checkpoint.npz"])
def test_a_run_as_a_file(digits, tmp_path, capsys, what):
    target = tmp_path / "page.html"
    assert main(["explain", str(digits / what), "--html", str(target), "--samples", "1"]) == 0
    assert "Sequential · see the gradient" in target.read_text(encoding="utf-8")
    assert f"{target}: open it" in capsys.readouterr().out


@pytest.mark.parametrize(("megabytes", "held"), [("0", "null"), ("0.45", '{"about":"this file holds ')])
def test_an_operator_as_a_file(tmp_path, capsys, megabytes, held):
    target = tmp_path / "page.html"
    assert main(["explain", "linear", "--set", "batch=3", "--html", str(target), "--megabytes", megabytes]) == 0
    page = target.read_text(encoding="utf-8")
    assert f'id="others">{held}' in page and len(page) < 450_000
    out = capsys.readouterr().out
    assert f"{target}: open it" in out and ("computing other settings" in out) == (megabytes != "0")


def test_the_held_out_samples_are_those_of_the_task(digits):
    from retrograd.data.digits import Digits

    model, (x, target), _ = held_out(digits, 3)
    expected = Digits(train=False).take(range(3))
    assert not model.training
    assert x.numpy().tolist() == expected[0].numpy().tolist()
    assert target.numpy().tolist() == expected[1].numpy().tolist()


def test_what_cannot_be_opened(digits, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    broken = tmp_path / "broken"
    shutil.copytree(digits, broken)
    (broken / "checkpoint.npz").write_bytes(b"no checkpoint")
    for path, words in (
        (tmp_path / "none", "no such checkpoint"),
        (tmp_path / "empty", "no such checkpoint"),
        (broken, "checkpoint"),
    ):
        assert main(["explain", str(path)]) == 1
        error = capsys.readouterr().err
        assert words in error and error.count("\n") == 1


def test_images_for_a_run_with_data_of_its_own(digits, capsys):
    assert main(["explain", str(digits), "--images", "pictures"]) == 1
    assert "is a run of the task digits, which has its own data; leave --images out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("conv2d", "--samples", "3"), "--samples is for the folder of a run"),
        (("RUN", "--samples", "0"), "must be from 1 to 1024"),
        (("conv2d", "--set", "stride=x"), "--set 'stride=x': stride must be a whole number"),
        (("RUN", "--held-out-images", "x"), "--held-out-images needs --images DIR"),
        (("RUN", "--set", "stride=2"), "--set is for an operator"),
        (("RUN", "--html", "page.html", "--megabytes", "1"), "--megabytes is for an operator"),
        (("conv2d", "--megabytes", "1"), "--megabytes 1 goes with --html"),
        (("conv2d", "--html", "page.html", "--megabytes", "-1"), "must be from 0 to 1000"),
    ],
)
def test_options_that_do_not_fit(digits, capsys, arguments, words):
    assert main(["explain", *(str(digits) if each == "RUN" else each for each in arguments)]) == 2
    assert words in capsys.readouterr().err


def test_runs_of_other_tasks(tmp_path, capsys):
    folder = str(tmp_path / "sunspots")
    assert main(["train", "series", "--epochs", "1", "--output", folder]) == 0
    model, (x, _), _ = held_out(Path(folder), 2)
    assert x.shape[0] == 2 and type(model).__name__ == "SeriesNetwork"
