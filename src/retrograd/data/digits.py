"""The bundled handwritten digits: 1,797 images of 8x8 pixels (see files/ATTRIBUTION.txt)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..ops.arguments.checks import as_truth
from .compressed import bundled, images_of
from .dataset import TensorDataset

__all__ = ["Digits", "load_digits"]

_SHA256 = "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"


class Digits(TensorDataset):
    """Optical digits: image (1, 8, 8) float32 from 0 to 1, and label, an int64 from 0 to 9.

    train: the 1,442 images to train on, or the held-out fifth of 355. The split does not depend on the seed:
        within each digit, in file order, every fifth image is held out.

    Raises:
        RuntimeError: the bundled data file is missing or damaged.

    Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998,
    CC BY 4.0, as distributed with scikit-learn.

    >>> held_out = Digits(train=False)
    >>> len(held_out), held_out[0][0].shape
    (355, (1, 8, 8))
    """

    classes = tuple("0123456789")

    def __init__(self, train: bool = True) -> None:
        train = as_truth("Digits", "train", train)
        images, labels = load_digits()
        selected = held_out(labels) != train
        scaled = images[selected, None].astype(np.float32) / 16
        super().__init__(scaled, labels[selected])
        self.train = train


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """All images, uint8 (1797, 8, 8) with values 0 to 16, and their labels, int64 (1797,), in file order.

    Raises:
        RuntimeError: the bundled data file is missing or damaged.
    """
    images, labels = _loaded()
    return images.copy(), labels.copy()


@lru_cache(maxsize=1)
def _loaded() -> tuple[np.ndarray, np.ndarray]:
    return images_of(bundled("digits", _SHA256), side=8)


def held_out(labels: np.ndarray) -> np.ndarray:
    """A mask, shaped like labels, of the held-out samples: within each class, in order, the 5th, 10th, ..."""
    selected = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        selected[np.flatnonzero(labels == label)[4::5]] = True
    return selected
