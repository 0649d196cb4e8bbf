"""Image transforms on arrays and Pillow images, with torchvision's names.

An image is a Pillow image, a uint8 array (H, W, C) or (H, W), as in files, or a float array or Tensor (C, H, W) or
(H, W), as networks expect it. ToTensor converts the former to the latter. A transform returns the same kind of image
that it receives and does not change its input.

Random numbers come from retrograd's generator, so a seed makes them repeatable. DataLoader gives every batch its own.

Pillow (the extra "images") resizes and rotates. Shrinking an image averages all its pixels. Floats are resampled in
float32.

Source: torchvision's documentation of torchvision.transforms and transforms.v2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.arguments import as_callable, kind_name
from ..engine.tensor import Tensor
from ..ops.argument_checks import as_list, as_real, is_number
from ..ops.random.random import default_generator
from ..ops.signatures import explain_wrong_arguments
from .color_transforms import ColorJitter, Grayscale, RandomGrayscale
from .image_transform import (
    ImageTransform,
    InterpolationMode,
    by_plane,
    check_range,
    checked,
    described,
    interpolation_of,
    is_pillow,
    padded,
    pair_of,
    pillow,
    pillow_array,
    probability,
    random_part,
    resampling,
    resized,
)
from .mixup import CutMix, MixUp

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "CutMix",
    "Grayscale",
    "InterpolationMode",
    "Lambda",
    "MixUp",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandomApply",
    "RandomChoice",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "Resize",
    "ToPILImage",
    "ToTensor",
]


# ---- Conversions between kinds of image, and transforms that apply other transforms ---------------------------------

Transform = Callable[[Any], Any]


class Compose:
    """Applies transforms in order.

    transforms: callables that take and return an image.
    """

    def __init__(self, transforms: Sequence[Transform]) -> None:
        name = type(self).__name__
        self.transforms: list[Any] = as_list(name, "transforms", transforms, "a list of functions of an image")
        for place, transform in enumerate(self.transforms):
            as_callable(name, f"transforms[{place}]", transform)
            if isinstance(transform, type) and "__call__" in dir(transform):
                raise TypeError(f"{name}: transforms[{place}] is {kind_name(transform)}, needs a function of an image")

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.transforms))})"


class RandomApply(Compose):
    """Applies all transforms in order with probability p, and none otherwise.

    Raises:
        ValueError: p is not a probability.
    """

    def __init__(self, transforms: Sequence[Transform], p: float = 0.5) -> None:
        super().__init__(transforms)
        self.p: float = probability("RandomApply", p)

    def __call__(self, image: Any) -> Any:
        return super().__call__(image) if default_generator.random() < self.p else image


class RandomChoice(Compose):
    """Applies one of the transforms, each with equal probability or with the probabilities p.

    Raises:
        ValueError: p does not contain a number of at least 0 for each transform, or contains only zeros.
    """

    def __init__(self, transforms: Sequence[Transform], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        shares = np.ones(len(self.transforms)) if p is None else np.asarray(p, np.float64)
        if shares.shape != (len(self.transforms),) or not (shares >= 0).all() or not shares.sum() > 0:
            raise ValueError(f"RandomChoice: p={p!r} must contain a number of at least 0 for each transform, not all 0")
        self.p: Any = shares / shares.sum()

    def __call__(self, image: Any) -> Any:
        return self.transforms[int(default_generator.choice(len(self.transforms), p=self.p))](image)


class Lambda:
    """Applies a user-defined function.

    Raises:
        TypeError: lambd cannot be called.
    """

    def __init__(self, lambd: Transform) -> None:
        if not callable(lambd):
            raise TypeError(f"Lambda: lambd is {kind_name(lambd)}, needs a function of an image")
        self.lambd = lambd

    def __call__(self, image: Any) -> Any:
        return self.lambd(image)

    def __repr__(self) -> str:
        return "Lambda()"


class ToTensor:
    """Converts an image, uint8 (H, W, C) or (H, W) or Pillow, to a float32 Tensor (C, H, W) from 0 to 1.

    Float images are only transposed.
    """

    def __call__(self, image: Any) -> Tensor:
        """Return the image as a Tensor.

        Raises:
            TypeError: image is neither a Pillow image nor a uint8 or float array with two or three axes.
        """
        planes = _planes("ToTensor", image)
        values = planes.astype(np.float32) / np.float32(255) if planes.dtype == np.uint8 else planes
        return Tensor(np.array(values, np.float32, order="C"))

    def __repr__(self) -> str:
        return "ToTensor()"


class PILToTensor:
    """Converts an image, uint8 (H, W, C) or (H, W) or Pillow, to a uint8 Tensor (C, H, W)."""

    def __call__(self, image: Any) -> Tensor:
        """Return the image as a Tensor.

        Raises:
            TypeError: image is neither a Pillow image nor a uint8 array with two or three axes.
        """
        planes = _planes("PILToTensor", image)
        if planes.dtype != np.uint8:
            raise TypeError(f"PILToTensor: expected uint8, got {described(image)}; ToTensor() takes floats")
        return Tensor(np.array(planes, order="C"))

    def __repr__(self) -> str:
        return "PILToTensor()"


class ToPILImage:
    """Converts an array, uint8 (H, W, C) or (H, W), or float (C, H, W) or (H, W) from 0 to 1, to a Pillow image.

    mode: the mode of the Pillow image; by default L for one channel, RGB for three and RGBA for four.
    """

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, image: Any) -> Any:
        """Return the Pillow image.

        Raises:
            TypeError: image is not an image array or Tensor.
            ImportError: Pillow is not installed.
        """
        array = checked("ToPILImage", image)
        if isinstance(image, Tensor) or array.dtype.kind == "f":
            array = np.moveaxis(array, 0, -1) if array.ndim == 3 else array
        if array.dtype.kind == "f":
            array = (array * 255).astype(np.uint8)
        array = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
        made = pillow("ToPILImage").Image.fromarray(np.ascontiguousarray(array))
        return made if self.mode is None else made.convert(self.mode)

    def __repr__(self) -> str:
        return f"ToPILImage(mode={self.mode!r})"


def _planes(name: str, image: Any) -> np.ndarray:
    """Return the array (C, H, W) of an image."""
    array = pillow_array(image) if is_pillow(image) else image
    floats = isinstance(array, np.ndarray) and array.dtype.kind == "f"
    if not isinstance(array, np.ndarray) or array.ndim not in (2, 3) or not (floats or array.dtype == np.uint8):
        expected = "a Pillow image, or an array (H, W, C) or (H, W) of uint8 or floats"
        raise TypeError(f"{name}: expected {expected}, got {described(image)}")
    return np.moveaxis(array.reshape(*array.shape[:2], -1), -1, 0)


# ---- Image transforms with torchvision's names ----------------------------------------------------------------------

_MODES = ("constant", "edge", "reflect", "symmetric")


def _per_channel(label: str, values: Any) -> np.ndarray:
    """Return a number, or a list or an array of numbers, as a float64 vector."""
    if isinstance(values, (Tensor, np.ndarray)):
        values = values.tolist()
    each = [values] if is_number(values) else as_list("Normalize", label, values, "one number per channel")
    return np.array([as_real("Normalize", label, number) for number in each], np.float64)


class Normalize(ImageTransform):
    """Computes (x - mean) / std in each channel of a float image.

    mean, std: one number per channel.

    Raises:
        ValueError: mean and std have different lengths, or a std is not positive.
    """

    mean: np.ndarray
    std: np.ndarray

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean, self.std = (_per_channel(label, values) for label, values in (("mean", mean), ("std", std)))
        if self.mean.shape != self.std.shape or not (self.std > 0).all():
            raise ValueError(f"Normalize: mean={mean!r} and std={std!r} need one number per channel each, std above 0")

    def apply(self, image: np.ndarray) -> np.ndarray:
        channels = 1 if image.ndim == 2 else image.shape[2]
        if image.dtype == np.uint8:
            raise TypeError("Normalize: the image is uint8; apply ToTensor() first")
        if channels != len(self.mean):
            raise ValueError(f"Normalize: the image has {channels} channels, mean and std are for {len(self.mean)}")
        mean, std = self.mean.astype(image.dtype), self.std.astype(image.dtype)
        return (image - mean) / std


class Pad(ImageTransform):
    """Adds pixels around an image.

    padding: pixels on all sides, (left and right, top and bottom), or (left, top, right, bottom).
    fill: the value of the added pixels, for padding_mode "constant".
    padding_mode: "constant", "edge", "reflect" (without the edge itself) or "symmetric" (with it).

    Raises:
        ValueError: padding is negative or has another length, or padding_mode is unknown.
    """

    fill: float
    padding: int | Sequence[int]
    padding_mode: str

    def __init__(self, padding: int | Sequence[int], fill: float = 0, padding_mode: str = "constant") -> None:
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode
        sides = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * 4
        sides = sides * 2 if len(sides) == 2 else sides
        if len(sides) != 4 or not all(isinstance(side, int) and side >= 0 for side in sides):
            raise ValueError(f"Pad: padding={padding!r} must be one, two or four ints of at least 0")
        if padding_mode not in _MODES:
            raise ValueError(f"Pad: padding_mode={padding_mode!r} must be one of {', '.join(_MODES)}")
        self._sides = sides

    def apply(self, image: np.ndarray) -> np.ndarray:
        left, top, right, bottom = self._sides
        return padded(image, (top, bottom), (left, right), self.fill, self.padding_mode)


class CenterCrop(ImageTransform):
    """Crops the center of an image, padding with zeros if the image is smaller.

    size: (height, width) of the result, or the side of a square.
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = size
        self._size = pair_of("CenterCrop", size)

    def apply(self, image: np.ndarray) -> np.ndarray:
        height, width = self._size
        rows, columns = (max(0, size - extent) for size, extent in zip(self._size, image.shape, strict=False))
        image = padded(image, (rows // 2, rows - rows // 2), (columns // 2, columns - columns // 2))
        top, left = (round((extent - size) / 2) for size, extent in zip(self._size, image.shape, strict=False))
        return image[top : top + height, left : left + width]


class RandomCrop(ImageTransform):
    """Crops a random part of an image.

    size: (height, width) of the result, or the side of a square.
    padding: pixels to add around the image first, as for Pad; None adds none.
    pad_if_needed: pad images smaller than size instead of raising an error.
    fill, padding_mode: as for Pad.

    Raises:
        ValueError: an argument is out of range.
    """

    pad_if_needed: bool
    padding: int | Sequence[int] | None
    size: int | Sequence[int]
    fill: float
    padding_mode: str

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float = 0,
        padding_mode: str = "constant",
    ) -> None:
        self.size, self.padding, self.pad_if_needed = size, padding, bool(pad_if_needed)
        self.fill, self.padding_mode = fill, padding_mode
        self._size = pair_of("RandomCrop", size)
        self._pad = Pad(0 if padding is None else padding, fill, padding_mode)

    def apply(self, image: np.ndarray) -> np.ndarray:
        image = self._pad.apply(image)
        if self.pad_if_needed:
            rows, columns = (max(0, size - extent) for size, extent in zip(self._size, image.shape, strict=False))
            image = padded(image, (rows, rows), (columns, columns), self.fill, self.padding_mode)
        margins = [extent - size for size, extent in zip(self._size, image.shape, strict=False)]
        if min(margins) < 0:
            raise ValueError(
                f"RandomCrop: size={self._size} is larger than the image, {image.shape[0]} x {image.shape[1]} with its "
                "padding; set pad_if_needed=True, or apply Resize first"
            )
        top, left = (int(default_generator.integers(0, margin + 1)) for margin in margins)
        return image[top : top + self._size[0], left : left + self._size[1]]


class Resize(ImageTransform):
    """Resizes an image.

    size: (height, width) of the result; an int sets the shorter side and keeps the aspect ratio.
    interpolation: see InterpolationMode.
    """

    interpolation: InterpolationMode
    size: int | Sequence[int]

    def __init__(
        self, size: int | Sequence[int], interpolation: str | InterpolationMode = InterpolationMode.BILINEAR
    ) -> None:
        self.size, self.interpolation = size, interpolation_of(type(self).__name__, interpolation)
        self._size = pair_of("Resize", size)
        self._keep = isinstance(size, int) or len(size) == 1

    def apply(self, image: np.ndarray) -> np.ndarray:
        size = self._size
        if self._keep:
            height, width = image.shape[:2]
            short = size[0]
            size = (short, int(short * width / height)) if height <= width else (int(short * height / width), short)
        return resized(image, size, self.interpolation)


class RandomResizedCrop(ImageTransform):
    """Crops a random part of an image, of random size and aspect ratio, and resizes it.

    size: (height, width) of the result, or the side of a square.
    scale: range of the crop's share of the area.
    ratio: range of the crop's aspect ratio, width / height.
    interpolation: see InterpolationMode.

    Raises:
        ValueError: a range is empty or does not start above 0.
    """

    ratio: tuple[float, float]
    scale: tuple[float, float]
    size: int | Sequence[int]

    def __init__(
        self,
        size: int | Sequence[int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: str | InterpolationMode = InterpolationMode.BILINEAR,
    ) -> None:
        self.size, self.scale, self.ratio = size, scale, ratio
        self.interpolation: InterpolationMode = interpolation_of(type(self).__name__, interpolation)
        self._size = pair_of("RandomResizedCrop", size)
        check_range("RandomResizedCrop", "scale", scale)
        check_range("RandomResizedCrop", "ratio", ratio)

    def apply(self, image: np.ndarray) -> np.ndarray:
        part = random_part(image.shape[:2], self.scale, self.ratio)
        if part is None:  # none fits: take the largest central one with an allowed aspect ratio
            height, width = image.shape[:2]
            w, h = min(width, round(height * self.ratio[1])), min(height, round(width / self.ratio[0]))
            part = (height - h) // 2, (width - w) // 2, h, w
        top, left, h, w = part
        return resized(image[top : top + h, left : left + w], self._size, self.interpolation)


class _RandomFlip(ImageTransform):
    _axis: int

    def __init__(self, p: float = 0.5) -> None:
        self.p: float = probability(type(self).__name__, p)

    def apply(self, image: np.ndarray) -> np.ndarray:
        return np.flip(image, self._axis) if default_generator.random() < self.p else image


class RandomHorizontalFlip(_RandomFlip):
    """Flips an image left to right with probability p.

    Raises:
        ValueError: p is not a probability.
    """

    _axis = 1


class RandomVerticalFlip(_RandomFlip):
    """Flips an image upside down with probability p.

    Raises:
        ValueError: p is not a probability.
    """

    _axis = 0


class RandomRotation(ImageTransform):
    """Rotates an image about its center by an angle drawn uniformly.

    degrees: (least, greatest) angle, counterclockwise; a number d means (-d, d).
    interpolation: "nearest", "bilinear" or "bicubic".
    expand: enlarge the result to hold the whole rotated image.
    fill: value of pixels outside the original image.

    Raises:
        ValueError: degrees is negative or not a range, or interpolation is another method.
    """

    degrees: float | Sequence[float]
    interpolation: InterpolationMode
    expand: bool
    fill: float

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: str | InterpolationMode = InterpolationMode.NEAREST,
        expand: bool = False,
        fill: float = 0,
    ) -> None:
        self.degrees, self.interpolation = degrees, interpolation_of(type(self).__name__, interpolation)
        self.expand, self.fill = bool(expand), fill
        ends = [degrees, degrees]
        if isinstance(degrees, (tuple, list)):
            ends = [*degrees]
        if len(ends) != 2:
            raise ValueError(f"RandomRotation: degrees={degrees!r} must be one number or two: (least, greatest)")
        low, high = (as_real("RandomRotation", "degrees", end) for end in ends)
        low = low if isinstance(degrees, (tuple, list)) else -low
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ValueError(f"RandomRotation: degrees={degrees!r} must be a number of at least 0 or (least, greatest)")
        if self.interpolation.value not in ("nearest", "bilinear", "bicubic"):
            raise ValueError(
                f"RandomRotation: interpolation={self.interpolation.value!r} is for resizing; choose 'nearest', "
                "'bilinear' or 'bicubic'"
            )
        self._range = low, high

    def apply(self, image: np.ndarray) -> np.ndarray:
        angle = float(default_generator.uniform(*self._range))
        method = resampling(self.interpolation)
        return by_plane(image, lambda plane: plane.rotate(angle, method, self.expand, fillcolor=self.fill))


class RandomErasing(ImageTransform):
    """Overwrites a random rectangle with probability p ("cutout").

    scale: range of the rectangle's share of the area.
    ratio: range of the rectangle's height / width.
    value: the new value: a number, one number per channel, or "random" for normal noise.

    Raises:
        ValueError: p is not a probability, a range is empty or does not start above 0, or value is another string.

    Source: Z. Zhong et al., "Random Erasing Data Augmentation", AAAI 2020.
    """

    ratio: tuple[float, float]
    scale: tuple[float, float]
    value: float | Sequence[float] | str

    def __init__(
        self,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0,
    ) -> None:
        self.p: float = probability("RandomErasing", p)
        self.scale, self.ratio, self.value = scale, ratio, value
        check_range("RandomErasing", "scale", scale)
        check_range("RandomErasing", "ratio", ratio)
        if isinstance(value, str) and value != "random":
            raise ValueError(f"RandomErasing: value={value!r} must be a number, one per channel, or 'random'")

    def apply(self, image: np.ndarray) -> np.ndarray:
        if default_generator.random() >= self.p:
            return image
        part = random_part(image.shape[:2], self.scale, (1 / self.ratio[1], 1 / self.ratio[0]))
        if part is None:
            return image
        top, left, height, width = part
        result = image.copy()
        hole = result[top : top + height, left : left + width]
        if self.value == "random":
            if image.dtype == np.uint8:
                hole[...] = default_generator.integers(0, 256, hole.shape)
            else:
                hole[...] = default_generator.standard_normal(hole.shape)
        else:
            hole[...] = self.value
        return result


explain_wrong_arguments(globals()[name] for name in __all__)
