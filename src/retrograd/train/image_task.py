"""Image classification tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.dataset import TensorDataset
from ..engine.tensor import Tensor
from .faults import TrainingError
from .progress import counted
from .task import Task

if TYPE_CHECKING:
    from .page import Page
    from .trainer import Trainer

__all__ = ["ByteImages", "ImageTask", "check_dataset"]


class ByteImages(TensorDataset):
    """Images stored in memory as bytes, a quarter of the size of floats; samples are floats from 0 to 1.

    pixels: uint8 (N, C, H, W).
    labels: int64 (N,).
    """

    def __init__(self, pixels: np.ndarray, labels: np.ndarray) -> None:
        super().__init__(labels)
        self.pixels = pixels

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        (label,) = super().__getitem__(index)
        return Tensor(_floats(self.pixels[index])), label

    def take(self, indices: Any) -> tuple[Tensor, ...]:
        """The batch of these samples: images (len(indices), C, H, W) and labels."""
        (labels,) = super().take(indices)
        return Tensor(_floats(self.pixels[np.asarray(indices, dtype=np.int64)])), labels


def _floats(pixels: np.ndarray) -> np.ndarray:
    return pixels.astype(np.float32) / np.float32(255)


@dataclass(kw_only=True)
class ImageTask(Task):
    """A network with the images it learns to classify.

    classes: their names; label i, the target of a sample, means classes[i].
    image: {"size": ..., "channels": ...}, to which a user's image is converted.
    """

    samples = "images"
    explained = 2

    classes: tuple[str, ...]
    image: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        check_dataset("training data", self.train, len(self.classes))
        check_dataset("held-out data", self.held_out, len(self.classes))

    def identity(self) -> dict[str, Any]:
        identity = super().identity()
        return {
            "classes": list(self.classes),
            "network": identity["network"],
            "image": dict(self.image),
            "options": identity["options"],
        }

    def result(self, trainer: Trainer) -> str:
        accuracy, total = trainer.history[-1]["held_out_accuracy"], len(self.held_out)
        right = f"{accuracy:.2%} ({round(accuracy * total)} of {total})"
        return f"held-out accuracy {right} after {counted(trainer.epoch, 'epoch')}"

    def page(self, trainer: Trainer) -> Page:
        from .image_report import image_page  # Matplotlib and what goes with it, only for a report

        return image_page(self, trainer)


def check_dataset(name: str, dataset: TensorDataset, classes: int) -> None:
    """Check images (floats of shape (N, ...)) and labels (int64 of shape (N,)) before training.

    Raises:
        TrainingError: there are no samples, an image holds NaN or infinity, or a label is not a class; the message says
            which.
    """
    arrays = [tensor.array for tensor in dataset.tensors]
    if isinstance(dataset, ByteImages):
        arrays = [dataset.pixels[:0].astype(np.float32), *arrays]  # bytes are always finite
    if len(arrays) != 2:
        raise TrainingError(f"{name}: a sample has {len(arrays)} parts, expected an image and a label")
    images, labels = arrays
    if not len(labels):
        raise TrainingError(f"{name}: there are no images")
    if images.dtype.kind != "f" or labels.dtype != np.int64 or labels.ndim != 1:
        raise TrainingError(
            f"{name}: images are {images.dtype} of shape {images.shape} and labels {labels.dtype} of shape "
            f"{labels.shape}; expected floats (N, ...) and int64 (N,)"
        )
    if not np.isfinite(images).all():
        first = tuple(int(index) for index in np.argwhere(~np.isfinite(images))[0])
        raise TrainingError(
            f"{name}: image {first[0]} holds {images[first]} at {first[1:]}; repair the data or leave the image out"
        )
    outside = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(outside):
        raise TrainingError(
            f"{name}: label {outside[0]} is {labels[outside[0]]}; with {classes} classes a label is 0 to {classes - 1}"
        )
