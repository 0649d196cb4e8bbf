"""Python's ``multiprocessing`` under PyTorch's path; tensors are copied to other processes.

All started processes draw the same random numbers until each calls ``manual_seed`` with a different number.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403
from typing import Any, NoReturn

from .missing import attach_to_module

__all__ = [*multiprocessing.__all__, "spawn", "start_processes"]


def spawn(fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False) -> NoReturn:
    """Raise: MPI must start the processes that train together.

    Raises:
        RuntimeError: always.
    """
    name, count = getattr(fn, "__name__", "main"), nprocs if nprocs > 1 else "N"
    raise RuntimeError(
        "multiprocessing.spawn: MPI starts the processes that train together, not the script: call "
        f'{name}(rank, ...) with rank = int(os.environ["RANK"]), and start the script by retrograd launch -n {count}; '
        "for other work write multiprocessing.Process"
    )


def start_processes(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise, like ``spawn``.

    Raises:
        RuntimeError: always.
    """
    spawn(*args[:3])


attach_to_module(__name__)
