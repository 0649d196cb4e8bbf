"""The meaning of the kernels: every kernel of ``retrograd.kernels`` in plain NumPy, with its name and signature.

``retrograd.use_kernels("textbook")`` runs everything on this set, training included. The calling operators have checked
shapes and types. Only optimizer steps change their inputs; a result has the dtype of the inputs.
"""

import types

from . import pointwise
from .activation import *
from .adaptive_pooling import *
from .attention import *
from .bits import *
from .constraints import *
from .convolution import *
from .cross_entropy import *
from .ctc import *
from .deformable import *
from .distance import *
from .formula import *
from .gamma import *
from .group_norm import *
from .initialization import *
from .loss import *
from .lowbit import *
from .margin import *
from .matmul import *
from .moves import *
from .normalization import *
from .optimizer import *
from .packing import *
from .per_sample import *
from .pick import *
from .pooling import *
from .random import *
from .recurrent import *
from .reduction import *
from .rounding import *
from .scan import *
from .softmax import *
from .sparse import *
from .special import *

globals().update(pointwise.KERNELS)
__all__ = [
    name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, types.ModuleType)
]
