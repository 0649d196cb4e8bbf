"""Argument checks of image transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..ops.arguments.checks import as_list, as_real


def checked(name: str, image: Any) -> np.ndarray:
    """The array of an image.

    Raises:
        TypeError: image is not an image.
    """
    array = image.array if isinstance(image, Tensor) else pillow_array(image) if is_pillow(image) else image
    if not isinstance(array, np.ndarray) or array.ndim not in (2, 3) or 0 in array.shape:
        raise TypeError(f"{name}: expected an image of two or three axes, got {described(image)}")
    if array.dtype != np.uint8 and array.dtype.kind != "f":
        raise TypeError(f"{name}: expected uint8 (H, W, C) or floats (C, H, W), got {described(image)}")
    return array


def described(image: Any) -> str:
    """A description, for a message, of a value that is not an image."""
    if isinstance(image, (Tensor, np.ndarray)):
        return f"{type(image).__name__} of {image.dtype}, shape {image.shape}"
    return type(image).__name__


def is_pillow(image: Any) -> bool:
    """Whether image is a Pillow image, without importing Pillow."""
    return type(image).__module__.startswith("PIL.") and hasattr(image, "convert")


def pillow_array(image: Any) -> np.ndarray:
    """The array, uint8, of a Pillow image: of modes other than L, RGB and RGBA in RGB."""
    if image.mode not in ("L", "RGB", "RGBA"):
        image = image.convert("L" if image.mode == "1" else "RGB")
    return np.asarray(image)


def pair_of(name: str, size: Any) -> tuple[int, int]:
    """(height, width) of a size.

    Raises:
        ValueError: size is neither a positive int nor a pair of them.
    """
    pair = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
    pair = pair * 2 if len(pair) == 1 else pair
    ints = all(isinstance(side, (int, np.integer)) and not isinstance(side, bool) for side in pair)
    if len(pair) != 2 or not ints or not all(0 < side < 2**31 for side in pair):
        raise ValueError(f"{name}: size={size!r} must be a positive int or (height, width)")
    return int(pair[0]), int(pair[1])


def probability(name: str, p: float) -> float:
    """p, if it is a probability.

    Raises:
        ValueError: p is not a probability.
    """
    if not 0 <= as_real(name, "p", p) <= 1:
        raise ValueError(f"{name}: p={p!r} must be from 0 to 1")
    return p


def check_range(name: str, option: str, values: Sequence[float]) -> None:
    """Check a range of positive numbers.

    Raises:
        ValueError: values is not such a range.
    """
    ends = as_list(name, option, values, "two numbers: (least, greatest)")
    for end in ends:
        as_real(name, option, end)
    if len(ends) != 2 or not 0 < values[0] <= values[1] < math.inf:
        raise ValueError(f"{name}: {option}={values!r} must be (least, greatest), both greater than 0")
