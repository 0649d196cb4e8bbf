"""What is differentiable: each operator's forward and backward side by side, one family a file.

Here are the functions of tensors, which ``retrograd`` offers and ``methods`` attaches to Tensor. What networks are made
of (convolution, pooling, normalization, loss, dropout) is offered by ``nn.functional``. kernel_set chooses the kernels,
dtype holds the element types, and gradients gives the engine what it adds and copies with.
"""

import sys

from . import gradients, methods  # noqa: F401  they attach themselves
from .broadcasting import *
from .cells import *
from .comparison import *
from .convolution_plan import exact_convolution
from .creation import *
from .diagonal import *
from .einsum import *
from .elementwise import *
from .extremes import *
from .gather import *
from .indexing import *
from .join import *
from .kernel_set import active_kernels, use_kernels
from .matmul import *
from .norms import *
from .order import *
from .pairs import *
from .piecewise import *
from .powers import *
from .products import *
from .random import *
from .rearrange import *
from .reduction import *
from .rounding import *
from .sampling import *
from .scan import *
from .search import *
from .selection import *
from .shape import *
from .softmax import *
from .splitting import *
from .statistics import *
from .transcendental import *
from .trigonometry import *

_FAMILIES = (
    "broadcasting",
    "cells",
    "comparison",
    "creation",
    "diagonal",
    "einsum",
    "elementwise",
    "gather",
    "indexing",
    "join",
    "matmul",
    "pairs",
    "piecewise",
    "powers",
    "products",
    "extremes",
    "norms",
    "order",
    "random",
    "rearrange",
    "reduction",
    "rounding",
    "sampling",
    "selection",
    "shape",
    "softmax",
    "splitting",
    "transcendental",
    "trigonometry",
    "scan",
    "search",
    "statistics",
)
__all__ = ["active_kernels", "exact_convolution", "use_kernels"]
__all__ += [name for family in _FAMILIES for name in sys.modules[f"{__name__}.{family}"].__all__]
