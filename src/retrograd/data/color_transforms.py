"""Image transforms that change colors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.arguments import as_list
from ..ops.argument_checks import as_real, is_number
from ..ops.random.random import default_generator
from .image_transform import ImageTransform, probability

__all__ = ["ColorJitter", "Grayscale", "RandomGrayscale"]

_LUMA = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601


class Grayscale(ImageTransform):
    """0.299 R + 0.587 G + 0.114 B, in one or three equal channels.

    Raises:
        ValueError: num_output_channels is neither 1 nor 3, or the image has neither 1 nor 3 channels.
    """

    def __init__(self, num_output_channels: int = 1) -> None:
        if num_output_channels not in (1, 3):
            raise ValueError(f"Grayscale: num_output_channels={num_output_channels!r} must be 1 or 3")
        self.num_output_channels = num_output_channels

    def apply(self, image: np.ndarray) -> np.ndarray:
        gray = _rounded(_gray("Grayscale", image), image.dtype)
        if self.num_output_channels == 3:
            return np.stack([gray] * 3, -1)
        return gray if image.dtype == np.uint8 else gray[..., None]


class RandomGrayscale(ImageTransform):
    """Grayscale in all channels with probability p.

    Raises:
        ValueError: p is not a probability.
    """

    def __init__(self, p: float = 0.1) -> None:
        self.p: float = probability("RandomGrayscale", p)

    def apply(self, image: np.ndarray) -> np.ndarray:
        if default_generator.random() >= self.p or image.ndim == 2 or image.shape[2] == 1:
            return image
        return np.stack([_rounded(_gray("RandomGrayscale", image), image.dtype)] * 3, -1)


class ColorJitter(ImageTransform):
    """Changes brightness, contrast, saturation and hue by random factors, in random order.

    brightness, contrast, saturation: (least, greatest) factor; a number d means (max(0, 1 - d), 1 + d).
    hue: (least, greatest) hue shift, from -0.5 to 0.5 of the color circle; a number d means (-d, d).

    Raises:
        ValueError: a range is empty or out of range, or the image has neither 1 nor 3 channels.
    """

    def __init__(self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0) -> None:
        self.brightness: tuple[float, float] = _range("brightness", brightness, 1.0, 0.0, np.inf)
        self.contrast: tuple[float, float] = _range("contrast", contrast, 1.0, 0.0, np.inf)
        self.saturation: tuple[float, float] = _range("saturation", saturation, 1.0, 0.0, np.inf)
        self.hue: tuple[float, float] = _range("hue", hue, 0.0, -0.5, 0.5)

    def apply(self, image: np.ndarray) -> np.ndarray:
        most = 255.0 if image.dtype == np.uint8 else 1.0
        x = image.astype(np.float64) / most
        steps: list[tuple[Sequence[float], Callable[[np.ndarray, float], np.ndarray]]] = [
            (self.brightness, lambda x, factor: x * factor),
            (self.contrast, lambda x, factor: _blend(x, _gray("ColorJitter", x).mean(), factor)),
            (self.saturation, lambda x, factor: _blend(x, _gray("ColorJitter", x)[..., None], factor)),
            (self.hue, _shift_hue),
        ]
        for step in default_generator.permutation(len(steps)):
            limits, change = steps[step]
            if limits[0] != limits[1] or limits[0] != (0.0 if step == 3 else 1.0):
                if step >= 2 and (x.ndim == 2 or x.shape[2] == 1):
                    continue  # grayscale: no saturation or hue
                x = np.clip(change(x, float(default_generator.uniform(*limits))), 0, 1)
        return _rounded(x * most, image.dtype)


def _range(name: str, value: Any, center: float, low: float, high: float) -> tuple[float, float]:
    if is_number(value):
        value = as_real("ColorJitter", name, value)
        if not value >= 0:
            raise ValueError(f"ColorJitter: {name}={value!r} must be at least 0")
        limits = max(low, center - value), center + value
    else:
        limits = tuple(as_list("ColorJitter", name, value, "a number or two: (least, greatest)"))
        for limit in limits:
            as_real("ColorJitter", name, limit)
    if len(limits) != 2 or not low <= limits[0] <= limits[1] <= high:
        raise ValueError(f"ColorJitter: {name}={value!r} must be a number or (least, greatest) from {low} to {high}")
    return limits


def _gray(name: str, image: np.ndarray) -> np.ndarray:
    """The luma of an image, (H, W)."""
    if image.ndim == 2 or image.shape[2] == 1:
        return image.reshape(image.shape[:2])
    if image.shape[2] != 3:
        raise ValueError(f"{name}: the image has {image.shape[2]} channels, expected 1 or 3")
    return image @ _LUMA


def _rounded(x: np.ndarray, dtype: Any) -> np.ndarray:
    return (np.rint(x) if dtype == np.uint8 else x).astype(dtype)


def _blend(x: np.ndarray, other: Any, factor: float) -> np.ndarray:
    return other + (x - other) * factor


def _shift_hue(x: np.ndarray, shift: float) -> np.ndarray:
    """Shift the hue of x, in the hue-saturation-value model."""
    value, least = x.max(-1), x.min(-1)
    chroma = value - least
    safe = np.where(chroma > 0, chroma, 1)
    r, g, b = np.moveaxis(x, -1, 0)
    hue = np.select([value == r, value == g], [(g - b) / safe, (b - r) / safe + 2], (r - g) / safe + 4)
    hue = (hue / 6 + shift) % 1 * 6
    # each channel falls from value to least over a sixth of the circle
    parts = [(hue + n) % 6 for n in (5, 3, 1)]
    return np.stack([value - chroma * np.clip(np.minimum(part, 4 - part), 0, 1) for part in parts], -1)
