"""How fast: the compiled kernels. Arrays in, arrays out, under the signatures of ``retrograd.textbook``.

A wrapper module (``convolution.py``) cuts the work into tasks by shape; the module of the same name in ``compiled/``
holds what one task does. At the bottom stand ``simd/`` (vectors as values), ``microkernel.py`` (the batch-reduce
matrix product), ``launch.py`` (threads, loading) and ``scratch.py`` (memory for tasks); ``cache.py`` keeps machine code
on disk. Importing this package imports neither Numba nor any machine code.
"""

import sys

from . import pointwise
from .activation import *
from .attention import *
from .convolution import *
from .cross_entropy import *
from .ctc import *
from .deformable import *
from .distance import *
from .elementwise import *
from .extremes import *
from .formula import *
from .group_norm import *
from .launch import get_num_threads, set_num_threads
from .loss import *
from .margin import *
from .matmul import *
from .moments import *
from .moves import *
from .normalization import *
from .optimizer import *
from .pick import *
from .piecewise import *
from .pooling import *
from .precompile import warmup
from .random import *
from .recurrent import *
from .recurrent_grad import *
from .reduction import *
from .scan import *
from .softmax import *
from .sparse import *
from .spread import *

_FAMILIES = (
    "attention",
    "activation",
    "convolution",
    "cross_entropy",
    "ctc",
    "deformable",
    "distance",
    "elementwise",
    "loss",
    "margin",
    "extremes",
    "formula",
    "group_norm",
    "matmul",
    "moments",
    "moves",
    "normalization",
    "optimizer",
    "piecewise",
    "pick",
    "pooling",
    "random",
    "recurrent",
    "recurrent_grad",
    "reduction",
    "scan",
    "softmax",
    "sparse",
    "spread",
)
__all__ = ["get_num_threads", "set_num_threads", "warmup"]
globals().update(pointwise.KERNELS)
__all__ += pointwise.KERNELS
__all__ += [name for family in _FAMILIES for name in sys.modules[f"{__name__}.{family}"].__all__]
