"""``retrograd train --workers N``: starts the command again in N processes, which train together.

The processes of ``srun -n N retrograd train`` and ``mpiexec -n N retrograd train`` train together in the same way.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .output import UsageError, as_typed, complain

if TYPE_CHECKING:
    from ..train.lock import RunLock

__all__ = ["check_launched", "check_workers", "is_worker", "join_workers", "launched", "same_folder", "start_workers"]

_WORKER = "RETROGRAD_WORKER"  # set in the started processes


def is_worker() -> bool:
    """Return whether ``retrograd train --workers N`` started this process."""
    return _WORKER in os.environ


def launched() -> int:
    """Return the number of processes that srun or mpiexec started for this command; 1 without a launcher."""
    from ..distributed.mpi import launched_size

    return launched_size()


def check_launched(arguments: argparse.Namespace, size: int) -> None:
    """Check the options of a command that srun or mpiexec has started in `size` processes.

    Raises:
        UsageError: an option contradicts the number of processes or is not for started processes.
    """
    if arguments.workers not in (None, size):
        raise UsageError(f"--workers {arguments.workers}: {size} processes have been started already; leave it out")
    if arguments.max_restarts:
        raise UsageError("--max-restarts: this command has not started its processes itself; leave it out")
    check_workers(size)


def same_folder(argv: Sequence[str], choose: Callable[[], RunLock]) -> tuple[RunLock | None, Path | None]:
    """Agree on the output folder of ``srun -n N retrograd ARGV``. The first process chooses and locks it.

    Returns the lock, in the first process only, and the folder. Both are None in the other processes if the choice
    fails.

    Raises:
        Any error that ``choose`` raises, in the first process. UsageError: the processes have different arguments.
    """
    from ..distributed.object_collectives import exchange_objects, from_root
    from ..distributed.world import member

    world = member(None, "train")
    argvs = exchange_objects(world, list(argv), "retrograd train")
    for rank, other in enumerate(argvs):
        if other != argvs[0]:
            raise UsageError(
                f"srun or mpiexec started {len(argvs)} processes to train one network, and all must get the same "
                f"arguments; rank 0 has {' '.join(argvs[0])}, rank {rank} has {' '.join(other)}"
            )
    lock: RunLock | None = None
    folder, failure = None, None
    if world.rank() == 0:
        try:
            lock = choose()
            folder = str(lock.folder)
        except Exception as error:
            failure = error
    folder = from_root(world, folder, 0, "the folder of the run")
    if failure is not None:
        raise failure
    return lock, None if folder is None else Path(folder)


def check_workers(workers: int) -> None:
    """Check that each process gets a part of the batches.

    Raises:
        UsageError: there are too many processes, or none.
    """
    from ..distributed.train_workers import SHARDS

    if workers < 1:
        raise UsageError(f"--workers {workers} must be from 1 to {SHARDS}")
    if workers > SHARDS:
        raise UsageError(f"--workers {workers}: a batch is cut into {SHARDS} shards, so pass at most {SHARDS}")


def start_workers(arguments: argparse.Namespace, argv: Sequence[str], output: Path) -> int:
    """Run ``retrograd ARGV`` in ``--workers`` processes, with the folder ``output``, and return the exit code.

    The caller must hold the lock of the folder.
    """
    from ..distributed.errors import DistError
    from ..distributed.launcher import launch

    command = ["-m", "retrograd", *_without_output(argv), "--output", str(output)]
    try:
        return launch(
            arguments.workers,
            command,
            restarts=arguments.max_restarts,
            environment={_WORKER: "1"},
            say=lambda text: complain(text, 0),
        )
    except ValueError as error:
        raise UsageError(as_typed(error, arguments, {"restarts": "--max-restarts"})) from None
    except DistError as error:
        return complain(str(error), 1)


def join_workers() -> Any:
    """Return the processes that train together, including this one."""
    from ..distributed import Workers

    return Workers()


def _without_output(argv: Sequence[str]) -> list[str]:
    """Return the arguments without --output DIR, because the parent process passes one folder to all workers."""
    words, found = iter(argv), []
    for word in words:
        if word == "--output":
            next(words, None)
        elif not word.startswith("--output="):
            found.append(word)
    return found
