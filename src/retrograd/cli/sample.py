"""``retrograd sample``: writes text with the network of a run, or a folder of pictures to train on."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from .output import UsageError, as_typed, complain, options_for, say

__all__ = ["add_command"]

_PHOTOS, _FOR_TEXT, _FOR_PHOTOS = "photos", "the run of a text network", "'retrograd sample photos'"
_MAX_COUNT = 100_000  # pictures of each class
_OPTIONS: dict[str, dict[str, Any]] = {  # of each use, with the defaults
    _FOR_TEXT: {"length": 1000, "temperature": 0.8, "prompt": None, "kernels": "compiled"},
    _FOR_PHOTOS: {"count": 100, "output": Path(_PHOTOS)},
}


def add_command(commands: Any) -> None:
    sample = commands.add_parser(
        "sample",
        help="write text with a trained network, or pictures to train on",
        description="Two uses. 'retrograd sample RUN' writes text with the network of a run of 'retrograd train text', "
        "character by character. 'retrograd sample photos' draws a folder of small pictures of cats and dogs to "
        "train on with 'retrograd train --images photos'. In both, the same seed gives the same result.",
    )
    sample.add_argument(
        "what", metavar="RUN|photos", help="the folder of a text run, or its checkpoint.npz; or the word photos"
    )
    sample.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the random numbers (0)")
    add = sample.add_argument_group("with a run").add_argument
    add("--length", type=int, metavar="N", help="characters to write (1,000)")
    add("--temperature", type=float, metavar="X", help="lower values favor likely characters (0.8)")
    add("--prompt", metavar="TEXT", help="start of the text (a newline)")
    add("--kernels", choices=("compiled", "textbook"), help="fast kernels, or plain NumPy (compiled)")
    add = sample.add_argument_group("with photos").add_argument
    add("--count", type=int, metavar="N", help="pictures of each class (100)")
    add("--output", type=Path, metavar="DIR", help="the folder to write to, new or empty (photos)")
    sample.set_defaults(run=_sample)


def _sample(arguments: argparse.Namespace) -> int:
    use = _FOR_PHOTOS if arguments.what == _PHOTOS else _FOR_TEXT
    chosen = {**_OPTIONS[use], **options_for(use, arguments, _OPTIONS)}
    if arguments.seed < 0:
        raise UsageError(f"--seed {arguments.seed} must be 0 or more")
    return _photos(arguments.seed, **chosen) if use == _FOR_PHOTOS else _text(arguments, **chosen)


def _photos(seed: int, count: int, output: Path) -> int:
    from ..data.drawings import CLASSES, draw_photos

    if not 1 <= count <= _MAX_COUNT:
        raise UsageError(f"--count {count} must be at least 1 and at most {_MAX_COUNT}")
    try:
        size = draw_photos(output, count, seed)
    except FileExistsError as error:
        raise UsageError(f"--output: {error}") from None
    except (ImportError, OSError) as error:
        return complain(str(error), 1)
    folders = ", ".join(f"{count} in {output / name}" for name in CLASSES)
    say(f"{folders}; {size / 1e6:.1f} MB. Train on them: retrograd train --images {shlex.quote(str(output))}")
    return 0


def _text(arguments: argparse.Namespace, length: int, temperature: float, prompt: str | None, kernels: str) -> int:
    from ..data.text import TextError
    from ..kernel_set import use_kernels
    from ..train import CheckpointError
    from ..train.inference import TextRun

    with use_kernels(kernels):
        try:
            text = TextRun(arguments.what).write(length, temperature, arguments.seed, prompt)
        except CheckpointError as error:
            return complain(str(error), 1)
        except TextError as error:
            raise UsageError(f"--prompt: {error}") from None
        except ValueError as error:
            raise UsageError(as_typed(error, arguments)) from None
    say(text)
    return 0
