"""Python's own ``multiprocessing`` under PyTorch's path; tensors are copied to other processes.

Processes that it starts all draw the same random numbers until each calls ``manual_seed`` with a number of its own.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403
from typing import Any, NoReturn

from .missing import attach_to_module

__all__ = [*multiprocessing.__all__, "spawn", "start_processes"]


def spawn(fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False) -> NoReturn:
    """Refused: processes that train together are those that MPI has started.

    Raises:
        RuntimeError: always.
    """
    name, count = getattr(fn, "__name__", "main"), nprocs if nprocs > 1 else "N"
    raise RuntimeError(
        "multiprocessing.spawn: a script does not start the processes that train together, MPI does: call "
        f'{name}(rank, ...) with rank = int(os.environ["RANK"]), and start the script by retrograd launch -n {count}; '
        "for other work write multiprocessing.Process"
    )


def start_processes(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused like ``spawn``.

    Raises:
        RuntimeError: always.
    """
    spawn(*args[:3])


attach_to_module(__name__)
