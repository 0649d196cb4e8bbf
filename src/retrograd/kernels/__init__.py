"""How fast: the compiled kernels. Arrays in, arrays out, under the signatures of ``retrograd.textbook``.

A wrapper module (``convolution.py``) cuts the work into tasks by shape; the module of the same name in ``compiled/``
holds what one task does. At the bottom stand ``simd/`` (vectors as values), ``microkernel.py`` (the batch-reduce
matrix product), ``launch.py`` (threads, loading) and ``scratch.py`` (memory for tasks); ``cache.py`` keeps machine code
on disk. Importing this package imports neither Numba nor any machine code.
"""

import sys

from .convolution import *
from .elementwise import *
from .extremes import *
from .group_norm import *
from .launch import get_num_threads, set_num_threads
from .matmul import *
from .moments import *
from .normalization import *
from .optimizer import *
from .pick import *
from .pooling import *
from .precompile import warmup
from .reduction import *
from .scan import *
from .softmax import *
from .spread import *

_FAMILIES = (
    "convolution",
    "elementwise",
    "extremes",
    "group_norm",
    "matmul",
    "moments",
    "normalization",
    "optimizer",
    "pick",
    "pooling",
    "reduction",
    "scan",
    "softmax",
    "spread",
)
__all__ = ["get_num_threads", "set_num_threads", "warmup"]
__all__ += [name for family in _FAMILIES for name in sys.modules[f"{__name__}.{family}"].__all__]
