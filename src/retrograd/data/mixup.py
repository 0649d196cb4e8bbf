"""Batch transforms that mix images and their labels: MixUp and CutMix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..ops.argument_checks import as_count, as_real
from ..ops.random.random import default_generator

__all__ = ["CutMix", "MixUp"]


class _Mix:
    """Base class of the transforms that mix each image of a batch with the previous one.

    alpha: images are mixed with a share drawn from Beta(alpha, alpha); 1 is the uniform distribution.
    num_classes: the number of classes, if labels are class indices.
    """

    alpha: float
    num_classes: int | None

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None) -> None:
        name = type(self).__name__
        if not 0 < as_real(name, "alpha", alpha) < math.inf:
            raise ValueError(f"{name}: alpha={alpha!r} must be greater than 0")
        if num_classes is not None:
            num_classes = as_count(name, "num_classes", num_classes, 1, 2**24)
        self.alpha, self.num_classes = alpha, num_classes

    def __call__(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Return mixed images (N, C, H, W) and class probabilities (N, classes): Tensors or arrays, as passed.

        Raises:
            ValueError: images or labels do not have these shapes, or a label is not a class.
        """
        name = type(self).__name__
        x, y = (value.array if isinstance(value, Tensor) else np.asarray(value) for value in (images, labels))
        if x.ndim != 4 or x.dtype.kind != "f" or not len(x) or len(y) != len(x):
            raise ValueError(
                f"{name}: expected images (N, C, H, W) of floats and N labels, got {x.dtype} {x.shape} and {y.shape}"
            )
        if y.ndim == 1:
            classes = self.num_classes
            if classes is None or y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= classes:
                raise ValueError(f"{name}: labels must be classes from 0 to num_classes - 1; num_classes={classes}")
            shares = np.zeros((len(y), classes), x.dtype)
            shares[np.arange(len(y)), y] = 1
            y = shares
        # mix each image with the previous one; the order of a batch is already random
        x, y = self.mix(x, np.roll(x, 1, 0), y, np.roll(y, 1, 0), float(default_generator.beta(self.alpha, self.alpha)))
        return (Tensor(x) if isinstance(images, Tensor) else x), (Tensor(y) if isinstance(labels, Tensor) else y)

    def mix(self, x: np.ndarray, x2: np.ndarray, y: np.ndarray, y2: np.ndarray, share: float) -> tuple[Any, Any]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}(alpha={self.alpha}, num_classes={self.num_classes})"


class MixUp(_Mix):
    """Replaces each image and label of a batch with share * itself + (1 - share) * the previous one.

    Call it with images (N, C, H, W) and labels: class indices (N,) or class probabilities (N, classes).

    alpha: the share is drawn from Beta(alpha, alpha), once per batch.
    num_classes: the number of classes, if labels are class indices.

    Raises:
        ValueError: an argument is out of range.

    Source: H. Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR 2018.
    """

    def mix(self, x: np.ndarray, x2: np.ndarray, y: np.ndarray, y2: np.ndarray, share: float) -> tuple[Any, Any]:
        own, other = x.dtype.type(share), x.dtype.type(1 - share)
        return own * x + other * x2, own * y + other * y2


class CutMix(_Mix):
    """Replaces a random rectangle of each image of a batch with that of the previous image, and mixes labels by area.

    Call it as you would call MixUp.

    alpha: the rectangle's share of the area is 1 - s, with s drawn from Beta(alpha, alpha) once per batch, before the
        rectangle is clipped to the image.
    num_classes: the number of classes, if labels are class indices.

    Raises:
        ValueError: an argument is out of range.

    Source: S. Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable Features",
    ICCV 2019.
    """

    def mix(self, x: np.ndarray, x2: np.ndarray, y: np.ndarray, y2: np.ndarray, share: float) -> tuple[Any, Any]:
        height, width = x.shape[2:]
        side = math.sqrt(1 - share) / 2
        row, column = (int(default_generator.integers(extent)) for extent in (height, width))
        rows = slice(max(0, row - int(side * height)), min(height, row + int(side * height)))
        columns = slice(max(0, column - int(side * width)), min(width, column + int(side * width)))
        mixed = x.copy()
        mixed[:, :, rows, columns] = x2[:, :, rows, columns]
        other = x.dtype.type((rows.stop - rows.start) * (columns.stop - columns.start) / (height * width))
        return mixed, (1 - other) * y + other * y2
