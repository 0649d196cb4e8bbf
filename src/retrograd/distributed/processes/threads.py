"""Threads of a worker: its part of the cores of its machine."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import numpy as np

from ...kernels.compiled.machine.launch import set_num_threads

_SET = ("RETROGRAD_NUM_THREADS", "OMP_NUM_THREADS")
_CORES = 8192  # more than a machine has


@lru_cache(maxsize=1)
def has_a_core() -> bool:
    """Whether there is a core for each worker of this machine, so that one that waits keeps none from its work."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) <= (os.cpu_count() or 1)


def share_cores(here: Any) -> None:
    """Give this worker as many threads as there are cores for it, unless the environment sets the number.

    here: MPI's communicator of the workers of this machine. Each core is shared by those that may run on it: launchers
    give each worker cores of its own, or all of them all cores.
    """
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cores = [core for core in mine if core < _CORES]
    own, workers = np.zeros(_CORES, np.intc), np.empty(_CORES, np.intc)
    own[cores] = 1
    here.Allreduce(own, workers)
    if not any(name in os.environ for name in _SET):
        set_num_threads(max(1, int((1 / workers[cores]).sum() + 1e-6)))
