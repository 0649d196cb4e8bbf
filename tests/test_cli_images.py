"""``retrograd train --images`` and ``retrograd predict``, with generated images."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import retrograd
from data.drawn import draw_folder, drawing
from retrograd.cli import main
from retrograd.data.images import ImageError
from retrograd.kernel_set import use_kernels
from retrograd.train import load_checkpoint, save_checkpoint

QUICK = ("--kernels", "textbook", "--epochs", "6", "--batch-size", "8", "--size", "12", "--lr", "0.01")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def train(*arguments: str) -> int:
    return main(["train", *arguments])


def weights(folder: Path | str) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in load_checkpoint(Path(folder) / "checkpoint.npz")["model"].items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of images, and an uninterrupted run on it."""
    folder = tmp_path_factory.mktemp("made")
    draw_folder(folder / "pictures", 20)
    assert train("--images", str(folder / "pictures"), *QUICK, "--output", str(folder / "run")) == 0
    return folder


@pytest.fixture
def pictures(made, tmp_path):
    shutil.copytree(made / "pictures", tmp_path / "pictures")
    return tmp_path / "pictures"


def test_a_run_learns_and_writes_its_report(made, capsys):
    state = load_checkpoint(made / "run" / "checkpoint.npz")
    assert state["history"][-1]["held_out_accuracy"] >= 0.75
    assert state["classes"] == ["disc", "square"] and state["image"] == {"size": 12, "channels": 3}
    page = (made / "run" / "report.html").read_text()
    for text in ("Images in pictures", "32 images to train on, 8 held out", "disc", "held out", "3, 32, kernel_size"):
        assert text in page, text


@pytest.mark.parametrize("form", ["folder", "file"])
def test_predict(made, capsys, form):
    random = np.random.default_rng(99)
    names = []
    for number, kind in enumerate(("disc", "square") * 4):
        names.append(f"{number}-{kind}.png")
        drawing(kind, random).save(names[-1])
    checkpoint = made / "run" / ("checkpoint.npz" if form == "file" else "")
    assert main(["predict", str(checkpoint), *names, "--kernels", "textbook"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8 and all(re.match(r"\d-\w+\.png +\d+\.\d\d% \w+ +\d+\.\d\d% \w+$", line) for line in lines)
    right = sum(line.split("-")[1].split(".")[0] == line.split()[2] for line in lines)
    assert right >= 6
    assert main(["predict", str(checkpoint), *names, "--json", "--kernels", "textbook"]) == 0
    answers = json.loads(capsys.readouterr().out)
    for answer, line, name in zip(answers, lines, names, strict=True):
        assert answer["image"] == name and answer["class"] == line.split()[2]
        assert answer["probabilities"].keys() == {"disc", "square"}
        assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert max(answer["probabilities"].values()) == answer["probability"]
    assert main(["predict", str(checkpoint), names[0], "--top", "1", "--invert", "--kernels", "textbook"]) == 0
    assert capsys.readouterr().out.count("%") == 1


def test_many_images_are_classified_by_a_frozen_network(made, capsys, monkeypatch):
    from retrograd.cli import predict
    from retrograd.nn.compilation import Frozen

    calls, call = [], Frozen.__call__
    monkeypatch.setattr(Frozen, "__call__", lambda self, *args: calls.append(1) or call(self, *args))
    answers = []
    for many in (10**6, 1):
        monkeypatch.setattr(predict, "_MANY", many)
        assert main(["predict", str(made / "run"), str(made / "pictures"), "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert calls
    for usual, found in zip(*answers, strict=True):
        assert usual["class"] == found["class"]
        assert list(found["probabilities"].values()) == pytest.approx(list(usual["probabilities"].values()), abs=1e-5)


def test_folders_and_csv(made, capsys):
    draw_folder(Path("new"), 40)
    (Path("new") / "notes.txt").write_text("no image")
    assert main(["predict", str(made / "run"), "new", "--csv", "--kernels", "textbook"]) == 0
    out, err = capsys.readouterr()
    assert err == "retrograd: not used: new/notes.txt is not a PNG or JPEG image\n"
    rows = list(csv.DictReader(out.splitlines()))
    assert list(rows[0]) == ["image", "class", "probability", "disc", "square"]
    assert [row["image"] for row in rows] == sorted(map(str, Path("new").glob("*/*.*"))) and len(rows) == 80
    for row in rows:
        assert row[row["class"]] == row["probability"] == max(row["disc"], row["square"], key=float)
    assert main(["predict", str(made / "run"), rows[70]["image"], "--json", "--kernels", "textbook"]) == 0
    (alone,) = json.loads(capsys.readouterr().out)
    assert alone["probability"] == pytest.approx(float(rows[70]["probability"]), rel=1e-5)
    for arguments, message in (
        ((), "run classifies images; name PNG or JPEG files, or folders of them, after it"),
        (("new", "--steps", "3"), "--steps is for a series; "),
        (("new", "--top", "1", "--json"), "--top is for the table; --json has all classes: leave it out"),
        (("new", "--top", "1", "--csv"), "--top is for the table; --csv has all classes: leave it out"),
        (("new", "--mean", "0.5"), "--mean is for an ONNX model; a retrograd model needs no such option"),
    ):
        assert main(["predict", str(made / "run"), *arguments]) == 2
        assert message in capsys.readouterr().err


def test_load_run_and_export(made, capsys):
    run = retrograd.load_run(made / "run")
    assert repr(run).endswith("run/checkpoint.npz: images of 12 x 12 pixels, 3 channels; classes disc, square>")
    path = next((made / "pictures" / "disc").iterdir())
    with use_kernels("textbook"):
        shares = run.classify(path)
        assert shares == run.classify(path.read_bytes()) and list(shares.values()) == sorted(shares.values())[::-1]
        Path("text.png").write_text("text")
        with pytest.raises(ImageError, match=r"^text\.png is not a PNG or JPEG image"):
            run.classify("text.png")
        with pytest.raises(ImageError, match="^the content is not a PNG"):
            run.classify(b"text")
        with pytest.raises(TypeError, match=r"its content as bytes, got ndarray; arrays of pixels are for prob"):
            run.classify(np.zeros(3))  # type: ignore[arg-type]
        assert not run.model.training and run.classes == ("disc", "square") and run.task == "images"
        assert main(["export", str(made / "run"), "model.onnx"]) == 0
        assert "inputs images; outputs probabilities" in capsys.readouterr().out
    assert main(["predict", "model.onnx", str(path), "--json", "--kernels", "textbook"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["probabilities"] == pytest.approx(shares, abs=1e-5)
    assert main(["export", str(made / "run"), "model.onnx", "--level", "0.9"]) == 2
    assert "--level is for a series" in capsys.readouterr().err


def test_what_predict_says_is_what_the_trainer_measured(made):
    """Predictions for the held-out images, read from their files, reproduce the accuracy of the last epoch."""
    from retrograd.data.images import load_images
    from retrograd.train.image_classification import held_out_share
    from retrograd.train.inference import ImageRun

    with use_kernels("textbook"):
        predictor = ImageRun(made / "run")
        found = load_images(made / "pictures", predictor.size, predictor.channels)
        chosen = held_out_share(found.labels, 0.2, 0)
        answers = predictor.probabilities(found.images[chosen]).argmax(1)
    record = load_checkpoint(made / "run" / "checkpoint.npz")["history"][-1]
    assert (answers == found.labels[chosen]).mean() == record["held_out_accuracy"] and chosen.sum() == 8


def test_wrong_inputs_of_predict(made, capsys):
    run = str(made / "run")
    Path("text.png").write_text("no image")
    os.mkfifo("pipe")
    good = next((made / "pictures" / "disc").iterdir())
    Path("cut.png").write_bytes(good.read_bytes()[:200])
    os.mkdir("folder")
    Path("folder/notes.txt").write_text("no image")
    names = "text.png", str(good), "none.png", "pipe", "folder", "cut.png"
    assert main(["predict", run, *names, "--kernels", "textbook"]) == 1
    out, err = capsys.readouterr()
    assert out.count("\n") == 1 and str(good) in out and err.count("\n") == 5
    for text in (
        "text.png is not a PNG",
        "none.png cannot be read (No such",
        "pipe is not a file",
        "cut.png is d",
        "folder has no P",
    ):
        assert f"retrograd: {text}" in err, err
    assert main(["predict", run, "text.png", str(good), "--json", "--kernels", "textbook"]) == 1
    answers = json.loads(capsys.readouterr().out)
    assert answers[0] == {"image": "text.png", "error": "is not a PNG or JPEG image"} and "class" in answers[1]
    assert main(["predict", run, str(good), "--top", "0"]) == 2
    assert "--top 0 must be at least 1" in capsys.readouterr().err


def test_wrong_checkpoints_of_predict(made, capsys):
    image = str(next((made / "pictures" / "disc").iterdir()))
    state = load_checkpoint(made / "run" / "checkpoint.npz")
    broken = {
        "lacks.npz": {name: value for name, value in state.items() if name != "classes"},
        "network.npz": {**state, "network": {"name": "gpt", "arguments": {}}},
        "arguments.npz": {**state, "network": {"name": "images", "arguments": {"width": 3}}},
        "huge.npz": {**state, "network": {"name": "images", "arguments": {"channels": 3, "size": 9999, "classes": 2}}},
        "text.npz": {**state, "network": "images"},
        "classes.npz": {**state, "classes": ["one", "two", "three"]},
        "names.npz": {**state, "classes": [1, 2]},
        "size.npz": {**state, "image": {"size": -1, "channels": 3}},
        "weights.npz": {**state, "model": {}},
    }
    for name, changed in broken.items():
        save_checkpoint(name, changed)
    Path("junk.npz").write_text("junk")
    for name in (*broken, "junk.npz", "none.npz", "."):
        assert main(["predict", name, image, "--kernels", "textbook"]) == 1
        out, err = capsys.readouterr()
        assert not out and err.startswith("retrograd: ") and name.strip(".") in err, (name, err)
        assert name in broken or "checkpoint" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "pass one TASK"),
        (("digits", "--images", "pictures"), "pass one TASK"),
    ],
)
def test_either_a_task_or_images(capsys, arguments, message):
    assert train(*arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("pictures",), 2, "series; to train on the pictures in this folder, write --images pictures"),
        (("--images", "pictures", "--output", "pictures/run"), 2, "is in the folder of --images; choose another"),
        (("--images", "none"), 1, "none: there is no such folder"),
        (("--images", "pictures", "--size", "4"), 2, "--size 4 must be from 8 to 256 pixels"),
        (("--images", "pictures", "--held-out", "1"), 2, "--held-out 1 must be a fraction between 0 and 1"),
        (("--images", "pictures", "--held-out", "0.3", "--held-out-images", "x"), 2, "exclude each other"),
        (("--images", "pictures", "--held-out-images", "x"), 1, "x: there is no such folder"),
        (("digits", "--regularize", "light"), 2, "--regularize is for --images"),
        (("digits", "--size", "9"), 2, "--size is for --images"),
        (("mnist5k", "--no-flip"), 2, "--no-flip is for --images"),
    ],
)
def test_wrong_arguments_end_in_one_line(capsys, pictures, arguments, code, message):
    assert train(*arguments) == code
    out, err = capsys.readouterr()
    assert message in err and err.startswith("retrograd: ") and err.count("\n") == 1 and not out
    assert not os.path.exists("runs")


def test_what_is_not_used_is_said_and_stands_in_the_report(pictures, capsys):
    (pictures / "disc" / "x.txt").write_text("")
    (pictures / "square" / "cut.png").write_bytes(next((pictures / "disc").glob("*.png")).read_bytes()[:99])
    assert train("--images", "pictures", *QUICK, "--epochs", "1", "--channels", "1", "--no-flip") == 0
    err = capsys.readouterr().err
    assert "not used: disc/x.txt is not a PNG or JPEG image; square/cut.png is damaged or cut off" in err
    page = Path("runs/images/report.html").read_text()
    assert "disc/x.txt is not a PNG" in page and "1, 32, kernel_size" in page
    assert load_checkpoint("runs/images/checkpoint.npz")["options"]["flip"] is False


def test_held_out_images_of_their_own(pictures, capsys):
    draw_folder(Path("others"), 3, seed=5)
    assert train("--images", "pictures", "--held-out-images", "others", *QUICK, "--epochs", "1") == 0
    assert "training on 40 images, 6 held out" in capsys.readouterr().err
    explain = ("explain", "runs/images", "--html", "page.html", "--samples", "1")
    assert main([*explain, "--images", "pictures"]) == 1  # a fifth of pictures would be held out, trained on before
    assert "the images in pictures are not those of runs/images/checkpoint.npz" in capsys.readouterr().err
    assert main([*explain, "--images", "pictures", "--held-out-images", "others"]) == 0
    assert main([*explain, "--held-out-images", "others"]) == 2
    assert "--held-out-images needs --images DIR" in capsys.readouterr().err
    next(Path("others/disc").iterdir()).unlink()
    assert main([*explain, "--images", "pictures", "--held-out-images", "others"]) == 1
    draw_folder(Path("wrong"), 3, ("disc", "star"))
    assert train("--images", "pictures", "--held-out-images", "wrong", *QUICK) == 1
    assert "wrong has the class folders disc, star, expected disc, square" in capsys.readouterr().err


def test_defaults_for_few_images_leave_what_is_chosen(pictures, capsys):
    quick = ("--images", "pictures", "--kernels", "textbook", "--size", "12", "--epochs", "1")
    assert train(*quick, "--output", "few") == 0
    err = capsys.readouterr().err
    assert "few images (32), so the defaults are --regularize strong, --batch-size 16\n" in err
    state = load_checkpoint("few/checkpoint.npz")
    assert state["settings"]["epochs"] == 1 and state["settings"]["batch_size"] == 16
    assert state["optimizer"]["param_groups"][0]["weight_decay"] > 0 and state["options"]["regularize"] == "strong"
    page = Path("few/report.html").read_text()
    assert "AdamW with weight decay" in page and "shifted, rotated, scaled, brightened, mirrored at random" in page
    assert train("--images", "pictures", "--resume", "--output", "few", "--regularize", "strong") == 0
    assert train("--images", "pictures", "--resume", "--output", "few", "--regularize", "light") == 2
    assert "--regularize light differs from the checkpoint's strong" in capsys.readouterr().err
    assert train(*quick, "--output", "light", "--regularize", "light", "--batch-size", "30") == 0
    assert "few images" not in capsys.readouterr().err
    state = load_checkpoint("light/checkpoint.npz")
    assert state["settings"]["batch_size"] == 30 and "regularize" not in state["options"]
    assert state["optimizer"]["param_groups"][0]["weight_decay"] == 0
    assert train("--images", "pictures", "--resume", "--output", "light") == 0


def test_kill_9_and_resume_bit_for_bit(made, pictures, capsys):
    command = [sys.executable, "-m", "retrograd", "train", "--images", "pictures", *QUICK, "--output", "run"]
    source = str(Path(retrograd.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    process = subprocess.Popen([*command, "--checkpoint-every", "1"], env=environment, stderr=subprocess.DEVNULL)
    path = Path("run/checkpoint.npz")
    while not path.exists() or load_checkpoint(path)["steps"] < 3:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert process.returncode == -signal.SIGKILL and load_checkpoint(path)["steps"] < 24
    assert train("--images", "pictures", "--resume", "--output", "run") == 0
    assert weights("run") == weights(made / "run")
    capsys.readouterr()


def test_a_run_goes_on_with_the_same_images_only(made, pictures, capsys):
    shutil.copytree(made / "run", "run")
    assert train("--images", "pictures", "--resume", "--output", "run") == 0
    for arguments, message in (
        (("--size", "16"), "--size 16 differs from the checkpoint's 12"),
        (("--no-flip",), "--no-flip differs from the checkpoint's True"),
    ):
        assert train("--images", "pictures", "--resume", "--output", "run", *arguments) == 2
        assert message in capsys.readouterr().err
    assert train("digits", "--resume", "--output", "run") == 1
    assert "it is of the task 'images', not 'digits'" in capsys.readouterr().err
    Image.new("RGB", (9, 9)).save("pictures/disc/000.png")
    assert train("--images", "pictures", "--resume", "--output", "run") == 1
    assert "does not fit this run: its images differ: they had the SHA-256" in capsys.readouterr().err


def test_without_pillow(pictures, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert train("--images", "pictures") == 1
    assert 'pip install "retrograd[images]"' in capsys.readouterr().err


def test_sample_photos_writes_pictures_to_train_on(capsys):
    assert main(["sample", "photos", "--count", "3", "--seed", "5"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("3 in photos/cat, 3 in photos/dog; ") and "retrograd train --images photos" in said
    names = sorted(str(path) for path in Path("photos").rglob("*.png"))
    assert names == [f"photos/{kind}/00{number}.png" for kind in ("cat", "dog") for number in range(3)]
    pictures = {name: np.asarray(Image.open(name)) for name in names}
    assert all(picture.shape == (64, 64, 3) for picture in pictures.values())
    assert len({picture.tobytes() for picture in pictures.values()}) == 6
    assert main(["sample", "photos", "--count", "2", "--seed", "5", "--output", "again"]) == 0
    assert (np.asarray(Image.open("again/dog/001.png")) == pictures["photos/dog/001.png"]).all()
    assert main(["sample", "photos", "--count", "2", "--seed", "6", "--output", "other"]) == 0
    assert (np.asarray(Image.open("other/dog/001.png")) != pictures["photos/dog/001.png"]).any()
    assert train("--images", "photos", *QUICK, "--epochs", "1") == 0
    assert load_checkpoint("runs/images/checkpoint.npz")["classes"] == ["cat", "dog"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("photos", "--output", "full"), 2, "--output: full is not empty; choose another folder, or remove it"),
        (("photos", "--output", "full/file.txt"), 2, "--output: full/file.txt is not a folder; choose another"),
        (("photos", "--count", "0"), 2, "--count 0 must be at least 1 and at most 100000"),
        (("photos", "--seed", "-1"), 2, "--seed -1 must be 0 or more"),
        (("photos", "--length", "9"), 2, "--length is for the run of a text network; leave it out"),
        (("run", "--count", "9"), 2, "--count is for 'retrograd sample photos'; leave it out"),
    ],
)
def test_wrong_arguments_of_sample(capsys, arguments, code, message):
    Path("full").mkdir()
    Path("full/file.txt").write_text("")
    assert main(["sample", *arguments]) == code
    out, err = capsys.readouterr()
    assert message in err and err.count("\n") == 1 and not out
    assert os.listdir() == ["full"] and os.listdir("full") == ["file.txt"]


@pytest.mark.parametrize("exists", [False, True])
def test_sample_photos_that_ends_early_leaves_no_picture(capsys, monkeypatch, exists):
    def fail(name, random):
        if name == "dog":
            raise error
        return drawing("disc", random)

    if exists:
        Path("photos").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("retrograd.data.drawings.drawing", fail)
        error = KeyboardInterrupt()
        assert main(["sample", "photos"]) == 130
        error = OSError(errno.ENOSPC, "No space left on device")
        assert main(["sample", "photos"]) == 1
    assert "photos/cat was not written: no space is left on the disk; free some" in capsys.readouterr().err
    assert [str(path) for path in Path().rglob("*")] == ["photos"] * exists
    assert main(["sample", "photos", "--count", "1"]) == 0
    assert len([*Path().rglob("*")]) == 5


def test_sample_photos_without_pillow(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert main(["sample", "photos"]) == 1
    assert (
        'drawing images needs Pillow, which is not installed: pip install "retrograd[images]"'
        in capsys.readouterr().err
    )
    assert not os.listdir()
