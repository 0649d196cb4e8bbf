"""The textbook kernels: every kernel of ``retrograd.kernels`` in plain NumPy, with the same name and signature.

``retrograd.use_kernels("textbook")`` runs everything on this set, training included. The calling operators have checked
shapes and types. Only optimizer steps change their inputs; a result has the dtype of the inputs.
"""

import types

from . import pointwise
from .attention import *
from .convolution import *
from .deformable import *
from .distributions import *
from .indexing import *
from .linear_algebra import *
from .loss import *
from .lowbit import *
from .matmul import *
from .memory import *
from .normalization import *
from .optimizer import *
from .pointwise import *
from .pooling import *
from .random import *
from .recurrent import *
from .reduction import *
from .resampling import *
from .sequences import *
from .signal import *
from .sorting import *
from .special import *

globals().update(pointwise.KERNELS)
__all__ = [
    name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, types.ModuleType)
]
