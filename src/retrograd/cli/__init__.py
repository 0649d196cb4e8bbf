"""The command ``retrograd``: train, predict, export, sample, study, explain, where, launch, vectors, warmup, info.

Heavy imports happen inside the commands, so that ``--help`` and argument errors are instant.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Sequence
from typing import Any

from . import explain, export, launch, machine, predict, sample, study, train, vectors
from .output import Parser, UsageError, complain, guarded

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 done, 1 failed, 2 usage error, 130 interrupted, 141 pipe closed."""
    return guarded(lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    try:
        arguments = _parsed(argv)
        return int(arguments.run(arguments))
    except UsageError as error:
        return complain(f"{error}", 2)
    except KeyboardInterrupt:
        return complain("interrupted", 130)


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments.

    Raises:
        UsageError: they are wrong.
    """
    parser, commands = _parser()
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        command = commands.choices[arguments.command_name]
        names = re.findall(r"(?<![\w-])--[\w-]+", command.format_help())
        close = difflib.get_close_matches(unknown[0].partition("=")[0], names, 1)
        hint = f"did you mean {close[0]}?" if close else f"see {command.prog} --help"
        what = "option" if unknown[0].startswith("-") else "argument"
        raise UsageError(f"{command.prog} has no {what} {unknown[0]}; {hint}")
    arguments.argv = sys.argv[1:] if argv is None else list(argv)
    return arguments


def _parser() -> tuple[argparse.ArgumentParser, Any]:
    """Return the parser, and its commands."""
    parser = Parser(prog="retrograd", description="Deep learning whose backward passes can be read.")
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command_name", required=True)
    train.add_command(commands)
    predict.add_command(commands)
    export.add_command(commands)
    sample.add_command(commands)
    study.add_command(commands)
    explain.add_command(commands)
    launch.add_command(commands)
    vectors.add_command(commands)
    machine.add_commands(commands)
    return parser, commands


def _version() -> str:
    from .. import __version__

    return f"retrograd {__version__}"
