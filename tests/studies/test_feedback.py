"""The study of feedback alignment on the digits, its page, and the command."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from retrograd import studies
from retrograd.cli import main
from retrograd.studies.study import study_page
from retrograd.train.progress import Progress


class Said(Progress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


@pytest.mark.nightly
def test_rules_learn_and_their_gradients_turn_to_the_true_ones() -> None:
    study = studies.feedback("digits", studies.Recipe(epochs=8, lr=3e-3, seed=1))
    for name, figures in study.figures.items():
        assert figures["accuracy"][-1] > 0.75, name
        first, last = (np.array([angle[at] for angle in [*figures["angles"].values()][:-1]]) for at in (0, -1))
        if name != "backpropagation":
            assert (last[:2] < first[:2] - 5).all() and (last < 85).all(), name


def test_the_figures_and_the_page() -> None:
    said = Said()
    study = studies.feedback("digits", studies.Recipe(epochs=2, lr=3e-3, seed=1), said)
    assert said.lines == [f"{name}:" for name in study.figures]
    assert [*study.figures] == ["backpropagation", "feedback alignment", "direct feedback", "sign-symmetric"]
    for name, figures in study.figures.items():
        assert len(figures["accuracy"]) == 2 and figures["accuracy"][-1] > figures["accuracy"][0], name
        first, last = (np.array([angle[at] for angle in [*figures["angles"].values()][:-1]]) for at in (0, -1))
        if name == "backpropagation":
            assert not first.any() and not last.any()
        else:
            assert (last > 0).all(), name
        assert figures["angles"]["7"][-1] == pytest.approx(0, abs=1e-2)  # the last layer has its own error
    page = study_page(study)
    for words in ("Feedback alignment against backpropagation", "Nøkland", "<svg", "angle, layer 3", "$"):
        assert (words in page) == (words != "$")
    assert f"{study.figures['sign-symmetric']['accuracy'][-1]:.2%}" in str(study)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = "--epochs", "1", "--batch-size", "500"
    command = ["study", "feedback", "digits", *quick, "--output", str(tmp_path / "a" / "b")]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "held-out accuracy" in out and out.endswith("study.html\n")
    assert (tmp_path / "a" / "b" / "study.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    (tmp_path / "file").write_text("")
    assert main([*command[:-1], str(tmp_path / "file")]) == 1
    assert "File exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epochs", "0"], "--epochs 0 must be an int from 1 to 10,000"),
        (["--batch-size", "-1"], "--batch-size -1 must be an int"),
        (["--lr", "0"], "--lr 0 must be a number above 0, at most 10"),
        (["--lr", "nan"], "--lr nan must be a number above 0"),
        (["--seed", "-3"], "--seed -3 must be an int from 0"),
        (["--threads", "0"], "threads"),
    ],
)
def test_wrong_options(options: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["study", "feedback", "digits", "--output", str(tmp_path / "none"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("study", "missing"), [("low-bit", "safetensors"), ("feedback", "matplotlib")])
def test_a_missing_package_is_said_before_the_work(
    study: str, missing: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == missing else find(name, *rest))
    assert main(["study", study, "digits", "--output", str(tmp_path / "none")]) == 1
    assert f'{missing} not installed: pip install "retrograd[train,safetensors]"' in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_an_unknown_study(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "feedbak"]) == 2
    assert "STUDY 'feedbak' must be low-bit or feedback" in capsys.readouterr().err
    with pytest.raises(ValueError, match="data='mnist' must be one of digits, mnist5k"):
        studies.feedback("mnist")
