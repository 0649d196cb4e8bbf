"""What the kernels mean: every kernel of ``retrograd.kernels`` in plain NumPy, same name and signature.

``retrograd.use_kernels("textbook")`` runs everything on this set, training included. The operators that call
have checked shapes and types. Inputs are never changed (but by optimiser steps); a result has their dtype.
"""

import sys

from . import pointwise
from .activation import *
from .adaptive_pooling import *
from .attention import *
from .convolution import *
from .cross_entropy import *
from .ctc import *
from .deformable import *
from .distance import *
from .elementwise import *
from .formula import *
from .group_norm import *
from .loss import *
from .margin import *
from .matmul import *
from .moves import *
from .normalization import *
from .optimizer import *
from .pick import *
from .piecewise import *
from .pooling import *
from .random import *
from .recurrent import *
from .reduction import *
from .scan import *
from .softmax import *
from .sparse import *

_FAMILIES = (
    "adaptive_pooling",
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
    "matmul",
    "moves",
    "normalization",
    "optimizer",
    "piecewise",
    "formula",
    "group_norm",
    "pick",
    "pooling",
    "random",
    "recurrent",
    "reduction",
    "scan",
    "softmax",
    "sparse",
)
globals().update(pointwise.KERNELS)
__all__ = [name for family in _FAMILIES for name in sys.modules[f"{__name__}.{family}"].__all__]
__all__ += pointwise.KERNELS
