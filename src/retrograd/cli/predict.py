"""``retrograd predict``: classifies images with the network of a run, a packed model, or an ONNX model."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from .output import UsageError, complain, say

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    predict = commands.add_parser(
        "predict",
        help="classify images with a trained network",
        description="Classify PNG and JPEG files with the network of a run, with a packed model, or with an "
        "ONNX model. Images are prepared as in training: cropped to the central square and "
        "resized. The digits tasks expect bright strokes on black; use --invert for dark ones on white.",
    )
    predict.add_argument(
        "checkpoint",
        type=Path,
        metavar="CHECKPOINT",
        help="checkpoint.npz, the run's folder, a packed model: model.safetensors, or model.onnx",
    )
    predict.add_argument("image", type=Path, nargs="+", metavar="IMAGE", help="a PNG or JPEG file")
    predict.add_argument("--json", action="store_true", help="all probabilities, as JSON")
    predict.add_argument("--top", type=int, default=3, metavar="N", help="classes to show per image (3)")
    predict.add_argument("--invert", action="store_true", help="swap dark and bright first")
    onnx = predict.add_argument_group("for an ONNX model, whose input is (pixels - mean) / std, pixels from 0 to 1")
    onnx.add_argument("--mean", type=_numbers, metavar="M[,M,M]", help="one for all channels, or one per channel (0)")
    onnx.add_argument("--std", type=_numbers, metavar="S[,S,S]", help="as for --mean (1)")
    onnx.add_argument("--classes", type=Path, metavar="FILE", help="class names, one per line (0, 1, ...)")
    predict.add_argument("--kernels", choices=("compiled", "textbook"), default="compiled", help="(compiled)")
    predict.set_defaults(run=_predict)


def _numbers(text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(map(math.isfinite, found)):
        raise argparse.ArgumentTypeError(f"{text!r} must be numbers separated by commas, such as 0.485,0.456,0.406")
    return found


def _onnx_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options for an ONNX model: mean, std and class names; empty for other models.

    Raises:
        UsageError: an option is only for ONNX models, or the classes cannot be read.
    """
    options = {name: getattr(arguments, name) for name in ("mean", "std", "classes")}
    given = [name for name, value in options.items() if value is not None]
    if arguments.checkpoint.suffix != ".onnx":
        if given:
            raise UsageError(f"--{given[0]} is for an ONNX model; a retrograd model needs no such option")
        return {}
    if options["classes"] is not None:
        try:
            options["classes"] = options["classes"].read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--classes {options['classes']} cannot be read: {error}") from None
    return options


def _predict(arguments: argparse.Namespace) -> int:
    """Classify every readable image. The others are reported on stderr, and the exit code is then 1."""
    import json

    from .._files.terminal import display_name
    from ..data.images import ImageError
    from ..interop.packed_classifier import PackedClassifier
    from ..interop.safetensors import SafetensorsError
    from ..kernel_set import use_kernels
    from ..onnx.classifier import OnnxClassifier
    from ..onnx.errors import OnnxError
    from ..train import CheckpointError
    from ..train.inference import Predictor

    if arguments.top < 1:
        raise UsageError(f"--top {arguments.top} must be at least 1")
    options = _onnx_options(arguments)
    answers: list[dict[str, Any]] = []
    with use_kernels(arguments.kernels):
        try:
            by_suffix: dict[str, Any] = {".safetensors": PackedClassifier, ".onnx": OnnxClassifier}
            predictor: Any = by_suffix.get(arguments.checkpoint.suffix, Predictor)(arguments.checkpoint, **options)
            for path in arguments.image:
                answers.append({"image": display_name(path)})
                try:
                    image = predictor.read(path, arguments.invert)
                except ImageError as error:
                    answers[-1]["error"] = str(error)
                    complain(f"{display_name(path)} {error}", 1)
                    continue
                probabilities = [float(value) for value in predictor.probabilities(image[None])[0]]
                ranking = sorted(zip(predictor.classes, probabilities, strict=True), key=lambda pair: -pair[1])
                answers[-1] |= {"class": ranking[0][0], "probability": ranking[0][1], "probabilities": dict(ranking)}
        except (CheckpointError, SafetensorsError, OnnxError, FileNotFoundError, ImportError) as error:
            return complain(str(error), 1)
        except ValueError as error:
            if not options:
                raise
            raise UsageError(str(error)) from None  # an option does not fit the model
    if arguments.json:
        say(json.dumps(answers, indent=2))
    else:
        width = max(len(answer["image"]) for answer in answers)
        for answer in answers:
            best = list(answer.get("probabilities", {}).items())[: arguments.top]
            if best:
                shares = "".join(f"  {share:7.2%} {display_name(name)}" for name, share in best)
                say(answer["image"].ljust(width) + shares)
    return 1 if any("error" in answer for answer in answers) else 0
