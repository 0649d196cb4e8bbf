"""What the commands have in common: wrong arguments, and what is said on stdout and stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from ..printable import printable

__all__ = ["UsageError", "complain", "given", "option", "say"]


class UsageError(Exception):
    """Arguments that do not make sense, alone or together."""


def complain(message: str, code: int) -> int:
    """A line on stderr; returns the exit code."""
    print(printable(f"retrograd: {message}"), file=sys.stderr, flush=True)
    return code


def say(text: str) -> None:
    """A part of the command's result, on stdout; names and text from a file cannot act on the terminal."""
    print(printable(text), flush=True)


def given(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """The options that the user gave."""
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


def option(name: str, value: Any) -> str:
    """How an option is written."""
    return f"--no-{name}" if value is False else f"--{name.replace('_', '-')}"
