"""Training in several processes: ``torch.distributed`` on MPI.

Start a script with ``mpiexec -n 4 python train.py``, ``srun``, or ``retrograd launch -n 4 train.py``.
"""

from __future__ import annotations

from ..absent import attach_to_module
from .collectives import *
from .data_parallel import *
from .errors import *
from .loader import *
from .objects import *
from .point_to_point import *
from .process_group import *
from .trainer import *
from .work import *
from .workers import *

attach_to_module(__name__)
