"""Drawings of cats and dogs in class folders, to try training on images without a download."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from .._files.atomic import make_folder, writing
from .image_transform import pillow

__all__ = ["CLASSES", "draw_photos", "drawing"]

CLASSES = ("cat", "dog")
_SIDE = 64  # pixels of a picture
_FINE = 4  # drawn this many times larger, then reduced
_FUR = ((235, 160, 80), (90, 85, 85), (200, 190, 175), (120, 80, 50), (240, 235, 225), (60, 55, 60), (170, 120, 70))
_EYES = ((90, 160, 70), (200, 160, 40), (70, 120, 180), (80, 50, 30))


def draw_photos(folder: Path, count: int, seed: int) -> int:
    """Write ``count`` drawings of each class to folder/CLASS/000.png, 001.png, ...; return the bytes written.

    Raises:
        ImportError: Pillow is not installed.
        FileExistsError: the folder is not empty, or is a file.
        OSError: a file could not be written. Then, or if the call is interrupted, no drawing is left.
    """
    pillow("drawing images")
    new = not folder.exists()
    with writing(folder / CLASSES[0]):
        empty = new or folder.is_dir() and not any(folder.iterdir())
    if not empty:
        what = "not empty" if folder.is_dir() else "not a folder"
        raise FileExistsError(f"{folder} is {what}; choose another folder, or remove it")
    home = folder.parent if new else folder  # which may be a mount point or the current folder, so it is not replaced
    unfinished = home / f".retrograd-{os.urandom(8).hex()}.tmp"
    try:
        with writing(folder / CLASSES[0]):
            make_folder(home)
            size = _write(unfinished, count, seed)
            for name in () if new else CLASSES:
                os.rename(unfinished / name, folder / name)
            if new:
                os.rename(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return size


def _write(folder: Path, count: int, seed: int) -> int:
    """Write the drawings to a new folder and return the bytes written."""
    size = 0
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            buffer = io.BytesIO()
            drawing(name, np.random.default_rng((seed, label, number))).save(buffer, format="PNG")
            size += (folder / name / f"{number:03d}.png").write_bytes(buffer.getvalue())
    return size


def drawing(name: str, random: np.random.Generator) -> Any:
    """Draw the head of a cat or a dog as a Pillow image of 64 x 64 pixels.

    Fur, eyes, background, place, size and tilt are drawn from the same distributions for both; they differ in ears,
    pupils, muzzle, whiskers and tongue.
    """
    package = pillow("drawing images")
    side = _SIDE * _FINE
    fur, other = (np.array(_FUR[index]) for index in random.choice(len(_FUR), 2, replace=False))
    colors = {
        "fur": _near(fur, random),
        "inner": _near(0.5 * fur + 0.5 * np.array((230, 150, 150)), random),
        "light": _near(0.4 * fur + 0.6 * np.array((250, 245, 240)), random),
        "patch": _near(other, random),
        "eye": _near(np.array(_EYES[random.integers(len(_EYES))]), random),
    }
    head = package.Image.new("RGBA", (side, side))
    ink = package.ImageDraw.Draw(head)
    wide, tall = random.uniform(0.2, 0.26), random.uniform(0.19, 0.24)
    (_draw_cat if name == "cat" else _draw_dog)(_Pen(ink, side), colors, wide, tall, random)
    scale = random.uniform(0.65, 1.15)
    turn = np.deg2rad(random.uniform(-25, 25))
    x, y = random.uniform(-0.14, 0.14, 2) * side
    cos, sin, middle = np.cos(turn) / scale, np.sin(turn) / scale, side / 2
    across = (cos, sin, middle - cos * (middle + x) - sin * (middle + y))
    down = (-sin, cos, middle + sin * (middle + x) - cos * (middle + y))
    head = head.transform((side, side), package.Image.Transform.AFFINE, (*across, *down))
    picture = _background(package, side, random)
    picture.paste(head, (0, 0), head)
    small = np.asarray(picture.resize((_SIDE, _SIDE), package.Image.Resampling.BOX), np.float64)
    lit = small * random.uniform(0.6, 1.15) + random.normal(0, random.uniform(3, 14), small.shape)
    return package.Image.fromarray(lit.clip(0, 255).astype(np.uint8))


class _Pen:
    """Draws shapes in coordinates from 0 to 1."""

    def __init__(self, ink: Any, side: int) -> None:
        self._ink, self._side = ink, side

    def disc(self, x: float, y: float, wide: float, tall: float, color: Any) -> None:
        corners = (x - wide, y - tall, x + wide, y + tall)
        self._ink.ellipse([self._side * value for value in corners], fill=color)

    def shape(self, points: Any, color: Any) -> None:
        self._ink.polygon([(self._side * x, self._side * y) for x, y in points], fill=color)

    def line(self, points: Any, color: Any, width: float) -> None:
        self._ink.line([(self._side * x, self._side * y) for x, y in points], color, max(1, round(self._side * width)))


def _draw_cat(pen: _Pen, colors: dict[str, Any], wide: float, tall: float, random: np.random.Generator) -> None:
    x, y = 0.5, 0.54
    height = random.uniform(0.16, 0.24)
    for sign in (-1, 1):  # pointed ears
        tip = (x + sign * wide * random.uniform(0.75, 1.0), y - tall - height * 0.75)
        ear = ((x + sign * wide * 0.98, y - tall * 0.25), tip, (x + sign * wide * 0.2, y - tall * 0.85))
        pen.shape(ear, colors["fur"])
        center = np.mean(ear, axis=0)
        pen.shape([center + 0.55 * (np.array(point) - center) for point in ear], colors["inner"])
    pen.disc(x, y, wide, tall, colors["fur"])
    if random.random() < 0.4:
        pen.disc(x, y - tall * 0.55, wide * 0.3, tall * 0.4, colors["patch"])
    for sign in (-1, 1):
        at = x + sign * wide * 0.42, y - tall * 0.1
        pen.disc(*at, wide * 0.2, tall * 0.2, colors["eye"])
        pen.disc(*at, wide * 0.06, tall * 0.18, (15, 15, 15))  # slit pupils
        pen.disc(x + sign * wide * 0.17, y + tall * 0.48, wide * 0.2, tall * 0.18, colors["light"])
    pen.shape([(x - 0.028, y + tall * 0.25), (x + 0.028, y + tall * 0.25), (x, y + tall * 0.42)], (215, 120, 130))
    for sign in (-1, 1):
        for slope in (-0.05, 0.0, 0.05):
            end = (x + sign * wide * 1.35, y + tall * 0.45 + slope)
            pen.line([(x + sign * wide * 0.3, y + tall * 0.48), end], (245, 245, 245), 0.006)


def _draw_dog(pen: _Pen, colors: dict[str, Any], wide: float, tall: float, random: np.random.Generator) -> None:
    x, y = 0.5, 0.48
    pen.disc(x, y, wide, tall, colors["fur"])
    if random.random() < 0.4:
        pen.disc(x + wide * 0.4, y - tall * 0.15, wide * 0.34, tall * 0.42, colors["patch"])
    long = random.uniform(0.14, 0.2)
    for sign in (-1, 1):  # hanging ears
        pen.disc(
            x + sign * wide * 0.98, y + long * 0.35, 0.07, long, colors["patch" if random.random() < 0.3 else "fur"]
        )
        pen.disc(x + sign * wide * 0.98, y + long * 0.45, 0.045, long * 0.75, colors["inner"])
        pen.disc(x + sign * wide * 0.4, y - tall * 0.15, wide * 0.16, tall * 0.17, colors["eye"])
        pen.disc(x + sign * wide * 0.4, y - tall * 0.15, wide * 0.1, tall * 0.11, (15, 15, 15))  # round pupils
    if random.random() < 0.5:
        pen.disc(x, y + tall * 1.2, 0.035, 0.07, (225, 100, 115))  # tongue
    pen.disc(x, y + tall * 0.62, wide * 0.52, tall * 0.5, colors["light"])
    pen.disc(x, y + tall * 0.35, wide * 0.24, tall * 0.17, (25, 20, 20))
    pen.line([(x, y + tall * 0.5), (x, y + tall * 0.85)], (25, 20, 20), 0.01)


def _near(color: np.ndarray, random: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(value) for value in (color + random.normal(0, 14, 3)).clip(0, 255))


def _background(package: Any, side: int, random: np.random.Generator) -> Any:
    """Draw a gradient between two colors, with discs in front of it."""
    first, second = random.uniform(40, 230, (2, 3))
    share = np.linspace(0, 1, side)[:, None, None]
    plane = np.broadcast_to(first + share * (second - first), (side, side, 3))
    picture = package.Image.fromarray(plane.astype(np.uint8))
    pen = _Pen(package.ImageDraw.Draw(picture), side)
    for _ in range(random.integers(2, 7)):
        x, y = random.random(2)
        radius = random.uniform(0.04, 0.25)
        pen.disc(x, y, radius, radius, tuple(int(value) for value in random.uniform(40, 230, 3)))
    return picture
