"""Finding out, and saying in one sentence, what is wrong with data or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.dataset import TensorDataset
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..nn.module import Module
from .leaves import Forward, unchanged, wrapped_forwards
from .task import ByteImages

__all__ = ["TrainingError", "bad_parameter", "check_dataset", "first_not_finite"]


class TrainingError(RuntimeError):
    """Training cannot go on; the message says where and why, and what is left on the disk."""


def check_dataset(name: str, dataset: TensorDataset, classes: int) -> None:
    """Check images (floats of shape (N, ...)) and labels (int64 of shape (N,)) before any time is spent on them.

    Raises:
        TrainingError: there are no samples, an image holds NaN or infinity, or a label is no class; says which.
    """
    arrays = [tensor.data for tensor in dataset.tensors]
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


def first_not_finite(model: Module, images: Tensor) -> str:
    """Where NaN or infinity enters when ``model`` is given ``images``: one clause for a message."""
    if not np.isfinite(images.data).all():
        return "the batch itself holds NaN or infinity"
    if found := bad_parameter(model):
        return found
    found_in: list[str] = []

    def wrap(path: str, module: Module, forward: Forward) -> Forward:
        def checked(*args: Any, **kwargs: Any) -> Any:
            output = forward(*args, **kwargs)
            if isinstance(output, Tensor) and not np.isfinite(output.data).all():
                found_in.append(f"the first output that holds NaN or infinity is that of {path!r}, {module.describe()}")
            return output

        return checked

    with unchanged(model), wrapped_forwards(model, wrap), no_grad(), np.errstate(all="ignore"):
        model(images)
    return found_in[0] if found_in else "all layers' outputs are finite, only the loss is not"


def bad_parameter(model: Module) -> str | None:
    """Which parameter or buffer holds NaN or infinity, as a clause for a message; None if none does."""
    for name, tensor in model.state_dict().items():
        if tensor.data.dtype.kind == "f" and not np.isfinite(tensor.data).all():
            return f"{name} holds NaN or infinity since the step before"
    return None
