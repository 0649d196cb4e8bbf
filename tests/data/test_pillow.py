"""Transforms of Pillow images, including random and color transforms."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest
from PIL import Image

import retrograd as rg
from retrograd.data import DataLoader, Dataset, transforms

RGB = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)


@pytest.mark.parametrize("array", [RGB, RGB[..., 0]], ids=["RGB", "L"])
@pytest.mark.parametrize(
    "transform",
    [
        transforms.Resize((5, 4)),
        transforms.CenterCrop(5),
        transforms.Pad(2, fill=3),
        transforms.RandomHorizontalFlip(1.0),
        transforms.Grayscale(3),
        transforms.RandomGrayscale(1.0),
    ],
    ids=repr,
)
def test_a_pillow_image_is_transformed_as_its_array(transform: Any, array: np.ndarray) -> None:
    image = Image.fromarray(array)
    result = transform(image)
    assert isinstance(result, Image.Image)
    np.testing.assert_array_equal(np.asarray(result), transform(array))
    np.testing.assert_array_equal(np.asarray(image), array)


def test_kinds() -> None:
    image = Image.fromarray(RGB)
    x = transforms.ToTensor()(image)
    np.testing.assert_allclose(x.array, np.moveaxis(RGB, -1, 0) / 255, rtol=1e-6)
    assert x.dtype == rg.float32
    exact = transforms.PILToTensor()(image)
    assert exact.dtype == np.uint8 and exact.shape == (3, 9, 7)
    for kind in (x, exact, RGB, x.array):
        np.testing.assert_array_equal(np.asarray(transforms.ToPILImage()(kind)), RGB)
    assert transforms.ToPILImage("L")(x).mode == "L"
    assert transforms.ToTensor()(image.convert("1")).shape == (1, 9, 7)
    assert transforms.ToTensor()(image.convert("P")).shape == transforms.ToTensor()(image.convert("CMYK")).shape
    with pytest.raises(TypeError, match="ToTensor: expected a Pillow image, or an array .* got str"):
        transforms.ToTensor()("image.png")
    with pytest.raises(TypeError, match="PILToTensor: expected uint8"):
        transforms.PILToTensor()(np.ones((2, 2)))


class Pictures(Dataset):
    """A dataset of Pillow images, as in many scripts."""

    def __init__(self, transform: Any = None) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        image = Image.fromarray(np.full((8, 8, 3), index, np.uint8))
        return (image if self.transform is None else self.transform(image)), index


def test_a_dataset_of_pillow_images() -> None:
    transform = transforms.Compose(
        [
            transforms.Resize(6),
            transforms.RandomCrop(4, padding=1, padding_mode="edge"),
            transforms.ToTensor(),
            transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
            transforms.Lambda(lambda x: x + 1),
        ]
    )
    x, y = next(iter(DataLoader(Pictures(transform), batch_size=6)))
    np.testing.assert_allclose(x.array[:, 0, 0, 0], np.arange(6) / 255 * 2, rtol=1e-4, atol=1e-6)
    assert x.shape == (6, 3, 4, 4) and y.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(TypeError, match=r"cannot stack Pillow images; give the dataset a transform .*ToTensor"):
        next(iter(DataLoader(Pictures())))


def test_gray() -> None:
    expected = np.rint(RGB @ [0.299, 0.587, 0.114]).astype(np.uint8)
    np.testing.assert_array_equal(transforms.Grayscale()(RGB), expected)
    assert transforms.Grayscale()(Image.fromarray(RGB)).mode == "L"
    x = rg.tensor(np.moveaxis(RGB, -1, 0) / np.float32(255))
    assert transforms.Grayscale()(x).shape == (1, 9, 7) and transforms.Grayscale(3)(x).shape == (3, 9, 7)
    with pytest.raises(ValueError, match="num_output_channels=2 must be 1 or 3"):
        transforms.Grayscale(2)
    with pytest.raises(ValueError, match="has 2 channels, expected 1 or 3"):
        transforms.Grayscale()(RGB[..., :2])


def test_colors_change_by_the_factors() -> None:
    x = RGB / 255
    bright = transforms.ColorJitter(brightness=(0.5, 0.5))(x.transpose(2, 0, 1))
    np.testing.assert_allclose(bright, x.transpose(2, 0, 1) * 0.5, atol=1e-12)
    gray = (x @ [0.299, 0.587, 0.114])[..., None]
    flat = transforms.ColorJitter(contrast=(0.0, 0.0))(x.transpose(2, 0, 1))
    np.testing.assert_allclose(flat, np.full_like(flat, gray.mean()), atol=1e-12)
    pale = transforms.ColorJitter(saturation=(0.0, 0.0))(x.transpose(2, 0, 1))
    np.testing.assert_allclose(pale.transpose(1, 2, 0), np.broadcast_to(gray, x.shape), atol=1e-12)
    turned = transforms.ColorJitter(hue=(0.3, 0.3))(x.transpose(2, 0, 1)).transpose(1, 2, 0)
    for pixel, result in zip(x.reshape(-1, 3), turned.reshape(-1, 3), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        np.testing.assert_allclose(result, colorsys.hsv_to_rgb((hue + 0.3) % 1, saturation, value), atol=1e-9)
    some = {transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)(RGB).tobytes() for _ in range(5)}
    assert len(some) == 5
    np.testing.assert_array_equal(transforms.ColorJitter()(RGB), RGB)
    for option in ({"brightness": -1}, {"hue": 0.7}, {"contrast": (2, 1)}):
        with pytest.raises(ValueError, match=f"ColorJitter: {next(iter(option))}="):
            transforms.ColorJitter(**option)


def test_some_transforms_at_random() -> None:
    flip, gray = transforms.RandomHorizontalFlip(1.0), transforms.Grayscale(3)
    both = {transforms.RandomApply([flip, gray])(RGB).tobytes() for _ in range(20)}
    assert both == {RGB.tobytes(), gray(flip(RGB)).tobytes()}
    one = {transforms.RandomChoice([flip, gray])(RGB).tobytes() for _ in range(30)}
    assert one == {flip(RGB).tobytes(), gray(RGB).tobytes()}
    assert transforms.RandomChoice([flip, gray], [0, 1])(RGB).tobytes() == gray(RGB).tobytes()
    with pytest.raises(ValueError, match="must contain a number of at least 0 for each transform"):
        transforms.RandomChoice([flip], [1, 2])
    with pytest.raises(TypeError, match="lambd is int, needs a function"):
        transforms.Lambda(3)
