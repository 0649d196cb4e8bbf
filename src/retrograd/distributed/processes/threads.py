"""Threads of a worker: its part of the cores of its machine."""

from __future__ import annotations

import os
from functools import lru_cache

from ...kernels.machine.launch import set_num_threads

_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE")
_SET = ("RETROGRAD_NUM_THREADS", "OMP_NUM_THREADS")


def workers_here() -> int:
    """How many workers this machine has, as far as the launcher says."""
    return next((int(os.environ[name]) for name in _LOCAL_SIZES if os.environ.get(name, "").isdigit()), 1)


@lru_cache(maxsize=1)
def has_a_core() -> bool:
    """Whether there is a core for each worker of this machine, so that one that waits keeps none from its work."""
    return workers_here() <= (os.cpu_count() or 1)


def share_cores() -> None:
    """Give this worker as many threads as there are cores for it, unless the environment sets the number."""
    workers = workers_here()
    if workers > 1 and not any(name in os.environ for name in _SET):
        set_num_threads(max(1, len(os.sched_getaffinity(0)) // workers))
