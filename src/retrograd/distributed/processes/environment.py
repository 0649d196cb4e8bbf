"""The environment of a worker: what launchers of MPI programs say, under the names that scripts for torchrun read."""

from __future__ import annotations

import os

_NAMES = {  # torchrun's name -> the launchers' names
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"),
    "LOCAL_WORLD_SIZE": ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"),
}
# MPI connects the processes: scripts for torchrun print these, and nobody is there
_MASTER = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
ABORT_NOTE = "RETROGRAD_ABORT_NOTE"  # the file in which a process tells the launcher that it has ended the job


def set_environment(**known: int) -> None:
    """Set torchrun's names where the launcher gives them; or else to what is `known`."""
    for name, others in _NAMES.items():
        found = next((os.environ[other] for other in others if other in os.environ), None)
        if found is None and name in known:
            found = str(known[name])
        if found is not None:
            os.environ.setdefault(name, found)
    if "RANK" in os.environ:
        for name, value in _MASTER.items():
            os.environ.setdefault(name, value)
