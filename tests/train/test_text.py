"""The text network: streams, carried states, resuming, generated text, and its report."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrograd.engine.grad_mode import no_grad
from retrograd.engine.tensor import Tensor
from retrograd.kernel_set import use_kernels
from retrograd.ops.random.random import manual_seed
from retrograd.train import (
    Callback,
    CheckpointError,
    Settings,
    Trainer,
    TrainingError,
    load_checkpoint,
    save_checkpoint,
)
from retrograd.train.inference import TextRun, sampled
from retrograd.train.language_modeling import STEPS, TextTask, bits, in_streams, parts_of, text_task, witten_bell
from retrograd.train.networks import TextNetwork
from retrograd.train.report import report_page
from train.small import bits as weights
from train.test_report import Page

SETTINGS = Settings(epochs=2, batch_size=16, lr=0.02, seed=3, kernels="textbook")


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words in a random order."""
    path = tmp_path_factory.mktemp("text") / "book.txt"
    words = np.random.default_rng(0).choice(["to", "be", "or", "not", "<&>\n"], 3000)
    path.write_text(" ".join(words))
    return path


def made(book: Path, folder: Path, settings: Settings = SETTINGS, **options: Any) -> Trainer:
    manual_seed(settings.seed)
    task = text_task(book, settings.batch_size, width=4, hidden=12, layers=2)
    return Trainer(task, settings, folder, **options)


@pytest.fixture(scope="module")
def whole(book: Path, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """An uninterrupted run."""
    trainer = made(book, tmp_path_factory.mktemp("whole"))
    trainer.run()
    return trainer


@pytest.fixture(autouse=True)
def _on_numpy() -> Any:
    with use_kernels("textbook"):
        yield


def test_streams_go_on_from_batch_to_batch() -> None:
    codes = np.arange(100, 200)
    data = in_streams(codes, 3, 8)
    x, target = (tensor.array for tensor in data.tensors)
    assert x.shape == (12, 9) and target.shape == (12, 8) and x.dtype == target.dtype == np.int64
    for stream in range(3):
        rows = x[stream::3]
        assert rows[:, 0].tolist() == [0, 1, 1, 1]
        assert rows[:, 1:].ravel().tolist() == list(range(100 + 32 * stream, 132 + 32 * stream))
    assert (target == x[:, 1:] + 1).all()


def test_states_are_carried_as_if_a_stream_were_read_in_one_go() -> None:
    manual_seed(0)
    model = TextNetwork(5, 3, width=4, hidden=6, layers=2)
    model.eval()
    codes = np.random.default_rng(1).integers(0, 5, 3 * 32 + 1)
    data = in_streams(codes, 3, 8)
    with no_grad():
        at_once, _ = model.step(Tensor(codes[:-1].reshape(3, 32).T), None)
        for _ in range(2):  # a second reading begins anew
            pieces = [model(data.take(range(3 * k, 3 * k + 3))[0]).array for k in range(4)]
            np.testing.assert_allclose(np.concatenate(pieces), at_once.array, rtol=1e-5, atol=1e-6)
    assert not model.h.array.any() and not model.c.array.any()  # those of training are others


def test_training_carries_states_too_and_each_epoch_begins_anew() -> None:
    manual_seed(0)
    model = TextNetwork(5, 3, width=4, hidden=6, layers=2, dropout=0.0)
    data = in_streams(np.random.default_rng(1).integers(0, 5, 3 * 16 + 1), 3, 8)
    first = model(data.take(range(3))[0])
    assert first.requires_grad and not model.h.requires_grad
    assert np.abs(model.h.array).max() > 0 and set(model.state_dict()) >= {"h", "c"}
    second = model(data.take(range(3, 6))[0]).array
    again = model(data.take(range(3))[0])
    assert np.array_equal(again.array, first.array)
    assert np.array_equal(model(data.take(range(3, 6))[0]).array, second)
    fewer = model(data.take(range(2))[0])  # as when layers are timed
    np.testing.assert_allclose(fewer.array.reshape(8, 2, 5), first.array.reshape(8, 3, 5)[:, :2], rtol=1e-5, atol=1e-6)


def test_it_learns(whole: Trainer) -> None:
    task = whole.task
    assert isinstance(task, TextTask)
    losses = whole.history.column("held_out_loss")
    assert losses[-1] < losses[0] and task.bits(whole) < 0.9 * math.log2(len(task.corpus.alphabet))
    result = task.result(whole)
    assert "bits per character on the last 5 % of the text after 2 epochs; 5-grams, the best of 1 to 6" in result


def test_a_network_behind_the_n_grams_is_said_to_be(whole: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    task = whole.task
    assert isinstance(task, TextTask)
    assert task.shortfall(whole, 0.5 * min(task.baselines)) == ""
    assert "the held-out loss was still falling, so more --epochs help" in task.shortfall(whole, 9.0)
    records = [{"held_out_loss": loss} for loss in (1.0, 0.8, 0.9)]
    monkeypatch.setattr(whole, "history", type(whole.history)(records))
    assert "lowest after epoch 2, so the network overfits" in task.shortfall(whole, 9.0)


def test_the_baseline_is_measured_on_the_same_characters(whole: Trainer) -> None:
    task = whole.task
    assert isinstance(task, TextTask)
    first, second, last = parts_of(task.corpus.codes)
    assert np.array_equal(np.concatenate([first, second, last]), task.corpus.codes)
    targets = task.test.tensors[1].array
    count = targets.size
    length = count // task.tests().batch_size // STEPS  # type: ignore[operator]
    in_order = targets.reshape(length, -1, STEPS).transpose(1, 0, 2).ravel()
    assert np.array_equal(in_order, last[1 : 1 + count])
    expected = bits(witten_bell(first, last, len(task.corpus.alphabet), 6)[3, 1 : 1 + count])
    assert task.baselines[3] == expected and len(task.baselines) == 6


class _Stop(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, fit: Any, samples: int) -> None:
        if fit.steps == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("step", [1, 13])  # in the first of two epochs, and in the second
def test_a_run_goes_on_bit_for_bit(book: Path, whole: Trainer, tmp_path: Path, step: int) -> None:
    stopped = made(book, tmp_path, checkpoint_every=1)
    stopped.callbacks.append(_Stop(step))
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    resumed = made(book, tmp_path)
    resumed.load_checkpoint()
    assert resumed.steps == step
    resumed.run()
    assert weights(resumed) == weights(whole)  # the states among them
    for ours, theirs in zip(resumed.history, whole.history, strict=True):
        assert {k: v for k, v in ours.items() if k != "seconds"} == {k: v for k, v in theirs.items() if k != "seconds"}


def test_another_text_is_refused(whole: Trainer, book: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text(book.read_text()[::-1])
    trainer = made(other, whole.output)
    with pytest.raises(CheckpointError, match="its sequences differ: they had the SHA-256"):
        trainer.load_checkpoint()


def test_more_streams_than_there_is_text_for(book: Path) -> None:
    with pytest.raises(TrainingError, match=r"batch-size=4000 is too large .* choose at most \d+"):
        text_task(book, 4000)
    with pytest.raises(TrainingError, match="cannot be read"):
        text_task(book / "none", 2)


# ---- what it writes ------------------------------------------------------------------------------------------------


def test_the_same_seed_writes_the_same(whole: Trainer) -> None:
    writer = TextRun(whole.output)
    assert repr(writer) == f"<TextRun {whole.path}: text of 11 different characters>"
    text = writer.write(40, 0.8, 1, "not ")
    assert text.startswith("not ") and len(text) == 44 and text == TextRun(whole.path).write(40, 0.8, 1, "not ")
    assert text != writer.write(40, 0.8, 2, "not ") and set(text) <= set(writer.alphabet)
    assert writer.write(3)[0] == "\n"


def test_recorded_steps_write_the_same(whole: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    with use_kernels("compiled"):
        text = TextRun(whole.path).write(40, 0.8, 1, "not ")
        monkeypatch.setenv("RETROGRAD_EAGER", "1")
        assert text == TextRun(whole.path).write(40, 0.8, 1, "not ")


def test_characters_are_drawn_by_their_probabilities() -> None:
    manual_seed(0)
    model = TextNetwork(3, 1, width=2, hidden=2, layers=1, dropout=0.0)
    model.head.weight.array[:] = 0  # every step has the same scores
    model.head.bias.array[:] = np.log([0.7, 0.1, 0.2])
    random = np.random.default_rng(0)
    shares = np.bincount(sampled(model, np.array([0]), 1000, 1.0, random), minlength=3) / 1000
    assert np.allclose(shares, [0.7, 0.1, 0.2], atol=0.04) and model.training
    sharper = np.array([0.49, 0.01, 0.04]) / 0.54  # squares, as temperature 0.5 makes of them
    shares = np.bincount(sampled(model, np.array([0]), 1000, 0.5, random), minlength=3) / 1000
    assert np.allclose(shares, sharper, atol=0.04)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length=0 must be at least 1"),
        ({"length": 1, "temperature": 0.0}, "temperature=0.0 must be greater than 0 and finite"),
        ({"length": 1, "seed": -1}, "seed=-1 must be 0 or more"),
        ({"length": 1, "prompt": ""}, "prompt is empty"),
        ({"length": 1, "prompt": "x"}, "has no 'x'; leave it out"),
    ],
)
def test_what_cannot_be_written(whole: Trainer, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextRun(whole.output).write(**options)


def test_checkpoints_that_write_nothing(whole: Trainer, tmp_path: Path) -> None:
    state = load_checkpoint(whole.path)
    for name, changed, message in (
        ("task", {**state, "task": "digits"}, "it is of the task 'digits', not 'text'"),
        ("alphabet", {**state, "alphabet": "ab"}, "its network has 11 characters, not 2"),
        ("network", {**state, "network": {"name": "digits", "arguments": {}}}, "its network is not for text"),
        ("lacks", {key: value for key, value in state.items() if key != "model"}, "model is None; it must be a dict"),
    ):
        save_checkpoint(tmp_path / name, changed)
        with pytest.raises(CheckpointError, match=message):
            TextRun(tmp_path / name)


# ---- its report ----------------------------------------------------------------------------------------------------


def test_the_report(whole: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrograd.train.language_modeling._SAMPLE", 60)
    before = weights(whole)
    text = report_page(whole)
    page = Page(text)
    assert weights(whole) == before and "$" not in page.text
    for words in ("bits per character", "6-grams", "Surprising characters", "temperature 0.8", "LSTM", "book.txt"):
        assert words in page.text
    task = whole.task
    assert isinstance(task, TextTask)
    assert f"{task.bits(whole):.3f}" in page.text and f"{min(task.baselines):.3f}" in page.text
    assert "&lt;" in text and "&amp;" in text and "<&>" not in text  # escaped, not lost
    assert len(page.ids) == len(set(page.ids)) and text.count("<pre") == 4


def test_settings_are_in_the_checkpoint(whole: Trainer) -> None:
    state = load_checkpoint(whole.path)
    assert state["task"] == "text" and state["alphabet"] == "\n &<>benort"
    assert state["options"]["different"] == len(state["alphabet"]) and state["model"]["h"].shape == (2, 16, 12)
    assert Settings.from_dict(state["settings"]) == dataclasses.replace(SETTINGS)
