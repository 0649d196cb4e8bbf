"""Shared by the commands: usage errors, and output on stdout and stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from .._files.terminal import printable

__all__ = ["UsageError", "complain", "options_set", "option", "say"]


class UsageError(Exception):
    """Arguments that are invalid, alone or together."""


def complain(message: str, code: int) -> int:
    """Print a line on stderr; returns the exit code."""
    print(printable(f"retrograd: {message}"), file=sys.stderr, flush=True)
    return code


def say(text: str) -> None:
    """Print a part of the command's result on stdout; control characters in names and text are escaped."""
    print(printable(text), flush=True)


def options_set(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """The options set by the user."""
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


def option(name: str, value: Any) -> str:
    """An option as written on the command line."""
    return f"--no-{name}" if value is False else f"--{name.replace('_', '-')}"
