"""ImageTransform, the base class of image transforms, with argument checks, padding, cropping and resampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from types import ModuleType
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..ops.argument_checks import as_list, as_real
from ..ops.random.random import default_generator

__all__ = ["ImageTransform", "pillow"]


# ---- Optional import of Pillow --------------------------------------------------------------------------------------


def pillow(purpose: str) -> ModuleType:
    """Import PIL with its modules Image, ImageDraw and ImageOps.

    Raises:
        ImportError: Pillow is not installed; the message says that ``purpose`` needs it.
    """
    try:
        import PIL
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageOps
    except ImportError:
        raise ImportError(f'{purpose} needs Pillow, which is not installed: pip install "retrograd[images]"') from None
    return PIL


# ---- Argument checks of image transforms ----------------------------------------------------------------------------


def checked(name: str, image: Any) -> np.ndarray:
    """Return the array of an image.

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
    """Describe, for a message, a value that is not an image."""
    if isinstance(image, (Tensor, np.ndarray)):
        return f"{type(image).__name__} of {image.dtype}, shape {image.shape}"
    return type(image).__name__


def is_pillow(image: Any) -> bool:
    """Return whether image is a Pillow image, without importing Pillow."""
    return type(image).__module__.startswith("PIL.") and hasattr(image, "convert")


def pillow_array(image: Any) -> np.ndarray:
    """Return the uint8 array of a Pillow image. Modes other than L, RGB and RGBA are converted to RGB."""
    if image.mode not in ("L", "RGB", "RGBA"):
        image = image.convert("L" if image.mode == "1" else "RGB")
    return np.asarray(image)


def pair_of(name: str, size: Any) -> tuple[int, int]:
    """Return a size as (height, width).

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
    """Return p if it is a probability.

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


# ---- ImageTransform, the base class of transforms of one image ------------------------------------------------------


class ImageTransform:
    """Base class of image transforms. A subclass defines ``apply`` for a uint8 or float array (H, W) or (H, W, C)."""

    def __call__(self, image: Any) -> Any:
        """Return the transformed image: an array, a Tensor or a Pillow image, as ``image`` is.

        Raises:
            TypeError: image is not an image.
        """
        array = checked(type(self).__name__, image)
        floats = array.ndim == 3 and array.dtype.kind == "f"
        result = self.apply(np.moveaxis(array, 0, -1) if floats else array)
        result = np.ascontiguousarray(np.moveaxis(result, -1, 0) if floats else result)
        if result is array or np.shares_memory(result, array):
            result = result.copy()
        if is_pillow(image):
            return pillow("an image").Image.fromarray(result)
        return Tensor(result) if isinstance(image, Tensor) else result

    def apply(self, image: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def __repr__(self) -> str:
        options = (f"{name}={value!r}" for name, value in vars(self).items() if not name.startswith("_"))
        return f"{type(self).__name__}({', '.join(options)})"


# ---- Padding, cropping and resampling of images (Pillow resamples) --------------------------------------------------


class InterpolationMode(Enum):
    """Interpolation methods for resampling; transforms also accept the value, such as "bilinear"."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


def padded(
    image: np.ndarray, rows: tuple[int, int], columns: tuple[int, int], fill: float = 0, mode: str = "constant"
) -> np.ndarray:
    """Return the image with rows and columns added before and after it."""
    pad: Any = np.pad
    options = {"constant_values": fill} if mode == "constant" else {}
    return pad(image, (rows, columns, (0, 0))[: image.ndim], mode, **options)


def random_part(
    size: Sequence[int], scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[int, int, int, int] | None:
    """Draw a random crop (top, left, height, width); None if ten attempts did not fit.

    Its aspect ratio, width / height, is drawn on a logarithmic scale.
    """
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
    """Return the mode, or the mode with this name.

    Raises:
        ValueError: there is no such mode.
    """
    try:
        return InterpolationMode(mode)
    except ValueError:
        known = ", ".join(each.value for each in InterpolationMode)
        raise ValueError(f"{name}: interpolation={mode!r} is unknown; choose one of {known}") from None


def resampling(mode: InterpolationMode) -> Any:
    """Return Pillow's constant for the mode."""
    return getattr(pillow("resizing and rotating").Image.Resampling, mode.name)


def resized(image: np.ndarray, size: tuple[int, int], mode: InterpolationMode) -> np.ndarray:
    """Resize a uint8 or float image (H, W, C) or (H, W)."""
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
