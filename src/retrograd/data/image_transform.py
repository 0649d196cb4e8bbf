"""ImageTransform, the base of transforms that work on one image."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from .image_checks import checked, is_pillow
from .pillow import pillow

__all__ = ["ImageTransform"]


class ImageTransform:
    """A subclass defines ``apply`` for an array (H, W) or (H, W, C), uint8 or floats."""

    def __call__(self, image: Any) -> Any:
        """The transformed image: an array, a Tensor or a Pillow image, like ``image``.

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
