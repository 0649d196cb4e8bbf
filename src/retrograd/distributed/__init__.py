"""Training in several processes: ``torch.distributed`` on MPI.

Start a script with ``mpiexec -n 4 python train.py``, ``srun``, or ``retrograd launch -n 4 train.py``.
"""

import sys

from ..torch_api import elastic as elastic
from . import algorithms as algorithms
from . import optim as optim
from .absent import attach
from .collectives.future import *
from .collectives.objects import *
from .collectives.point_to_point import *
from .collectives.tensors import *
from .collectives.work import *
from .errors import *
from .gradients.data_parallel import *
from .gradients.grad_bucket import *
from .gradients.sync_batch_norm import *
from .processes import environment, mpi
from .processes.process_group import *
from .processes.world import *
from .training.loader import *
from .training.trainer import *
from .training.workers import *

_FILES = (
    "errors",
    "processes.process_group",
    "processes.world",
    "collectives.tensors",
    "collectives.point_to_point",
    "collectives.objects",
    "collectives.work",
    "collectives.future",
    "gradients.data_parallel",
    "gradients.grad_bucket",
    "gradients.sync_batch_norm",
    "training.loader",
    "training.trainer",
    "training.workers",
)
__all__ = [name for file in _FILES for name in sys.modules[f"{__name__}.{file}"].__all__]

if mpi.is_launched():  # by mpiexec or srun as well, before the script reads it
    environment.set_environment()
attach(__name__)
