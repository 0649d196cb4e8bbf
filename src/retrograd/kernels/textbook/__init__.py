"""The meaning of the kernels: every kernel of ``retrograd.kernels`` in plain NumPy, with its name and signature.

``retrograd.use_kernels("textbook")`` runs everything on this set, training included. The calling operators have checked
shapes and types. Only optimizer steps change their inputs; a result has the dtype of the inputs.
"""

import types

from . import pointwise
from .activation import *
from .adaptive_pooling import *
from .attention import *
from .binary import *
from .bits import *
from .comparison import *
from .constraints import *
from .convolution import *
from .cross_entropy import *
from .ctc import *
from .decompositions import *
from .deformable import *
from .differences import *
from .distance import *
from .embedding import *
from .exponential import *
from .formula import *
from .fourier import *
from .fractional_pooling import *
from .gamma import *
from .grid import *
from .group_norm import *
from .initialization import *
from .integers import *
from .labels import *
from .ldl import *
from .lengths import *
from .limits import *
from .loss import *
from .lowbit import *
from .lu import *
from .margin import *
from .masks import *
from .matmul import *
from .moves import *
from .normalization import *
from .optimizer import *
from .ordering import *
from .packing import *
from .per_sample import *
from .pick import *
from .pooling import *
from .progressions import *
from .random import *
from .recurrent import *
from .reduction import *
from .resampling import *
from .rounding import *
from .sampling import *
from .scan import *
from .scatter import *
from .search import *
from .softmax import *
from .solving import *
from .sparse import *
from .special import *
from .strides import *
from .triangles import *
from .windows import *

globals().update(pointwise.KERNELS)
__all__ = [
    name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, types.ModuleType)
]
