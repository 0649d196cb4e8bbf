"""Image classification with an ONNX model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..data.images import read_planes
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor, wrap
from ..ops.normalization.softmax import softmax
from .errors import OnnxError
from .files import read
from .graph import Graph

_SIZE = 224  # the image size for a model that accepts any size
# Mean and deviation of pixels from 0 to 1, by the model's Image.NominalPixelRange. Source: ONNX, MetadataProps.md.
_RANGES = {"Normalized_0_1": (0.0, 1.0), "Normalized_1_1": (0.5, 0.5), "NominalRange_0_255": (0.0, 1 / 255)}


class OnnxClassifier:
    """A model with one input, images (N, channels, size, size), and one output, scores (N, classes).

    mean, std: of pixels from 0 to 1, one number or one per channel; the model gets (pixels - mean) / std. By default
        they follow the pixel range that the file names, or 0 to 1. classes: their names; by default those in the file's
        metadata, a JSON list under "classes", or "0", "1", ….

    ``size`` and ``channels`` are those of the input images; size is 224 if the model accepts any.

    Raises:
        OnnxError: the file is not a valid model, uses something unsupported, or does not classify images. OSError: it
            cannot be read. ValueError: mean, std or classes do not fit the model.
    """

    channels: int
    size: int

    def __init__(
        self,
        path: str | Path,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self._path = path
        file = read(path)
        self.model: Graph = Graph(file).eval()
        shapes = [self.model.input_shapes[name] for name in self.model.input_names]
        if len(shapes) != 1 or len(shapes[0]) != 4 or shapes[0][1] not in (1, 3):
            kind = {"column": "forecasts a series", "alphabet": "writes text"}
            does = next((kind[each.key] for each in file.metadata_props if each.key in kind), None)
            if does:
                raise OnnxError(f"{path} {does}; retrograd predict does this with the run that it was exported from")
            raise OnnxError(
                f"{path} does not classify images: its inputs have the shapes {[list(shape) for shape in shapes]}, "
                "needs one of [N, channels, height, width] with 1 or 3 channels"
            )
        _, channels, height, width = shapes[0]
        sizes = {extent for extent in (height, width) if isinstance(extent, int)}
        if len(sizes) > 1:
            raise OnnxError(f"{path} takes images of {height} x {width}; images are cropped to squares here")
        self.channels, self.size = int(channels), sizes.pop() if sizes else _SIZE
        usual = _range_of(file)
        self._mean = self._of_channels("mean", (usual[0],) if mean is None else mean)
        self._std = self._of_channels("std", (usual[1],) if std is None else std)
        if not (self._std > 0).all():
            raise ValueError(f"std={_listed(std or usual[1:])} must be greater than 0")
        probe = self._scores(np.zeros((1, self.channels, self.size, self.size), np.float32))
        if probe.ndim != 2 or probe.shape[0] != 1 or probe.shape[1] < 2:
            raise OnnxError(f"{path} does not classify images: its output for one image has the shape {probe.shape}")
        classes = _classes_of(file) if classes is None else classes
        self.classes: tuple[str, ...] = tuple(map(str, range(probe.shape[1]) if classes is None else classes))
        if len(self.classes) != probe.shape[1]:
            raise ValueError(f"classes has {len(self.classes)} names, but the model has {probe.shape[1]} classes")

    def read(self, path: str | Path, invert: bool = False) -> np.ndarray:
        """Read a PNG or JPEG file as model input: uint8 (channels, size, size).

        Raises: as ``data.images.read_planes``.
        """
        return read_planes(path, self.channels, self.size, invert)

    def probabilities(self, images: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        """Return the probability of each class (N, classes) for images uint8 (N, channels, size, size).

        Raises:
            OnnxError: the probabilities are not finite.
        """
        pixels = np.asarray(images).astype(np.float32) / np.float32(255)
        scores = self._scores((pixels - self._mean) / self._std)
        if (scores >= 0).all() and np.allclose(scores.sum(1), 1, atol=1e-3):
            return scores  # the model ends with softmax
        result: np.ndarray = softmax(wrap(scores), 1).numpy()
        if not np.isfinite(result).all():
            raise OnnxError(f"{self._path}: the model's outputs are not finite")
        return result

    def _of_channels(self, name: str, numbers: Sequence[float]) -> np.ndarray:
        if len(numbers) not in (1, self.channels):
            raise ValueError(f"{name}={_listed(numbers)} must be one number, or {self.channels}, one per channel")
        return np.reshape(np.asarray(numbers, np.float32), (-1, 1, 1))

    def _scores(self, batch: np.ndarray) -> np.ndarray:
        try:
            with no_grad(), np.errstate(all="ignore"):
                found = self.model(wrap(batch))
        except (TypeError, ValueError, RuntimeError, IndexError, MemoryError) as error:
            raise OnnxError(f"{self._path} does not classify images of {batch.shape[1:]}: {error}") from error
        if not isinstance(found, Tensor) or found.array.dtype.kind != "f":
            raise OnnxError(f"{self._path} does not classify images: its output is not an array of float32 or float64")
        return found.array


def _listed(numbers: Sequence[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


def _classes_of(file: Any) -> list[str] | None:
    """Return the class names in a file's metadata; None if there are none.

    Raises:
        OnnxError: they are not a JSON list of different strings.
    """
    content = next((each.value for each in file.metadata_props if each.key == "classes"), None)
    if content is None:
        return None
    try:
        names = json.loads(content)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
        raise OnnxError("the model's metadata 'classes' must be a JSON list of different strings; pass --classes FILE")
    return names


def _range_of(file: Any) -> tuple[float, float]:
    """Return the mean and deviation for the pixel range that a file names.

    Raises:
        OnnxError: the file names an unknown range.
    """
    name = next((each.value for each in file.metadata_props if each.key == "Image.NominalPixelRange"), "Normalized_0_1")
    if name not in _RANGES:
        raise OnnxError(f"the model takes pixels of the range {name!r}; supported are {', '.join(_RANGES)}")
    return _RANGES[name]
