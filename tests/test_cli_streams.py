"""Output of commands: closed pipes, failing writes, and no control sequences from untrusted text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from retrograd.cli import main
from retrograd.cli.output import guarded
from retrograd.train import load_checkpoint, save_checkpoint
from retrograd.train.checkpoint import CheckpointError
from retrograd.train.inference import ImageRun, TextRun
from retrograd.train.networks import build_network, image_of, saved_network

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
QUICK = [(["info"], True), (["--help"], True), (["train", "--help"], False)]  # and whether Python buffers its output


def run(arguments: list[str], buffered: bool, **streams: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.run(
        [sys.executable, "-m", "retrograd", *arguments], text=True, timeout=200, env=environment, check=False, **given
    )


def unread() -> int:
    """Return the write end of a pipe whose read end is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize(("arguments", "buffered"), QUICK)
def test_nobody_reads_the_output(arguments: list[str], buffered: bool) -> None:
    done = run(arguments, buffered, stdout=unread())
    assert (done.returncode, done.stderr) == (141, "")


@needs_full
@pytest.mark.parametrize(("arguments", "buffered"), QUICK)
def test_the_output_cannot_be_written(arguments: list[str], buffered: bool) -> None:
    with open(FULL, "w") as full:
        done = run(arguments, buffered, stdout=full)
        both = run(arguments, buffered, stdout=full, stderr=full)
    assert (done.returncode, done.stderr) == (1, "retrograd: the output cannot be written: No space left on device\n")
    assert both.returncode == 1


@needs_full
def test_stderr_cannot_be_written() -> None:
    """The command continues, and its exit code reports the result."""
    with open(FULL, "w") as full:
        assert run(["predict", "none", "none"], True, stderr=full).returncode == 1
        assert run(["train", "digits", "--epochs", "0"], True, stderr=full).returncode == 2
    done = run(["predict", "none", "none"], True, stderr=unread())
    assert (done.returncode, done.stdout) == (141, "")


def test_closed_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["info"]) == 0
    assert main(["predict", "none", "none"]) == 1


def test_a_training_whose_progress_nobody_reads(tmp_path: Path) -> None:
    """It ends silently, after writing its first checkpoint."""
    arguments = ["train", "digits", "--epochs", "1", "--kernels", "textbook", "--output", str(tmp_path)]
    done = run(arguments, True, stderr=unread())
    assert (done.returncode, done.stdout) == (141, "")


def test_a_stream_that_lacks_characters(capfdbinary: Any) -> None:
    script = "import sys; from retrograd.cli.output import say; from retrograd.cli.output import guarded\n"
    script += "sys.exit(guarded(lambda: say('猫') or 0))"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, timeout=100, check=True)
    assert done.stdout == b"\\u732b\n"
    assert guarded(lambda: 7) == 7


# ---- output that depends on an untrusted checkpoint ----------------------------------------------------------------

NETWORK = {"name": "images", "arguments": {"channels": 1, "size": 8, "classes": 2}}
EVIL = "\x1b[31mcat\x07\r\n\u202e"


def image_state() -> dict[str, Any]:
    return {
        "task": "images",
        "classes": [EVIL, "dog"],
        "image": {"size": 8, "channels": 1},
        "network": NETWORK,
        "model": build_network(NETWORK).state_dict(),
    }


def test_class_names_cannot_act_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_checkpoint(tmp_path / "run.npz", image_state())
    picture = tmp_path / "x.png"
    Image.new("L", (8, 8)).save(picture)
    arguments = ["predict", str(tmp_path / "run.npz"), str(picture), "--kernels", "textbook"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert r"\x1b[31mcat\x07\x0d\x0a\u202e" in shown and shown.count("\n") == 1 and "\x1b" not in shown
    assert main([*arguments, "--json"]) == 0
    assert EVIL in json.loads(capsys.readouterr().out)[0]["probabilities"]
    assert main(["predict", str(tmp_path / "\x1b[2J"), str(picture)]) == 1
    assert r"\x1b[2J" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["a", "a"]}, "two of its classes have the same name"),
        ({"classes": "ab"}, "classes is 'ab'; it must be a list"),
        ({"classes": ["a", "b", "c"]}, "one output for each of the 3 classes"),
        ({"image": {"size": 4096, "channels": 4096}}, "its image is .*4096.*, but its network takes"),
        ({"task": 3}, "task is 3; it must be a string"),
        ({"network": {"name": "images", "arguments": {"channels": 1, "size": 8, "classes": 10**9}}}, "cannot be built"),
        ({"network": {"name": "images", "arguments": {"channels": 1, "size": 8, "classes": 10000}}}, "has at least"),
        ({"network": {"name": ["x"], "arguments": {}}}, r"there is no network \['x'\]"),
        ({"network": {"name": "series", "arguments": {"horizon": 10**9}}}, "is not for images"),
        ({"model": {"x": np.array([np.inf])}}, "model.'x'. holds NaN or infinity"),
        ({"model": {"x": "y"}}, "model.'x'. is 'y'; it must be an array"),
    ],
)
def test_networks_that_lie(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    save_checkpoint(tmp_path / "run.npz", {**image_state(), **change})
    with pytest.raises(CheckpointError, match=message):
        ImageRun(tmp_path / "run.npz")


def test_a_text_network_is_no_larger_than_its_file(tmp_path: Path) -> None:
    arguments = {"characters": 3, "streams": 1, "width": 2, "hidden": 10**6, "layers": 60}
    state = {"task": "text", "alphabet": "abc", "network": {"name": "text", "arguments": arguments}, "model": {}}
    save_checkpoint(tmp_path / "run.npz", state)
    with pytest.raises(CheckpointError, match="its network has at least 4760.* numbers, but only 0 are stored"):
        TextRun(tmp_path / "run.npz")
    arguments["layers"] = 10**9
    save_checkpoint(tmp_path / "run.npz", state)
    with pytest.raises(CheckpointError, match="arguments.'layers'. is 1000000000; it must be an integer from 1 to 64"):
        TextRun(tmp_path / "run.npz")


def test_weights_so_large_that_nothing_can_be_said(tmp_path: Path) -> None:
    huge = {
        name: np.full(tensor.shape, 3e38, np.float32) if tensor.dtype.kind == "f" else tensor
        for name, tensor in build_network(NETWORK).state_dict().items()
    }
    save_checkpoint(tmp_path / "run.npz", {**image_state(), "model": huge})
    predictor = ImageRun(tmp_path / "run.npz")
    with pytest.raises(CheckpointError, match="weights are too large, its outputs are not finite"):
        predictor.probabilities(np.full((1, 1, 8, 8), 255, np.uint8))
    arguments = {"characters": 3, "streams": 1, "width": 2, "hidden": 2, "layers": 1}
    state = {"task": "text", "alphabet": "abc", "network": {"name": "text", "arguments": arguments}}
    weights = {
        name: np.full(tensor.shape, 3e38, np.float32)
        for name, tensor in build_network(state["network"]).state_dict().items()
    }
    save_checkpoint(tmp_path / "run.npz", {**state, "model": weights})
    with pytest.raises(CheckpointError, match="weights are too large, its scores are not finite"):
        TextRun(tmp_path / "run.npz").write(3)


def test_the_smallest_count_of_numbers_is_none_too_many() -> None:
    """The number of elements that saved_network requires of a checkpoint never exceeds that of the network."""
    for name, arguments in (
        ("digits", {}),
        ("mnist", {}),
        *(("images", {"channels": 3, "size": size, "classes": 2}) for size in (8, 15, 16, 31, 255)),
        ("text", {"characters": 7, "streams": 3, "width": 5, "hidden": 4, "layers": 3}),
        ("text", {"characters": 7, "streams": 3}),
        ("series", {"horizon": 3}),
        ("series", {"horizon": 3, "hidden": 2}),
        ("series", {"horizon": 3, "hidden": 2, "lags": 5}),
    ):
        network = {"name": name, "arguments": arguments}
        model = build_network(network)
        takes = {"text": "text", "series": "series"}.get(name, "images")
        saved_network({"network": network, "model": {k: t.array for k, t in model.state_dict().items()}}, takes)
        if takes == "images":
            size, channels = image_of(network)["size"], image_of(network)["channels"]
            assert model[0].in_channels == channels and size in (8, 15, 16, 28, 31, 255)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": np.ones(2)}, "it is of the task array"),
        ({"settings": {"epochs": 10**30}}, "settings must be a dict of"),
        ({"epochs": 10**30}, "epochs=1000.* must be at most 1,000,000"),
        ({"lr": 10**400}, "lr=.* must be greater than 0 and finite"),
        ({"seed": 2**64}, "seed=18446744073709551616 must be 0 or more, and less than"),
        ({"batch_size": 10**12}, "batch-size=1000000000000 must be at most 1,000,000,000"),
        ({"epoch": -(10**9)}, "epoch is -1000000000; it must be an integer from 0 to 1"),
    ],
)
def test_a_run_is_not_taken_up_from_a_lie(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], finished_digits: Path, change: dict[str, Any], message: str
) -> None:
    import re

    state = load_checkpoint(finished_digits)
    for name, value in change.items():
        (state if name in state else state["settings"])[name] = value
    save_checkpoint(tmp_path / "checkpoint.npz", state)
    assert main(["train", "digits", "--resume", "--output", str(tmp_path)]) == 1
    assert re.search(message, capsys.readouterr().err)


@pytest.fixture(scope="module")
def finished_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the checkpoint of a run of one epoch."""
    from retrograd.kernel_set import use_kernels
    from retrograd.ops.random.random import fork_rng, manual_seed
    from retrograd.train import Settings, Trainer
    from retrograd.train.image_classification import digits_task

    with use_kernels("textbook"), fork_rng():
        settings = Settings(epochs=1, batch_size=64, kernels="textbook")
        manual_seed(settings.seed)
        trainer = Trainer(digits_task(), settings, tmp_path_factory.mktemp("digits"))
        trainer.run()
    return trainer.path
