"""``retrograd sample``: writes text with the network of a run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .output import UsageError, complain, say

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    sample = commands.add_parser(
        "sample",
        help="write text with a trained network",
        description="Write text with the network of a run of 'retrograd train text', character by character. The same "
        "seed gives the same text.",
    )
    sample.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="checkpoint.npz, or the run's folder")
    add = sample.add_argument
    add("--length", type=int, default=1000, metavar="N", help="characters to write (1,000)")
    add("--temperature", type=float, default=0.8, metavar="X", help="lower values favor likely characters (0.8)")
    add("--seed", type=int, default=0, metavar="N", help="seed of the random numbers (0)")
    add("--prompt", metavar="TEXT", help="start of the text (a newline)")
    add("--kernels", choices=("compiled", "textbook"), default="compiled", help="(compiled)")
    sample.set_defaults(run=_sample)


def _sample(arguments: argparse.Namespace) -> int:
    from ..data.text import TextError
    from ..kernel_set import use_kernels
    from ..train import CheckpointError
    from ..train.inference import Writer

    with use_kernels(arguments.kernels):
        try:
            writer = Writer(arguments.checkpoint)
            text = writer.write(arguments.length, arguments.temperature, arguments.seed, arguments.prompt)
        except CheckpointError as error:
            return complain(str(error), 1)
        except TextError as error:
            raise UsageError(f"--prompt: {error}") from None
        except ValueError as error:
            raise UsageError(f"--{error}") from None
    say(text)
    return 0
