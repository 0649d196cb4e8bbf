"""``retrograd vectors``: writes test vectors for gradients, as ONNX files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .output import UsageError, complain, say

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    vectors = commands.add_parser(
        "vectors",
        help="write gradient test vectors, for checking other programs",
        description="Write operators with inputs, upstream gradients and the resulting gradients, in the "
        "layout of ONNX's backend tests: a folder for each case, with model.onnx and numbers in float64. Any program "
        "that computes gradients can be checked with them.",
    )
    vectors.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="a folder that is new or empty")
    vectors.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="WORD",
        help="cases with this word in the name, the operator or the family, such as lstm; may be repeated",
    )
    vectors.add_argument("--list", action="store_true", help="print the names of the cases, and write nothing")
    vectors.set_defaults(run=_vectors)


def _vectors(arguments: argparse.Namespace) -> int:
    from ..onnx.vectors import chosen, write

    try:
        cases = chosen(arguments.only)
    except ValueError as error:
        raise UsageError(f"--only: {error}") from None
    if arguments.list:
        say("\n".join(case.folder for case in cases))
        return 0
    if arguments.folder is None:
        raise UsageError("DIR is missing: name a folder that is new or empty, or --list the cases")
    folder = arguments.folder
    try:
        size = write(folder, cases)
    except ImportError as error:
        return complain(str(error), 1)
    except FileExistsError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        return complain(str(error), 1)
    say(f"{folder}: {len(cases)} {'case' if len(cases) == 1 else 'cases'}, {size / 1e6:.2f} MB")
    return 0
