"""``retrograd study``: trains several networks on the same images and writes a page that compares them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .output import UsageError, as_typed, complain, options_set, say, use_threads

__all__ = ["add_command"]

_STUDIES = ("low-bit", "feedback")
_OPTIONS = ("epochs", "batch_size", "lr", "seed")  # fields of Recipe


def add_command(commands: Any) -> None:
    study = commands.add_parser(
        "study",
        help="train several networks side by side and write a page about them",
        description="Train several networks on the same images and compare them. low-bit: one LeNet in float, with "
        "binary weights and activations (BNN, XNOR-Net), with powers of two as weights (DeepShift-Q and -PS) and with "
        "8-bit integers: accuracy, file size, time per image. feedback: one network by backpropagation and by "
        "three rules without the transposed weights: accuracy, and the angle to the true gradient.",
    )
    study.add_argument("study", choices=_STUDIES, metavar="STUDY", help="low-bit or feedback")
    study.add_argument(
        "data",
        nargs="?",
        choices=("digits", "mnist5k"),
        default="mnist5k",
        metavar="DATA",
        help="digits (in the package), or mnist5k, 5,000 images of MNIST (mnist5k)",
    )
    study.add_argument("--epochs", type=int, metavar="N", help="passes over the data (low-bit 30, feedback 20)")
    study.add_argument("--batch-size", type=int, metavar="N", help="images per step (64)")
    study.add_argument("--lr", type=float, metavar="X", help="Adam's highest learning rate (0.003; feedback 0.001)")
    study.add_argument("--seed", type=int, metavar="N", help="seed of all random numbers (0)")
    study.add_argument("--threads", type=int, metavar="N", help="threads; accuracies do not depend on them")
    study.add_argument("--output", type=Path, metavar="DIR", help="folder for the page (studies/STUDY-DATA)")
    study.set_defaults(run=_study)


def _study(arguments: argparse.Namespace) -> int:
    from dataclasses import replace
    from importlib.util import find_spec

    from .. import studies
    from .._files.terminal import display_name
    from ..train import TrainingError, make_progress

    run, recipe = studies.STUDIES[arguments.study]
    try:
        use_threads(arguments.threads)
        recipe = replace(recipe, **options_set(arguments, _OPTIONS))
    except ValueError as error:
        raise UsageError(as_typed(error, arguments)) from None
    needed = ("matplotlib", "safetensors") if arguments.study == "low-bit" else ("matplotlib",)
    missing = [package for package in needed if find_spec(package) is None]
    if missing:  # report this before the work, which takes minutes
        return complain(f'{" and ".join(missing)} not installed: pip install "retrograd[train,safetensors]"', 1)
    folder = arguments.output or Path("studies") / f"{arguments.study}-{arguments.data}"
    try:
        folder.mkdir(parents=True, exist_ok=True)  # create it before the work, which takes minutes
        result = run(arguments.data, recipe, make_progress(), folder)
        path = studies.write_study(result, folder)
    except (TrainingError, RuntimeError, OSError) as error:
        return complain(str(error), 1)
    say(f"{result}\n\nthe page is {display_name(path)}")
    return 0
