"""Classifying images with the network of a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._files.state import brief, items, reason, same, text
from ..data.images import read_planes
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..ops.normalization.softmax import softmax
from .checkpoint import CheckpointError, load_checkpoint
from .networks import image_of, saved_network

__all__ = ["Predictor"]


class Predictor:
    """The network of a checkpoint of ``retrograd train``, in eval mode.

    path: the checkpoint, or the folder of the run.

    ``classes`` are the class names, ``size`` and ``channels`` those of the images it takes.

    Raises:
        CheckpointError: there is no such checkpoint, it is damaged, or its network does not classify images.
    """

    def __init__(self, path: str | Path) -> None:
        from .trainer import CHECKPOINT

        path = Path(path)
        if path.is_dir():
            path = path / CHECKPOINT
        state = load_checkpoint(path)
        self._path = path
        try:
            self.task, classes = text("task", state["task"]), items(text)("classes", state["classes"])
            takes = image_of(state["network"])
            if not same(state["image"], takes):
                raise ValueError(f"its image is {brief(state['image'])}, but its network takes {takes}")
            self.size, self.channels = takes["size"], takes["channels"]
            if len(set(classes)) != len(classes):
                raise ValueError("two of its classes have the same name")
            self.model = saved_network(state, "images")
            self.model.eval()
            self.classes = tuple(classes)
            probe = np.zeros((1, self.channels, self.size, self.size), np.uint8)
            if self.probabilities(probe).shape[1] != len(classes):
                raise ValueError(f"its network does not have one output for each of the {len(classes)} classes")
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{path} is not a checkpoint that classifies images: {reason(error)}") from error

    def read(self, path: str | Path, invert: bool = False) -> np.ndarray:
        """A PNG or JPEG file, prepared as in training: uint8 (channels, size, size).

        invert: swap dark and bright.

        Raises:
            ImageError: the file cannot be used; the message says why, without its name.
            ImportError: Pillow is not installed.
        """
        return read_planes(path, self.channels, self.size, invert)

    def probabilities(self, images: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        """The probability of each class (N, classes) for images uint8 (N, channels, size, size).

        Raises:
            CheckpointError: they are NaN because the network's weights are too large.
        """
        batch: Any = np.asarray(images).astype(np.float32) / np.float32(255)
        with no_grad(), np.errstate(all="ignore"):
            result = softmax(self.model(Tensor(batch)), 1).numpy()
        if not np.isfinite(result).all():
            raise CheckpointError(f"{self._path}: the network's weights are too large, its outputs are not finite")
        return result
