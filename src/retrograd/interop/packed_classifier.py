"""Image classification with a packed model file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .._files.state import reason
from ..data.images import read_planes
from ..engine.tensor import Tensor
from ..lowbit.pack import PackedModel
from ..ops.normalization.softmax import softmax
from .packed import load_packed
from .safetensors import SafetensorsError

__all__: list[str] = []


class PackedClassifier:
    """A packed model with class names and image preprocessing.

    ``classes`` are the class names; ``size`` and ``channels`` are those of the input images.

    Raises:
        SafetensorsError: the file does not exist, cannot be read, or lacks information needed to classify images.
    """

    channels: int
    classes: tuple[str, ...]
    size: int

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self.model: PackedModel = load_packed(path)
        image, classes = self.model.image, self.model.classes
        if image is None or classes is None:
            missing = " and ".join(name for name, value in (("classes", classes), ("image", image)) if value is None)
            raise SafetensorsError(
                f"{path} does not have {missing}, which classifying images needs; save it with "
                'model.pack(classes=[...], image={"channels": 1, "size": 28})'
            )
        self.classes, self.channels, self.size = classes, int(image["channels"]), int(image["size"])
        self._mean, self._std = (np.reshape(image[key], (-1, 1, 1)).astype(np.float32) for key in ("mean", "std"))
        try:
            found = self.probabilities(np.zeros((1, self.channels, self.size, self.size), np.uint8)).shape
            if found != (1, len(classes)):
                raise ValueError(f"its output has the shape {found}, not one number for each of {len(classes)} classes")
        except SafetensorsError:
            raise
        except (TypeError, ValueError, RuntimeError, IndexError, AttributeError, MemoryError) as error:
            raise SafetensorsError(f"{path} does not classify images: {reason(error)}") from error

    def read(self, path: str | Path, invert: bool = False) -> np.ndarray:
        """Read a PNG or JPEG file as model input: uint8 (channels, size, size).

        Raises: as ``data.images.read_planes``.
        """
        return read_planes(path, self.channels, self.size, invert)

    def probabilities(self, images: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        """Return the probability of each class (N, classes) for images uint8 (N, channels, size, size).

        Raises:
            SafetensorsError: the probabilities are not finite.
        """
        batch = (np.asarray(images).astype(np.float32) / np.float32(255) - self._mean) / self._std
        with np.errstate(all="ignore"):
            result: np.ndarray = softmax(self.model(Tensor(batch)), 1).numpy()
        if not np.isfinite(result).all():
            raise SafetensorsError(f"{self._path}: the model's weights are too large, its outputs are not finite")
        return result
