"""``retrograd predict``: classifies images, forecasts a series, or continues a text, with the network of a run."""

from __future__ import annotations

import argparse
import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .output import UsageError, as_typed, complain, option, options_for, options_set, say

if TYPE_CHECKING:
    from ..train.inference import SeriesRun, TextRun

__all__ = ["add_command"]

_BATCH = 64  # images
_MANY = 20 * _BATCH  # images for which a frozen network pays
_ONNX = ("mean", "std", "classes")
_OPTIONS: dict[str, dict[str, Any]] = {  # of each kind of run, with the defaults
    "images": {"top": 3, "invert": False, "mean": None, "std": None, "classes": None},
    "a series": {"steps": None, "level": 0.9, "column": None},
    "text": {"steps": 200, "temperature": 0.8, "seed": 0},
}


def add_command(commands: Any) -> None:
    predict = commands.add_parser(
        "predict",
        help="classify images, forecast a series or continue a text with a trained network",
        description="Use the network of a run of 'retrograd train'. Images: the classes of PNG and JPEG files, which "
        "are cropped to the central square and resized, as in training. A series: the next values, with intervals. "
        "Text: what follows a prompt. With --csv or --json, stdout has nothing else.",
    )
    predict.add_argument(
        "model",
        type=Path,
        metavar="RUN",
        help="the folder of a run, or its checkpoint.npz; for images also a packed model, or an ONNX model",
    )
    predict.add_argument(
        "inputs",
        nargs="*",
        default=[],
        metavar="INPUT",
        help="images: files and folders; a series: a newer CSV file, to forecast what follows its last line (the file "
        "trained on); text: prompts (a newline)",
    )
    form = predict.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV, with a header")
    form.add_argument("--json", action="store_true", help="print JSON")
    predict.add_argument(
        "--kernels",
        choices=("compiled", "textbook"),
        default="compiled",
        help="fast kernels, or plain NumPy (compiled)",
    )
    add = predict.add_argument_group("with images").add_argument
    add("--top", type=int, metavar="N", help="classes to show per image (3); --csv and --json have all")
    add(
        "--invert",
        action="store_true",
        default=None,
        help="swap dark and bright first: the digits tasks expect bright strokes on black",
    )
    onnx = predict.add_argument_group("with an ONNX model, whose input is (pixels - mean) / std, pixels from 0 to 1")
    onnx.add_argument("--mean", type=_numbers, metavar="M[,M,M]", help="one for all channels, or one per channel (0)")
    onnx.add_argument("--std", type=_numbers, metavar="S[,S,S]", help="as for --mean (1)")
    onnx.add_argument(
        "--classes", type=Path, metavar="FILE", help="class names, one per line (those in the file, or 0, 1, ...)"
    )
    add = predict.add_argument_group("with a series or text").add_argument
    add(
        "--steps",
        "--horizon",
        type=int,
        metavar="N",
        help="values to forecast (as many as the run was trained for), or characters to write (200)",
    )
    add = predict.add_argument_group("with a series").add_argument
    add(
        "--level",
        type=float,
        metavar="X",
        help="share of the values held out in training that intervals of this width contain, for each number of steps "
        "ahead (0.9)",
    )
    add("--column", metavar="NAME", help="the column of the CSV file (that of the run)")
    add = predict.add_argument_group("with text").add_argument
    add("--temperature", type=float, metavar="X", help="lower values favor likely characters (0.8)")
    add("--seed", type=int, metavar="N", help="seed of the random numbers (0)")
    predict.set_defaults(run=_predict)


def _numbers(text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(map(math.isfinite, found)):
        raise argparse.ArgumentTypeError(f"{text!r} must be numbers separated by commas, such as 0.485,0.456,0.406")
    return found


def _predict(arguments: argparse.Namespace) -> int:
    from ..interop.packed_classifier import PackedClassifier
    from ..interop.safetensors import SafetensorsError
    from ..kernel_set import use_kernels
    from ..onnx.classifier import OnnxClassifier
    from ..onnx.errors import OnnxError
    from ..train.checkpoint import CheckpointError
    from ..train.inference import SeriesRun, TextRun, load_run

    if arguments.model.suffix != ".onnx":
        for name, value in options_set(arguments, _ONNX).items():
            raise UsageError(f"{option(name, value)} is for an ONNX model; a retrograd model needs no such option")
    with use_kernels(arguments.kernels):
        try:
            if arguments.model.suffix == ".onnx":
                return _classify(arguments, lambda: OnnxClassifier(arguments.model, **_onnx_options(arguments)))
            if arguments.model.suffix == ".safetensors":
                return _classify(arguments, lambda: PackedClassifier(arguments.model))
            run = load_run(arguments.model)
            if isinstance(run, SeriesRun):
                return _forecast(arguments, run)
            if isinstance(run, TextRun):
                return _continue(arguments, run)
            return _classify(arguments, lambda: run)
        except FileNotFoundError:
            return complain(f"{arguments.model}: there is no such file", 1)
        except (CheckpointError, SafetensorsError, OnnxError, ImportError) as error:
            return complain(str(error), 1)


def _chosen(arguments: argparse.Namespace, kind: str) -> dict[str, Any]:
    """Return the options for a kind of run, the user's or the defaults."""
    return {**_OPTIONS[kind], **options_for(kind, arguments, _OPTIONS, f"{arguments.model} is for {kind}: ")}


def _print(arguments: argparse.Namespace, answer: Any, rows: Iterator[Sequence[Any]], table: Callable[[], str]) -> None:
    """Print an answer in the form that the user chose.

    answer: for JSON. rows: of the CSV file, with its header. table: returns the text for people.
    """
    import json

    if arguments.json:
        say(json.dumps(answer, indent=2))
    elif arguments.csv:
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows(rows)
        say(lines.getvalue().removesuffix("\n"))
    else:
        say(table())


# ---- Images ---------------------------------------------------------------------------------------------------------


def _onnx_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options for an ONNX model: mean, std and class names.

    Raises:
        UsageError: the classes cannot be read.
    """
    options = {name: getattr(arguments, name) for name in _ONNX}
    if options["classes"] is not None:
        try:
            options["classes"] = options["classes"].read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            raise UsageError(f"--classes {options['classes']} is not a UTF-8 text file") from None
        except OSError as error:
            raise UsageError(f"--classes {options['classes']} cannot be read: {error.strerror or error}") from None
    return options


def _classify(arguments: argparse.Namespace, load: Callable[[], Any]) -> int:
    """Classify every readable image. The others are reported on stderr, and the exit code is then 1."""
    from .._files.terminal import display_name
    from ..data.images import ImageError
    from ..interop.safetensors import SafetensorsError
    from ..onnx.errors import OnnxError

    try:
        model = load()
    except (OnnxError, SafetensorsError):
        raise
    except ValueError as error:
        raise UsageError(as_typed(error, arguments)) from None  # an option does not fit the ONNX model
    options = _chosen(arguments, "images")
    if arguments.top is not None and (arguments.csv or arguments.json):
        raise UsageError(
            f"--top is for the table; --{'csv' if arguments.csv else 'json'} has all classes: leave it out"
        )
    if options["top"] < 1:
        raise UsageError(f"--top {options['top']} must be at least 1")
    if not arguments.inputs:
        raise UsageError(f"{arguments.model} classifies images; name PNG or JPEG files, or folders of them, after it")
    files, failed = _files(arguments.inputs)
    if len(files) > _MANY and hasattr(model, "model"):
        model.model = model.model.freeze()
    answers: list[dict[str, Any]] = []
    waiting: list[tuple[dict[str, Any], Any]] = []

    def answer() -> None:
        if waiting:
            for (found, _), row in zip(waiting, model.probabilities([image for _, image in waiting]), strict=True):
                ranking = sorted(zip(model.classes, map(float, row), strict=True), key=lambda pair: -pair[1])
                found |= {"class": ranking[0][0], "probability": ranking[0][1], "probabilities": dict(ranking)}
            waiting.clear()

    for path in files:
        answers.append({"image": display_name(path)})
        try:
            waiting.append((answers[-1], model.read(path, options["invert"])))
        except ImageError as error:
            failed = True
            answers[-1]["error"] = str(error)
            complain(f"{display_name(path)} {error}", 1)
        if len(waiting) == _BATCH:
            answer()
    answer()
    good = [each for each in answers if "error" not in each]

    def rows() -> Iterator[Sequence[Any]]:
        yield ["image", "class", "probability", *model.classes]
        for each in good:
            shares = [each["probabilities"][name] for name in model.classes]
            yield [each["image"], each["class"], each["probability"], *shares]

    def table() -> str:
        width = max(len(each["image"]) for each in good)
        lines = []
        for each in good:
            best = list(each["probabilities"].items())[: options["top"]]
            shares = "".join(f"  {share:7.2%} {display_name(name)}" for name, share in best)
            lines.append(each["image"].ljust(width) + shares)
        return "\n".join(lines)

    if good or arguments.json:
        _print(arguments, answers, rows(), table)
    return 1 if failed else 0


def _files(inputs: Sequence[str]) -> tuple[list[Path], bool]:
    """Return the files, those of folders included, and whether a folder has no images."""
    from .._files.terminal import display_name
    from ..data.images import images_in, summarize

    files: list[Path] = []
    failed = False
    for path in map(Path, inputs):
        if not path.is_dir():
            files.append(path)
            continue
        found, skipped = images_in(path)
        files += found
        why = f"not used: {summarize(skipped)}" if skipped else "it is empty"
        if not found:
            failed = True
            complain(f"{display_name(path)} has no PNG or JPEG image; {why}", 1)
        elif skipped:
            complain(why, 0)
    return files, failed


# ---- A series -------------------------------------------------------------------------------------------------------


def _forecast(arguments: argparse.Namespace, run: SeriesRun) -> int:
    """Print the next values of the series that the network was trained on, or of a newer file."""
    from .._files.terminal import aligned, display_name
    from ..data.series import SeriesError, read_series

    options = _chosen(arguments, "a series")
    column = options["column"] or run.column
    values, labels = run.values, run.labels
    if len(arguments.inputs) > 1:
        raise UsageError(f"{arguments.model} forecasts a series; name one CSV file after it, or none")
    if arguments.inputs:
        path = Path(arguments.inputs[0])
        try:
            series = read_series(path, column)
        except SeriesError as error:
            hint = "" if options["column"] else "; --column NAME names another one"
            return complain(f"{error}{hint if 'there is no column' in str(error) else ''}", 1)
        values, labels = series.values, series.labels[-len(run.labels) :] if run.labels else series.labels[-8:]
        if len(values) < run.window:
            return complain(
                f"{path}: {len(values):,} values are too few: the network forecasts from the last {run.window:,}", 1
            )
    elif options["column"]:
        raise UsageError("--column is for a CSV file; name the file, or leave the option out")
    try:
        found = run.forecast(values, options["steps"], options["level"], labels)
    except ValueError as error:
        raise UsageError(as_typed(error, arguments)) from None
    names = ("label", "forecast", "lower", "upper")
    numbers = (
        [float(value) if math.isfinite(value) else None for value in each]
        for each in (found.values, found.lower, found.upper)
    )
    rows = list(zip(found.labels, *numbers, strict=True))
    without = sum(row[2] is None for row in rows)
    if without:
        missing = "all intervals" if without == len(rows) else f"the last {without} intervals"
        complain(f"{missing} are missing: too few values were held out for --level {found.level:g}; try a lower one", 0)
    answer = {
        "column": column,
        "after": labels[-1] if labels else None,
        "level": found.level,
        "forecasts": [dict(zip(names, row, strict=True)) for row in rows],
    }

    def table() -> str:
        widths = [upper - lower for _, _, lower, upper in rows if upper is not None and lower is not None]
        narrowest = min(widths, default=max(abs(value or 0) for _, value, _, _ in rows) / 100)
        digits = min(15, max(0, 2 - math.floor(math.log10(narrowest)))) if narrowest > 0 else 6
        cells: list[tuple[str, ...]] = [("", *names[1:])]
        cells += [
            (display_name(label), *("-" if value is None else f"{value:.{digits}f}" for value in numbers))
            for label, *numbers in rows
        ]
        after = f" after {display_name(labels[-1])}" if labels else ""
        title = f"{display_name(column)}{after}; intervals contain {found.level * 100:.4g} % of the held-out values"
        return "\n".join([title, *aligned(cells, 1)])

    _print(arguments, answer, iter([names, *rows]), table)
    return 0


# ---- Text -----------------------------------------------------------------------------------------------------------


def _continue(arguments: argparse.Namespace, run: TextRun) -> int:
    """Print each prompt with the text that follows it."""
    from ..data.text import TextError

    options = _chosen(arguments, "text")
    answers = []
    for prompt in arguments.inputs or [None]:
        try:
            text = run.write(options["steps"], options["temperature"], options["seed"], prompt)
        except TextError as error:
            raise UsageError(f"the prompt {prompt!r} cannot be continued: {error}") from None
        except ValueError as error:
            raise UsageError(as_typed(error, arguments, {"length": "--steps"})) from None
        answers.append({"prompt": prompt or text[0], "text": text})
    rows = iter([list(answers[0]), *(list(each.values()) for each in answers)])
    _print(arguments, answers, rows, lambda: "\n\n".join(each["text"] for each in answers))
    return 0
