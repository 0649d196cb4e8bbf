"""What the kernels mean: every kernel of ``retrograd.kernels`` in plain NumPy, same name and signature.

``retrograd.use_kernels("textbook")`` runs everything on this set, training included. The operators that call
have checked shapes and types. Inputs are never changed (but by optimiser steps); a result has their dtype.
"""

import sys

from .convolution import *
from .elementwise import *
from .group_norm import *
from .matmul import *
from .normalization import *
from .optimizer import *
from .pick import *
from .pooling import *
from .reduction import *
from .scan import *
from .softmax import *

_FAMILIES = (
    "convolution",
    "elementwise",
    "group_norm",
    "matmul",
    "normalization",
    "optimizer",
    "pick",
    "pooling",
    "reduction",
    "scan",
    "softmax",
)
__all__ = [name for family in _FAMILIES for name in sys.modules[f"{__name__}.{family}"].__all__]
