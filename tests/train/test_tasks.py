"""The tasks of ``retrograd train`` and their image augmentation."""

import math
import subprocess
import sys

import numpy as np
import pytest

from data.drawn import draw_folder
from retrograd.engine.tensor import Tensor
from retrograd.ops.random.random import manual_seed
from retrograd.train import image_classification
from retrograd.train.image_classification import (
    ByteImages,
    ImageOptions,
    brightened,
    digits_task,
    flipped,
    held_out_share,
    images_task,
    mnist5k_task,
    shifted,
    warped,
)
from retrograd.train.networks import build_network
from train.small import small_task


def test_the_task(make_trainer):
    task = digits_task()
    images, labels = task.train.take(range(3))
    assert task.model(images).shape == (3, 10) and labels.shape == (3,)
    assert sum(parameter.numel() for parameter in task.model.parameters()) == 9978
    assert (len(task.train), len(task.held_out), len(task.classes)) == (1442, 355, 10)


def test_shifts_by_at_most_one_pixel():
    manual_seed(0)
    image = np.arange(1, 33, dtype=np.float32).reshape(2, 4, 4)
    batch = np.repeat(image[None], 200, axis=0)
    moved = shifted(batch)
    assert moved.shape == batch.shape and moved.dtype == batch.dtype and (batch == image).all()
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    allowed = [padded[:, down : down + 4, right : right + 4] for down in range(3) for right in range(3)]
    seen = {next(i for i, one in enumerate(allowed) if np.array_equal(one, result)) for result in moved}
    assert seen == set(range(9))
    manual_seed(0)
    assert np.array_equal(shifted(batch), moved)


def test_flips_about_half_of_the_images():
    manual_seed(0)
    image = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    result = flipped(np.repeat(image[None], 100, axis=0))
    turned = (result == image[..., ::-1]).all((1, 2, 3))
    assert 30 < turned.sum() < 70 and (result[~turned] == image).all()


def warped_by_definition(image: np.ndarray, turn, shear, tall, wide, down, right) -> np.ndarray:
    """One image (C, H, W), pixel by pixel."""
    channels, height, width = image.shape
    result = np.zeros(image.shape)
    for row in range(height):
        for column in range(width):
            y, x = row - (height - 1) / 2, column - (width - 1) / 2
            source_row = math.cos(turn) / tall * y + math.sin(turn) / tall * x + (height - 1) / 2 - down
            source_column = (math.tan(shear) - math.sin(turn) / wide) * y + math.cos(turn) / wide * x
            source_column += (width - 1) / 2 - right
            for r in (math.floor(source_row), math.floor(source_row) + 1):
                for c in (math.floor(source_column), math.floor(source_column) + 1):
                    if 0 <= r < height and 0 <= c < width:
                        weight = (1 - abs(source_row - r)) * (1 - abs(source_column - c))
                        result[:, row, column] += weight * image[:, r, c]
    return result


@pytest.mark.parametrize(("degrees", "scale", "shift"), [(0, 0, 0), (0, 0, 3.0), (30, 0, 0), (0, 0.4, 0), (15, 0.2, 2)])
def test_warps(degrees, scale, shift):
    images = np.random.default_rng(0).random((5, 2, 7, 6)).astype(np.float32)
    manual_seed(9)
    before = images.copy()
    result = warped(images, degrees, scale, shift)
    assert result.dtype == np.float32 and np.array_equal(images, before)
    generator = manual_seed(9)
    turn, shear = np.deg2rad(generator.uniform(-degrees, degrees, (2, 5)))
    tall, wide = generator.uniform(1 - scale, 1 + scale, (2, 5))
    down, right = generator.uniform(-shift, shift, (2, 5))
    for index in range(5):
        how = turn[index], shear[index], tall[index], wide[index], down[index], right[index]
        np.testing.assert_allclose(result[index], warped_by_definition(images[index], *how), atol=1e-4)
    if not (degrees or scale or shift):
        assert np.array_equal(result, images)


def test_mnist5k():
    task = mnist5k_task()
    images, labels = task.held_out.take(range(3))
    assert task.model(images).shape == (3, 10) and labels.shape == (3,)
    assert sum(parameter.numel() for parameter in task.model.parameters()) == 64058
    assert (len(task.train), len(task.held_out), len(task.classes)) == (4000, 1000, 10)


@pytest.mark.parametrize(("size", "side"), [(8, 4), (9, 4), (28, 7), (64, 4), (100, 6), (256, 4)])
def test_networks_for_images_of_any_size(size, side):
    manual_seed(0)
    model = build_network({"name": "images", "arguments": {"channels": 3, "size": size, "classes": 5}})
    assert model[-1].weight.shape[1] % (side * side) == 0
    if size <= 64:
        assert model(Tensor(np.zeros((2, 3, size, size), np.float32))).shape == (2, 5)


def test_descriptions_of_networks_are_checked():
    for wrong, message in (
        (None, "does not say how to build"),
        ({"name": "mnist"}, "does not say how"),
        ({"name": "vgg", "arguments": {}}, "there is no network 'vgg'; the networks are digits, mnist, images"),
        ({"name": "digits", "arguments": {"width": 3}}, "cannot be built from"),
        ({"name": "images", "arguments": {"channels": 2, "size": 9, "classes": 2}}, r"channels.* 2; it must be 1 or 3"),
        ({"name": "images", "arguments": {"channels": 3, "size": 9, "classes": 2**40}}, "classes.* from 2 to 10000"),
        ({"name": "images", "arguments": {"channels": 3, "size": True, "classes": 2}}, "size.* is True; it must be"),
    ):
        with pytest.raises(ValueError, match=message):
            build_network(wrong)


def test_a_share_of_each_class_is_held_out():
    labels = np.array([0] * 20 + [1] * 2 + [2] * 7)
    chosen = held_out_share(labels, 0.2, 0)
    assert [chosen[labels == label].sum() for label in range(3)] == [4, 1, 1]
    assert np.array_equal(chosen, held_out_share(labels, 0.2, 0))
    assert not np.array_equal(chosen, held_out_share(labels, 0.2, 1))
    assert [held_out_share(labels, 0.99, 0)[labels == label].sum() for label in range(3)] == [19, 1, 6]


def test_images_in_bytes():
    pixels = np.random.default_rng(0).integers(0, 256, (6, 3, 4, 4)).astype(np.uint8)
    data = ByteImages(pixels, np.arange(6))
    images, labels = data.take([4, 1])
    assert images.dtype == np.float32 and np.allclose(images.array, pixels[[4, 1]] / 255) and labels.tolist() == [4, 1]
    image, label = data[3]
    assert np.array_equal(image.array, pixels[3].astype(np.float32) / np.float32(255)) and label.item() == 3


@pytest.mark.parametrize(
    ("least", "regularize", "strong", "defaults"),
    [
        (13, None, True, True),
        (12, None, False, False),
        (13, "light", False, True),
        (12, "strong", True, False),
    ],
)
def test_measures_against_overfitting_depend_on_the_number_of_images(
    tmp_path, monkeypatch, least, regularize, strong, defaults
):
    monkeypatch.setattr(image_classification, "FEW_IMAGES", least)
    folder = draw_folder(tmp_path / "pictures")  # 12 to train on, 4 held out
    task, _ = images_task(folder, None, ImageOptions(size=16, regularize=regularize), 0)
    assert (task.weight_decay > 0) == ("training images" in task.measures()) == strong
    assert task.network["arguments"].get("grid", 0) == 2 * strong
    assert task.model[-1].in_features == 96 * (4 if strong else 16)
    assert task.defaults == ({"epochs": 60, "batch_size": 16} if defaults else {})


@pytest.mark.parametrize(
    ("training", "held_out", "said"),
    [
        (0.97, 0.48, "97% of the training images are right, 48% of those held out. Try more images than 20 or fewer "),
        (0.97, 0.9, ""),  # too little
        (0.8, 0.65, ""),  # more than 10 %, but within the error of 12 images
        (0.5, 0.9, ""),
    ],
)
def test_overfitting_is_said_when_it_shows(training, held_out, said):
    first, last = {"accuracy": 0.9, "held_out_accuracy": 0.1}, {"accuracy": training, "held_out_accuracy": held_out}
    found = small_task().overfit([first, last])
    assert found.startswith("The network overfits: ") == bool(said) and said in found


def test_advice_against_overfitting_fits_the_run(tmp_path):
    record = [{"accuracy": 1.0, "held_out_accuracy": 0.0}]
    folder = draw_folder(tmp_path / "pictures")
    light, strong = (images_task(folder, None, ImageOptions(regularize=kind), 0)[0] for kind in ("light", "strong"))
    assert light.overfit(record).endswith("Try more images than 12, --regularize strong or fewer --epochs")
    assert strong.overfit(record).endswith("Try more images than 12 or a --size below 64")


def test_brightness_and_contrast():
    manual_seed(0)
    images = np.random.default_rng(0).random((5, 3, 4, 4)).astype(np.float32)
    changed = brightened(images, 0.3)
    assert changed.dtype == np.float32 and np.abs(changed.mean((2, 3)) - images.mean((2, 3))).max() <= 0.15
    ratio = changed.std((2, 3)) / images.std((2, 3))
    assert ratio.min() >= 0.7 - 1e-6 and ratio.max() <= 1.3 + 1e-6 and np.ptp(ratio, axis=0).min() > 0.1
    np.testing.assert_allclose(np.ptp(ratio, axis=1), 0, atol=1e-5)  # one contrast for all channels
    np.testing.assert_allclose(brightened(images, 0.0), images, atol=1e-6)


@pytest.mark.parametrize(
    "name",
    [
        "digits",
        "text",
        "series",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("mnist5k", "images", "small images")),
    ],
)
def test_knows_the_kernels_that_training_runs(tmp_path, name):
    code = """
import sys
from pathlib import Path
from retrograd.kernels.compiled.machine.launch import registered
from retrograd.train import Settings, Trainer
from retrograd.train.forecasting import SeriesOptions, series_task
from retrograd.train.image_classification import ImageOptions, digits_task, images_task, mnist5k_task
from retrograd.train.language_modeling import text_task
from retrograd.train.report import write_report
folder, name = Path(sys.argv[1]), sys.argv[2]
make = {
    "digits": digits_task,
    "mnist5k": mnist5k_task,
    "images": lambda: images_task(folder / "pictures", None, ImageOptions(), 0)[0],
    "small images": lambda: images_task(folder / "pictures", None, ImageOptions(size=16), 0)[0],
    "text": lambda: text_task(folder / "text.txt", 8, hidden=32),
    "series": lambda: series_task(folder / "series.csv", SeriesOptions("x", 8, 5)),
}
task = make[name]()
if name == "mnist5k":
    task.train.tensors = tuple(type(tensor)(tensor.array[:99]) for tensor in task.train.tensors)
    task.held_out.tensors = tuple(type(tensor)(tensor.array[:99]) for tensor in task.held_out.tensors)
trainer = Trainer(task, Settings(epochs=1, batch_size={"images": 16, "text": 8, "series": 8}.get(name, 64)), folder)
trainer.run()
assert set(task.kernels) <= {kernel.path for kernel in registered()}
print(*({kernel.path for kernel in registered() if "f" in kernel} - set(task.kernels)))
write_report(trainer)
floats, doubles = ({kernel.path for kernel in registered() if dtype in kernel} for dtype in "fd")
print(*(floats - set(task.kernels) - set(task.report_kernels[0])), *(doubles - set(task.report_kernels[1])))
"""
    draw_folder(tmp_path / "pictures")
    (tmp_path / "text.txt").write_text("to be or not to be " * 600)
    (tmp_path / "series.csv").write_text("x\n" + "".join(f"{index % 8}\n" for index in range(100)))
    run = [sys.executable, "-c", code, str(tmp_path), name]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split() == [], f"these are compiled one by one; name them in train/ for {name}"
