"""Padding, cropping and resampling of images, the latter by Pillow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from ..ops.random.random import default_generator
from .pillow import pillow


class InterpolationMode(Enum):
    """The interpolation of a resampling; transforms also accept the value, such as "bilinear"."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


def padded(
    image: np.ndarray, rows: tuple[int, int], columns: tuple[int, int], fill: float = 0, mode: str = "constant"
) -> np.ndarray:
    """The image with rows and columns added before and after."""
    pad: Any = np.pad
    options = {"constant_values": fill} if mode == "constant" else {}
    return pad(image, (rows, columns, (0, 0))[: image.ndim], mode, **options)


def random_part(
    size: Sequence[int], scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[int, int, int, int] | None:
    """(top, left, height, width) of a random crop; its aspect ratio, width / height, is drawn on a logarithmic scale.
    None if ten attempts did not fit."""
    height, width = size
    for _ in range(10):
        area = height * width * default_generator.uniform(*scale)
        aspect = math.exp(default_generator.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            top = int(default_generator.integers(0, height - h + 1))
            return top, int(default_generator.integers(0, width - w + 1)), h, w
    return None


def interpolation_of(name: str, mode: Any) -> InterpolationMode:
    """The mode, or the one with this name.

    Raises:
        ValueError: there is none.
    """
    try:
        return InterpolationMode(mode)
    except ValueError:
        known = ", ".join(each.value for each in InterpolationMode)
        raise ValueError(f"{name}: interpolation={mode!r} is unknown; choose one of {known}") from None


def resampling(mode: InterpolationMode) -> Any:
    """Pillow's constant for the mode."""
    return getattr(pillow("resizing and rotating").Image.Resampling, mode.name)


def resized(image: np.ndarray, size: tuple[int, int], mode: InterpolationMode) -> np.ndarray:
    """A uint8 or float image (H, W, C) or (H, W), resized."""
    height, width = (max(1, side) for side in size)
    method = resampling(mode)
    if image.shape[:2] == (height, width):
        return image
    return by_plane(image, lambda plane: plane.resize((width, height), method))


def by_plane(image: np.ndarray, change: Callable[[Any], Any]) -> np.ndarray:
    """Apply a Pillow operation to every channel."""
    new = pillow("resizing and rotating").Image.fromarray
    stored = np.uint8 if image.dtype == np.uint8 else np.float32
    planes = image.reshape(*image.shape[:2], -1)
    stored_planes = (np.ascontiguousarray(planes[..., channel], stored) for channel in range(planes.shape[2]))
    changed = [np.asarray(change(new(plane))) for plane in stored_planes]
    result = np.stack(changed, -1).astype(image.dtype, copy=False)
    return result if image.ndim == 3 else result[..., 0]
