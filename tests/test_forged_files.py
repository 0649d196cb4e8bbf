"""Damaged or inconsistent files raise the documented error, or load; in bounded time and memory.

A failed call changes nothing; an accepted file is usable. A few cases of each kind run with fixed seeds. The nightly
run draws thousands of new ones and prints its seed; RETROGRAD_FORGED_SEED repeats them.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from forging import Random, cases_of, outcome, run_cases, run_fresh_cases
from mutation import forged, forged_checkpoint, frozen, mutated
from retrograd import nn
from retrograd.cli import main
from retrograd.data import ImageFolderError
from retrograd.data.data_files import unpacked
from retrograd.data.images import ImageError, load_images, read_image
from retrograd.data.series import SeriesError, read_series
from retrograd.data.text import TextError, read_text
from retrograd.interop import load_model, load_safetensors, save_safetensors
from retrograd.interop.safetensors import SafetensorsError
from retrograd.kernel_set import use_kernels
from retrograd.ops.random.random import fork_rng, manual_seed
from retrograd.train import CheckpointError, Settings, Trainer, TrainingError, load_checkpoint, save_checkpoint
from retrograd.train.forecasting import SeriesOptions
from retrograd.train.image_classification import ImageOptions
from retrograd.train.inference import ImageRun, TextRun
from retrograd.train.networks import TextNetwork
from train.small import SMALL, small_task

# ---- valid files, written once -------------------------------------------------------------------------------------


class _Kept(Trainer):
    """Keeps the checkpoint of step 6, in the middle of the second epoch."""

    content = b""

    def save_checkpoint(self) -> None:
        super().save_checkpoint()
        if self.steps == 6:
            self.content = self.path.read_bytes()


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("honest")
    with use_kernels("textbook"), fork_rng():
        manual_seed(SMALL.seed)
        trainer = _Kept(small_task(), SMALL, folder / "run", checkpoint_every=6)
        trainer.run()
        save_checkpoint(folder / "images.npz", _of_images())
        save_checkpoint(folder / "text.npz", _of_text())
        model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
        save_safetensors(model, folder / "model.safetensors", {"about": "it"})
    random = np.random.default_rng(3)
    picture = Image.fromarray(random.integers(0, 256, (11, 13, 3)).astype(np.uint8))
    files = {"trainer": trainer.content}
    for form, options in (("PNG", {}), ("JPEG", {"quality": 80})):
        stream = io.BytesIO()
        picture.save(stream, form, **options)
        files[form] = stream.getvalue()
    files["csv"] = ("year;count\n" + "".join(f"{1900 + n};{n % 7}.5\n" for n in range(60))).encode()
    files["text"] = ("Ein Text mit ein paar Zeichen: äöü, 1234.\n" * 300).encode()
    for name in ("images.npz", "text.npz", "model.safetensors"):
        files[name] = (folder / name).read_bytes()
    return files


def _of_images() -> dict[str, Any]:
    from retrograd.train.networks import build_network

    network = {"name": "images", "arguments": {"channels": 1, "size": 8, "classes": 2}}
    return {
        "task": "images",
        "classes": ["cat", "dog"],
        "image": {"size": 8, "channels": 1},
        "network": network,
        "model": build_network(network).state_dict(),
    }


def _of_text() -> dict[str, Any]:
    arguments = {"characters": 5, "streams": 2, "width": 3, "hidden": 4, "layers": 1}
    return {
        "task": "text",
        "alphabet": "\nabcd",
        "network": {"name": "text", "arguments": arguments},
        "model": TextNetwork(**arguments).state_dict(),
    }


# ---- files ---------------------------------------------------------------------------------------------------------


def _written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _changed(random: Random, content: bytes) -> bytes:
    return mutated(random, content) if random.random() < 0.4 else forged_checkpoint(random, content)


def case_trainer(honest: dict[str, Any], random: Random, folder: Path) -> str:
    """The checkpoint is refused and changes nothing, or training continues from it until its end or an error."""
    manual_seed(SMALL.seed)
    trainer = Trainer(small_task(), SMALL, folder)
    _written(folder, "checkpoint.npz", _changed(random, honest["trainer"]))
    before = frozen(trainer.state_dict())
    found, _ = outcome(trainer.load_checkpoint, CheckpointError)
    if found == "refused":
        assert frozen(trainer.state_dict()) == before
        return found
    assert 0 <= trainer.steps <= 12
    outcome(trainer.run, TrainingError)
    return found


def case_checkpoint(honest: dict[str, Any], random: Random, folder: Path) -> str:
    path = _written(folder, "file.npz", mutated(random, honest["trainer"]))
    return outcome(lambda: load_checkpoint(path), CheckpointError)[0]


def case_settings(honest: dict[str, Any], random: Random, folder: Path) -> str:
    """The settings that the command reads from a checkpoint before it creates a trainer."""
    kind, value = (
        (Settings.from_dict, SMALL.as_dict()),
        (lambda saved: ImageOptions(**saved), {"size": 64, "channels": 3, "held_out": 0.2, "flip": True}),
        (lambda saved: SeriesOptions(**saved), {"column": "x", "period": 12, "horizon": 3}),
    )[random.integers(3)]
    lie = dict(value)
    key = list(lie)[random.integers(len(lie))]
    lie[key] = forged(random, [lie[key]])
    if isinstance(lie[key], list) and len(lie[key]) == 1:
        (lie[key],) = lie[key]
    return outcome(lambda: kind(lie), ValueError)[0]


def case_predictor(honest: dict[str, Any], random: Random, folder: Path) -> str:
    path = _written(folder, "file.npz", _changed(random, honest["images.npz"]))
    found, predictor = outcome(lambda: ImageRun(path), CheckpointError)
    if found == "loaded":
        images = random.integers(0, 256, (1, predictor.channels, predictor.size, predictor.size)).astype(np.uint8)
        outcome(lambda: predictor.probabilities(images), CheckpointError)
    return found


def case_writer(honest: dict[str, Any], random: Random, folder: Path) -> str:
    path = _written(folder, "file.npz", _changed(random, honest["text.npz"]))
    found, writer = outcome(lambda: TextRun(path), CheckpointError)
    if found == "loaded":
        outcome(lambda: writer.write(5), CheckpointError)
    return found


def case_command(honest: dict[str, Any], random: Random, folder: Path, capsys: Any = None) -> str:
    """Commands that read a checkpoint succeed or end with one line, and never print control sequences."""
    which = random.integers(2)
    path = _written(folder, "file.npz", _changed(random, honest[("images.npz", "text.npz")[which]]))
    _written(folder, "x.png", honest["PNG"])
    commands = ["predict", str(path), str(folder / "x.png")], ["sample", str(path), "--length", "3"]
    code = main([*commands[which], "--kernels", "textbook"])
    assert code in (0, 1, 2)
    return "loaded" if code == 0 else "refused"


def case_safetensors(honest: dict[str, Any], random: Random, folder: Path) -> str:
    content = honest["model.safetensors"]
    if random.random() < 0.5:
        content = mutated(random, content)
    else:
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        if random.random() < 0.7:
            header.pop("__metadata__")  # without the digest, the contents of tensors are not checked
        try:
            text = json.dumps(forged(random, header)).encode()
        except (ValueError, RecursionError, TypeError):
            text = b"[" * 5000
        content = len(text).to_bytes(8, "little") + text + content[8 + size :]
    path = _written(folder, "x.safetensors", content)
    found, _ = outcome(lambda: load_safetensors(path), SafetensorsError)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    before = frozen(model.state_dict())
    if outcome(lambda: load_model(model, path), SafetensorsError)[0] == "refused":
        assert frozen(model.state_dict()) == before
    return found


def _picture(honest: dict[str, Any], random: Random) -> bytes:
    content = honest[("PNG", "JPEG")[random.integers(2)]]
    if content.startswith(b"\x89PNG") and random.random() < 0.5:  # a forged chunk with a valid checksum
        place = 8 if random.random() < 0.5 else content.index(b"IDAT") - 4
        size = int.from_bytes(content[place : place + 4], "big")
        chunk = mutated(random, content[place + 8 : place + 8 + size])
        if random.random() < 0.3:
            chunk = zlib.compress(bytes(10**7))
        kind = random.choice([b"IHDR", b"IDAT", b"tEXt", b"zTXt", b"iCCP", b"eXIf", b"PLTE", b"tRNS", b"pHYs"])
        body = bytes(kind) + chunk
        new = len(chunk).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
        return content[:place] + new + content[place + 12 + size :]
    return mutated(random, content)


def case_image(honest: dict[str, Any], random: Random, folder: Path) -> str:
    path = _written(folder, "x.png", _picture(honest, random))
    channels, size = int(random.choice([1, 3])), (None, 8)[random.integers(2)]
    return outcome(lambda: read_image(path, channels, size), ImageError)[0]


def case_folder(honest: dict[str, Any], random: Random, folder: Path) -> str:
    for name in ("cat", "dog"):
        (folder / name).mkdir()
        _written(folder / name, "0.png", _picture(honest, random))
    return outcome(lambda: load_images(folder, 8, 3), ImageFolderError)[0]


def case_series(honest: dict[str, Any], random: Random, folder: Path) -> str:
    path = _written(folder, "x.csv", mutated(random, honest["csv"]))
    return outcome(lambda: read_series(path, "count"), SeriesError)[0]


def case_text(honest: dict[str, Any], random: Random, folder: Path) -> str:
    path = _written(folder, "x.txt", mutated(random, honest["text"]))
    return outcome(lambda: read_text(path), TextError)[0]


def case_packaged(honest: dict[str, Any], random: Random, folder: Path) -> str:
    packed = gzip.compress(b"1,2,3\n", mtime=0)
    sha256 = hashlib.sha256(packed).hexdigest()
    return outcome(lambda: unpacked(mutated(random, packed), sha256, "x", "install it again"), RuntimeError)[0]


CASES = cases_of(globals())


@pytest.mark.parametrize("name", CASES)
def test_a_lie_ends_in_the_documented_error(
    name: str, honest: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    number = 60 if name in ("trainer", "folder", "command", "predictor") else 150
    counts = run_cases(CASES, name, range(number), honest, tmp_path)
    assert counts["refused"], counts
    shown = capsys.readouterr()
    assert not set(shown.out + shown.err) & {"\x1b", "\x07", "\ud800"}


@pytest.mark.nightly
def test_fresh_cases(honest: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def say(text: str) -> None:
        capsys.readouterr()
        with capsys.disabled():
            print(text, flush=True)

    run_fresh_cases(CASES, 12_000, honest, tmp_path, say)


def test_an_honest_run_is_accepted(honest: dict[str, Any], tmp_path: Path) -> None:
    """The checks accept every state that the library writes."""
    _written(tmp_path, "checkpoint.npz", honest["trainer"])
    with use_kernels("textbook"), fork_rng():
        manual_seed(SMALL.seed)
        trainer = Trainer(small_task(), SMALL, tmp_path)
        trainer.load_checkpoint()
        assert trainer.steps == 6
    assert ImageRun(_written(tmp_path, "images.npz", honest["images.npz"])).classes == ("cat", "dog")
    assert len(TextRun(_written(tmp_path, "text.npz", honest["text.npz"])).write(5)) == 6
