"""Training in several processes: an implementation of ``torch.distributed`` on MPI.

Start a script with ``mpiexec -n 4 python train.py``, ``srun``, or ``retrograd launch -n 4 train.py``.
"""

import sys

from ..torch_api import elastic as elastic
from . import algorithms as algorithms
from . import mpi
from . import optim as optim
from .collectives import *
from .data_parallel import *
from .errors import *
from .gradient_bucket import *
from .missing import attach
from .object_collectives import *
from .point_to_point import *
from .process_group import *
from .sharded_training import *
from .sync_batch_norm import *
from .train_workers import *
from .work import *
from .world import *

_MODULES = (
    "errors",
    "process_group",
    "world",
    "collectives",
    "point_to_point",
    "object_collectives",
    "work",
    "data_parallel",
    "gradient_bucket",
    "sync_batch_norm",
    "sharded_training",
    "train_workers",
)
__all__ = [name for module in _MODULES for name in sys.modules[f"{__name__}.{module}"].__all__]

if mpi.is_launched():  # also by mpiexec or srun: set the environment before the script reads it
    mpi.set_environment()
attach(__name__)
