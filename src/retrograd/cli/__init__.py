"""The command ``retrograd``: train, predict, export, sample, study, explain, where, launch, vectors, warmup, info.

Heavy imports happen inside the commands, so that ``--help`` and argument errors are instant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import explain, export, launch, machine, predict, sample, study, train, vectors
from .output import UsageError, complain, guarded

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 done, 1 failed, 2 usage error, 130 interrupted, 141 pipe closed."""
    return guarded(lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    arguments = _parser().parse_args(argv)
    arguments.argv = sys.argv[1:] if argv is None else list(argv)
    try:
        return int(arguments.run(arguments))
    except UsageError as error:
        return complain(f"{error}", 2)
    except KeyboardInterrupt:
        return complain("interrupted", 130)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="retrograd", description="Deep learning whose backward passes can be read.")
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    train.add_command(commands)
    predict.add_command(commands)
    export.add_command(commands)
    sample.add_command(commands)
    study.add_command(commands)
    explain.add_command(commands)
    launch.add_command(commands)
    vectors.add_command(commands)
    machine.add_commands(commands)
    return parser


def _version() -> str:
    from .. import __version__

    return f"retrograd {__version__}"
