"""Image transforms against loops over pixels; nothing is changed in place, and seeds repeat."""

from __future__ import annotations

import math

import numpy as np
import pytest

from retrograd.data import transforms as T  # noqa: N812
from retrograd.engine.tensor import Tensor
from retrograd.ops.random.random import manual_seed

BYTES = np.random.default_rng(0).integers(0, 256, (7, 5, 3)).astype(np.uint8)
GRAY = BYTES[..., 0]
FLOATS = np.random.default_rng(1).random((3, 7, 5)).astype(np.float32)
ALL = (BYTES, GRAY, FLOATS, FLOATS[0], FLOATS.astype(np.float64), Tensor(FLOATS), FLOATS[:, ::-1])

RANDOM = [
    lambda: T.RandomCrop(4, padding=2),
    lambda: T.RandomResizedCrop(4),
    lambda: T.RandomHorizontalFlip(),
    lambda: T.RandomVerticalFlip(),
    lambda: T.RandomRotation(30, "bilinear"),
    lambda: T.RandomErasing(1.0, (0.1, 0.3), value="random"),
]
FIXED = [
    lambda: T.Pad(2),
    lambda: T.CenterCrop((4, 9)),
    lambda: T.Resize(4),
    lambda: T.Compose([T.CenterCrop(3), T.Pad((1, 2))]),
]


def array(image):
    return image.array if isinstance(image, Tensor) else image


def pixels(image) -> np.ndarray:
    """The pixels of an image of any kind, (H, W, C)."""
    found = array(image)
    if found.ndim == 2:
        return found[..., None]
    return found if found.dtype == np.uint8 else np.moveaxis(found, 0, -1)


@pytest.mark.parametrize("make", [*RANDOM, *FIXED])
def test_kinds_are_kept_and_inputs_unchanged(make):
    for image in ALL:
        before = array(image).copy()
        result = make()(image)
        assert type(result) is type(image) and array(result).dtype == before.dtype
        assert array(result).ndim == before.ndim and np.array_equal(array(image), before)
        assert not np.shares_memory(array(result), array(image))
        array(result)[...] = 0


@pytest.mark.parametrize("make", RANDOM)
def test_a_seed_repeats_what_is_drawn(make):
    runs = []
    for seed in (3, 3, 4):
        manual_seed(seed)
        transform = make()
        runs.append(b"".join(transform(BYTES).tobytes() for _ in range(12)))
    assert runs[0] == runs[1] != runs[2]


def test_all_channels_and_kinds_go_the_same_way():
    """The gray, color and float versions of an image are transformed alike."""
    color = np.repeat(GRAY[..., None], 3, 2)
    floats = np.moveaxis(color, -1, 0).astype(np.float32)
    for make in (RANDOM[0], RANDOM[2], RANDOM[3], lambda: T.RandomRotation(30), lambda: T.RandomErasing(1.0), *FIXED):
        if make is FIXED[2]:
            continue  # bytes are rounded
        results = []
        for image in (GRAY, color, floats):
            manual_seed(5)
            results.append(pixels(make()(image)).astype(np.float64))
        assert np.array_equal(np.repeat(results[0], 3, 2), results[1]) and np.array_equal(results[1], results[2])


def test_to_tensor():
    result = T.ToTensor()(BYTES)
    assert isinstance(result, Tensor) and result.dtype == np.float32 and result.shape == (3, 7, 5)
    for row in range(7):
        for column in range(5):
            for channel in range(3):
                assert result.array[channel, row, column] == np.float32(BYTES[row, column, channel] / np.float32(255))
    assert T.ToTensor()(GRAY).shape == (1, 7, 5)
    assert np.array_equal(T.ToTensor()(np.moveaxis(FLOATS, 0, -1)).array, FLOATS)
    for wrong in (BYTES.astype(np.int64), FLOATS[None], "x", Tensor(FLOATS)):
        with pytest.raises(TypeError, match="ToTensor: expected a Pillow image, or an array"):
            T.ToTensor()(wrong)


def test_normalize():
    mean, std = (0.1, 0.2, 0.3), (0.5, 2.0, 1.0)
    result = T.Normalize(mean, std)(Tensor(FLOATS))
    for channel in range(3):
        expected = (FLOATS[channel].astype(np.float64) - mean[channel]) / std[channel]
        np.testing.assert_allclose(result.array[channel], expected, rtol=1e-5, atol=1e-6)
    assert T.Normalize([0.5], [0.5])(FLOATS[:1]).shape == (1, 7, 5)
    with pytest.raises(TypeError, match=r"apply ToTensor\(\) first"):
        T.Normalize(mean, std)(BYTES)
    with pytest.raises(ValueError, match="the image has 3 channels, mean and std are for 1"):
        T.Normalize([0.5], [0.5])(FLOATS)
    for wrong in (([0.5], [0.5, 0.5]), ([0.5], [0.0])):
        with pytest.raises(ValueError, match="one number per channel"):
            T.Normalize(*wrong)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_pad(mode):
    result = T.Pad((1, 2, 3, 4), fill=9, padding_mode=mode)(BYTES)
    assert result.shape == (7 + 2 + 4, 5 + 1 + 3, 3)

    def place(index: int, size: int) -> int | None:
        if 0 <= index < size or mode == "constant":
            return index if 0 <= index < size else None
        if mode == "edge":
            return min(max(index, 0), size - 1)
        if mode == "reflect":
            return -index if index < 0 else 2 * size - 2 - index
        return -index - 1 if index < 0 else 2 * size - 1 - index

    for row in range(13):
        for column in range(9):
            y, x = place(row - 2, 7), place(column - 1, 5)
            expected = [9, 9, 9] if y is None or x is None else BYTES[y, x].tolist()
            assert result[row, column].tolist() == expected
    assert T.Pad((1, 2))(GRAY).shape == (11, 7)
    for padding in (-1, (1, 2, 3), 1.5 * np.ones(2)):
        with pytest.raises(ValueError, match="must be one, two or four ints"):
            T.Pad(padding)
    with pytest.raises(ValueError, match="padding_mode='wrap' must be one of"):
        T.Pad(1, padding_mode="wrap")


def test_center_crop():
    assert np.array_equal(T.CenterCrop((3, 3))(BYTES), BYTES[2:5, 1:4])
    padded = T.CenterCrop((9, 3))(BYTES)
    assert np.array_equal(padded[1:8], BYTES[:, 1:4]) and not padded[[0, 8]].any()
    with pytest.raises(ValueError, match="CenterCrop: size=0 must be a positive int"):
        T.CenterCrop(0)


def test_random_crop_visits_every_place():
    manual_seed(0)
    places = [(top, left) for top in range(4) for left in range(3)]
    seen = set()
    for _ in range(200):
        result = T.RandomCrop((4, 3))(BYTES)
        seen.add(next(p for p in places if np.array_equal(result, BYTES[p[0] : p[0] + 4, p[1] : p[1] + 3])))
    assert seen == set(places)
    with pytest.raises(ValueError, match="is larger than the image, 7 x 5 with its padding; set pad_if_needed=True"):
        T.RandomCrop((4, 6))(BYTES)
    assert T.RandomCrop((4, 16), pad_if_needed=True)(BYTES).shape == (4, 16, 3)
    assert T.RandomCrop((11, 9), padding=2, fill=7)(FLOATS)[0, 0, 0] == 7


def test_flips():
    assert np.array_equal(T.RandomHorizontalFlip(1.0)(FLOATS), FLOATS[:, :, ::-1])
    assert np.array_equal(T.RandomVerticalFlip(1.0)(FLOATS), FLOATS[:, ::-1])
    assert np.array_equal(T.RandomHorizontalFlip(0.0)(BYTES), BYTES)
    manual_seed(0)
    flips = sum(not np.array_equal(T.RandomHorizontalFlip(0.3)(GRAY), GRAY) for _ in range(400))
    assert 80 < flips < 160
    for kind in (T.RandomHorizontalFlip, T.RandomVerticalFlip, T.RandomErasing):
        with pytest.raises(ValueError, match="p=1.5 must be from 0 to 1"):
            kind(1.5)


def bilinear(values: np.ndarray, size: int) -> np.ndarray:
    """Bilinear resizing of one axis: a triangle filter as wide as the larger of an input and an output pixel."""
    scale = len(values) / size
    width = max(scale, 1.0)
    found = []
    for index in range(size):
        middle = (index + 0.5) * scale
        weights = [max(0.0, 1 - abs((place + 0.5 - middle) / width)) for place in range(len(values))]
        found.append(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))
    return np.array(found)


@pytest.mark.parametrize("size", [(3, 4), (14, 9), (1, 1), (7, 5)])
def test_resize_bilinear(size):
    result = T.Resize(size)(FLOATS)
    assert result.shape == (3, *size)
    for channel in range(3):
        rows = np.stack([bilinear(column, size[0]) for column in FLOATS[channel].T], 1)
        expected = np.stack([bilinear(row, size[1]) for row in rows])
        np.testing.assert_allclose(result[channel], expected, atol=1e-5)


def test_resize_by_the_shorter_side():
    assert T.Resize(10)(BYTES).shape == (14, 10, 3) and T.Resize(10)(BYTES.swapaxes(0, 1)).shape == (10, 14, 3)
    assert T.Resize(3, T.InterpolationMode.NEAREST)(GRAY).shape == (4, 3)
    nearest = T.Resize((14, 10), "nearest")(GRAY)
    assert np.array_equal(nearest, GRAY.repeat(2, 0).repeat(2, 1))
    with pytest.raises(ValueError, match="Resize: interpolation='soft' is unknown; choose one of nearest"):
        T.Resize(3, "soft")
    with pytest.raises(ValueError, match="size=\\(1, 2, 3\\) must be"):
        T.Resize((1, 2, 3))


def test_random_resized_crop_stays_inside_and_in_range():
    manual_seed(0)
    ramp = np.stack([np.broadcast_to(np.arange(60)[:, None], (60, 80)), np.broadcast_to(np.arange(80), (60, 80))])
    ramp = ramp.astype(np.float32)
    shares, ratios = [], []
    for _ in range(200):
        result = T.RandomResizedCrop(20, scale=(0.2, 0.6), ratio=(0.5, 2.0))(ramp)
        assert result.shape == (2, 20, 20)
        # on a ramp the slope says how large the part was
        height, width = (np.diff(result[axis], axis=axis)[5:-5, 5:-5].mean() * 20 for axis in (0, 1))
        shares.append(height * width / 4800)
        ratios.append(width / height)
    assert 0.17 < min(shares) < 0.3 and 0.5 < max(shares) < 0.65
    assert 0.45 < min(ratios) < 0.7 and 1.4 < max(ratios) < 2.2
    assert T.RandomResizedCrop(4, scale=(1.0, 1.0), ratio=(1.0, 1.0))(BYTES).shape == (4, 4, 3)  # none fits: the middle
    for option in ("scale", "ratio"):
        for wrong in ((0.5, 0.2), (0, 1)):
            with pytest.raises(ValueError, match=f"{option}=.* must be .least, greatest."):
                T.RandomResizedCrop(4, **{option: wrong})


def test_rotation():
    square = GRAY[:5, :5]
    assert np.array_equal(T.RandomRotation((90, 90))(square), np.rot90(square))
    assert np.array_equal(T.RandomRotation((180, 180))(BYTES), BYTES[::-1, ::-1])
    assert T.RandomRotation((90, 90), expand=True)(BYTES).shape == (5, 7, 3)
    assert T.RandomRotation((45, 45), fill=77)(square)[0, 0] == 77
    manual_seed(0)
    ramp = np.broadcast_to(np.arange(-20.0, 21.0), (41, 41)).copy()
    angles = []
    for _ in range(100):
        turned = T.RandomRotation(20, "bilinear")(ramp)[15:26, 15:26]
        angles.append(math.degrees(math.atan2(np.diff(turned, axis=0).mean(), np.diff(turned, axis=1).mean())))
    assert -20.5 < min(angles) < -15 and 15 < max(angles) < 20.5
    for wrong in (-3, (5, 2), (0, math.inf)):
        with pytest.raises(ValueError, match="degrees="):
            T.RandomRotation(wrong)
    with pytest.raises(ValueError, match="interpolation='lanczos' is for resizing"):
        T.RandomRotation(3, "lanczos")


def test_erasing():
    manual_seed(0)
    image = np.ones((2, 20, 30))
    for _ in range(50):
        result = T.RandomErasing(1.0, scale=(0.1, 0.2), ratio=(0.5, 2.0), value=[3.0, 4.0])(image)
        hole = result[0] == 3
        rows, columns = np.flatnonzero(hole.any(1)), np.flatnonzero(hole.any(0))
        assert hole.sum() == len(rows) * len(columns) == (result[1] == 4).sum()  # one rectangle
        assert 0.08 * 600 < hole.sum() < 0.22 * 600 and 0.4 < len(rows) / len(columns) < 2.4
        assert (result[:, ~hole] == 1).all()
    noise = T.RandomErasing(1.0, value="random")(np.ones((1, 50, 50)))
    assert len(np.unique(noise)) > 20
    assert np.array_equal(T.RandomErasing(0.0)(image), image)
    with pytest.raises(ValueError, match="value='mean' must be a number"):
        T.RandomErasing(value="mean")


def test_what_is_no_image():
    for wrong in ("x", np.zeros((2, 3, 4, 5)), np.zeros((3, 4), np.int64), np.zeros((0, 4), np.uint8), 3):
        with pytest.raises(TypeError, match="Pad: expected"):
            T.Pad(1)(wrong)


def test_reprs_show_the_options():
    assert repr(T.Compose([T.Pad(2), T.ToTensor()])) == (
        "Compose(Pad(padding=2, fill=0, padding_mode='constant'), ToTensor())"
    )
    assert repr(T.MixUp(alpha=0.2, num_classes=3)) == "MixUp(alpha=0.2, num_classes=3)"


# ---- batches -------------------------------------------------------------------------------------------------------


def test_mixup():
    manual_seed(0)
    images, labels = np.random.default_rng(0).random((6, 2, 4, 4)).astype(np.float32), np.array([0, 2, 1, 1, 0, 2])
    shares = []
    for _ in range(50):
        x, y = T.MixUp(alpha=1.0, num_classes=3)(Tensor(images), Tensor(labels))
        share = float(y.array[0, 0])  # 0 is mixed with 2, the last one
        for index in range(6):
            expected = share * images[index] + (1 - share) * images[index - 1]
            np.testing.assert_allclose(x.array[index], expected, rtol=1e-5, atol=1e-6)
            classes = np.zeros(3)
            classes[labels[index]] += share
            classes[labels[index - 1]] += 1 - share
            np.testing.assert_allclose(y.array[index], classes, rtol=1e-5, atol=1e-6)
        shares.append(share)
    assert min(shares) < 0.15 and max(shares) > 0.85 and x.dtype == y.dtype == np.float32
    soft = np.random.default_rng(1).dirichlet(np.ones(3), 6)
    x, y = T.MixUp(alpha=0.5)(images, soft)
    assert isinstance(y, np.ndarray) and np.allclose(y.sum(1), 1)


def test_cutmix():
    manual_seed(0)
    images = np.broadcast_to(np.arange(6.0)[:, None, None, None], (6, 1, 20, 30)).copy()
    labels = np.arange(6)
    for _ in range(50):
        x, y = T.CutMix(num_classes=6)(images, labels)
        for index in range(6):
            from_other = x[index, 0] == (index - 1) % 6
            assert (x[index, 0][~from_other] == index).all()
            share = from_other.mean()
            assert y[index, (index - 1) % 6] == pytest.approx(share) and y[index, index] == pytest.approx(1 - share)
            assert from_other.sum() == from_other.any(1).sum() * from_other.any(0).sum()


def test_mixing_is_checked():
    images, labels = np.ones((2, 1, 3, 3)), np.array([0, 5])
    for kind in (T.MixUp, T.CutMix):
        with pytest.raises(ValueError, match="labels must be classes from 0 to num_classes - 1; num_classes=3"):
            kind(num_classes=3)(images, labels)
        with pytest.raises(ValueError, match="num_classes=None"):
            kind()(images, labels)
        with pytest.raises(ValueError, match="expected images"):
            kind(num_classes=9)(images, labels[:1])
        with pytest.raises(ValueError, match="alpha=0 must be greater than 0"):
            kind(alpha=0)
        with pytest.raises(ValueError, match="num_classes=0"):
            kind(num_classes=0)
