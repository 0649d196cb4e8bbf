"""Training in several processes: ``torch.distributed`` on MPI.

Start a script with ``mpiexec -n 4 python train.py``, ``srun``, or ``retrograd launch -n 4 train.py``.
"""

import sys

from ..absent import attach_to_module
from . import algorithms as algorithms
from . import optim as optim
from .collectives import *
from .data_parallel import *
from .errors import *
from .future import *
from .grad_bucket import *
from .loader import *
from .objects import *
from .point_to_point import *
from .process_group import *
from .sync_batch_norm import *
from .trainer import *
from .work import *
from .workers import *

_FILES = (
    "collectives", "data_parallel", "errors", "future", "grad_bucket", "loader", "objects", "point_to_point",
    "process_group", "sync_batch_norm", "trainer", "work", "workers",
)  # fmt: skip
__all__ = [name for file in _FILES for name in sys.modules[f"{__name__}.{file}"].__all__]

attach_to_module(__name__)
