"""The task of ``retrograd train digits``: a small convolutional network for 8x8 images."""

from __future__ import annotations

import numpy as np

from .. import nn
from ..data.digits import Digits
from ..ops.random import default_generator
from .task import Task

__all__ = ["digits_network", "digits_task", "shifted"]

# What training runs. All cores compile them, beginning at both ends: there stand the slow ones (a module's together).
_KERNELS = (
    "convolution.gather",
    "convolution.weight_grad",
    "convolution.add_partials",
    "matmul.multiply",
    "packing.pack",
    "activation.relu",
    "activation.relu_grad",
    "elementwise.add_broadcast",
    "elementwise.scale",
    "elementwise.mul",
    "elementwise.sub",
    "elementwise.div",
    "elementwise.sqrt",
    "layout.channels_last",
    "optimizer.adam",
    "softmax.cross_entropy",
    "softmax.cross_entropy_grad",
    "softmax.log_softmax_rows",
    "reduction.sum_rows",
    "reduction.sum_columns",
    "normalization.affine",
    "normalization.coefficients",
    "normalization.input_grad",
    "normalization.moments",
    "normalization.statistics",
    "normalization.sums",
    "pooling.max_pool",
    "pooling.max_pool_grad",
)


def digits_network() -> nn.Sequential:
    """Images (N, 1, 8, 8) -> scores (N, 10); 9,978 parameters, drawn from ``retrograd``'s generator.

    The convolutions have no bias: the batch norm behind each has one.
    """
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(32 * 4 * 4, 10),
    )


def digits_task() -> Task:
    """The default network and the digits that come with the package.

    Raises:
        RuntimeError: the data file of the package is missing or damaged.
    """
    return Task(
        name="digits",
        title="Handwritten digits",
        classes=Digits.classes,
        model=digits_network(),
        train=Digits(train=True),
        held_out=Digits(train=False),
        augment=shifted,
        kernels=_KERNELS,
        source="Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, "
        "CC BY 4.0, as distributed with scikit-learn",
    )


def shifted(images: np.ndarray) -> np.ndarray:
    """Each image (C, H, W) of a batch moved by -1, 0 or 1 pixel along both axes; zeros come in at the edges."""
    count, _, height, width = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    down, right = default_generator.integers(0, 3, (2, count))
    rows = down[:, None] + np.arange(height)
    columns = right[:, None] + np.arange(width)
    # an index array, a slice and two index arrays: NumPy puts the channels last
    moved = padded[np.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return np.moveaxis(moved, -1, 1)
