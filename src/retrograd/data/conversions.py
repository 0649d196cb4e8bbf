"""Transforms that convert an image to another kind, and that apply others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.arguments import as_callable, as_list
from ..engine.tensor import Tensor
from ..ops.random.random import default_generator
from .image_checks import checked, described, is_pillow, pillow_array, probability
from .pillow import pillow

__all__ = ["Compose", "Lambda", "PILToTensor", "RandomApply", "RandomChoice", "ToPILImage", "ToTensor"]

Transform = Callable[[Any], Any]


class Compose:
    """Applies transforms in order.

    transforms: callables that take and return an image.
    """

    def __init__(self, transforms: Sequence[Transform]) -> None:
        name = type(self).__name__
        self.transforms = as_list(name, "transforms", transforms, "a list of functions of an image")
        for place, transform in enumerate(self.transforms):
            as_callable(name, f"transforms[{place}]", transform)

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
        self.p = probability("RandomApply", p)

    def __call__(self, image: Any) -> Any:
        return super().__call__(image) if default_generator.random() < self.p else image


class RandomChoice(Compose):
    """Applies one of the transforms, each as likely, or with these probabilities.

    Raises:
        ValueError: p does not hold a number of at least 0 for each transform, or only zeros.
    """

    def __init__(self, transforms: Sequence[Transform], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        shares = np.ones(len(self.transforms)) if p is None else np.asarray(p, np.float64)
        if shares.shape != (len(self.transforms),) or not (shares >= 0).all() or not shares.sum() > 0:
            raise ValueError(f"RandomChoice: p={p!r} must hold a number of at least 0 for each transform, not all 0")
        self.p = shares / shares.sum()

    def __call__(self, image: Any) -> Any:
        return self.transforms[int(default_generator.choice(len(self.transforms), p=self.p))](image)


class Lambda:
    """Applies a function of your own.

    Raises:
        TypeError: lambd cannot be called.
    """

    def __init__(self, lambd: Transform) -> None:
        if not callable(lambd):
            raise TypeError(f"Lambda: lambd is {type(lambd).__name__}, needs a function of an image")
        self.lambd = lambd

    def __call__(self, image: Any) -> Any:
        return self.lambd(image)

    def __repr__(self) -> str:
        return "Lambda()"


class ToTensor:
    """An image uint8 (H, W, C) or (H, W), or of Pillow -> Tensor float32 (C, H, W) from 0 to 1.

    Floats are only transposed.
    """

    def __call__(self, image: Any) -> Tensor:
        """The image as a Tensor.

        Raises:
            TypeError: image is neither a Pillow image nor an array of uint8 or floats with two or three axes.
        """
        planes = _planes("ToTensor", image)
        values = planes.astype(np.float32) / np.float32(255) if planes.dtype == np.uint8 else planes
        return Tensor(np.array(values, np.float32, order="C"))

    def __repr__(self) -> str:
        return "ToTensor()"


class PILToTensor:
    """An image uint8 (H, W, C) or (H, W), or of Pillow -> Tensor uint8 (C, H, W)."""

    def __call__(self, image: Any) -> Tensor:
        """The image as a Tensor.

        Raises:
            TypeError: image is neither a Pillow image nor an array of uint8 with two or three axes.
        """
        planes = _planes("PILToTensor", image)
        if planes.dtype != np.uint8:
            raise TypeError(f"PILToTensor: expected uint8, got {described(image)}; ToTensor() takes floats")
        return Tensor(np.array(planes, order="C"))

    def __repr__(self) -> str:
        return "PILToTensor()"


class ToPILImage:
    """An array uint8 (H, W, C) or (H, W), or floats from 0 to 1 (C, H, W) or (H, W) -> a Pillow image.

    mode: of the Pillow image; by default L for one channel, RGB for three and RGBA for four.
    """

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, image: Any) -> Any:
        """The image of Pillow.

        Raises:
            TypeError: image is not an array or Tensor of an image.
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
    """The array (C, H, W) of an image."""
    array = pillow_array(image) if is_pillow(image) else image
    floats = isinstance(array, np.ndarray) and array.dtype.kind == "f"
    if not isinstance(array, np.ndarray) or array.ndim not in (2, 3) or not (floats or array.dtype == np.uint8):
        expected = "a Pillow image, or an array (H, W, C) or (H, W) of uint8 or floats"
        raise TypeError(f"{name}: expected {expected}, got {described(image)}")
    return np.moveaxis(array.reshape(*array.shape[:2], -1), -1, 0)
