"""``retrograd train --workers N``: starts the command again in N processes, which train together."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .answers import UsageError, complain

__all__ = ["check_workers", "is_worker", "joined", "start_workers"]

_WORKER = "RETROGRAD_WORKER"  # set in the processes that are started


def is_worker() -> bool:
    """Whether this process is one of those."""
    return _WORKER in os.environ


def check_workers(workers: int) -> None:
    """Check that each process gets a part of the batches.

    Raises:
        UsageError: there are too many.
    """
    from ..distributed.training.workers import SHARDS

    if workers > SHARDS:
        raise UsageError(f"--workers {workers}: a batch is cut into {SHARDS} shards, so pass at most {SHARDS}")


def start_workers(arguments: argparse.Namespace, line: Sequence[str], output: Path) -> int:
    """Run the command ``retrograd LINE`` in ``--workers`` processes, with the folder ``output``; returns the exit code.

    The caller holds the lock of the folder.
    """
    from ..distributed.errors import DistError
    from ..distributed.processes.launcher import launch

    command = ["-m", "retrograd", *_without_output(line), "--output", str(output)]
    try:
        return launch(
            arguments.workers,
            command,
            restarts=arguments.max_restarts,
            environment={_WORKER: "1"},
            say=lambda text: complain(text, 0),
        )
    except ValueError as error:
        raise UsageError(f"--workers: {error}") from None
    except DistError as error:
        return complain(str(error), 1)


def joined() -> Any:
    """The processes that train together, this one among them."""
    from ..distributed import Workers

    return Workers()


def _without_output(line: Sequence[str]) -> list[str]:
    """The command line without --output DIR, which is chosen once, for all processes."""
    words, found = iter(line), []
    for word in words:
        if word == "--output":
            next(words, None)
        elif not word.startswith("--output="):
            found.append(word)
    return found
