"""What is differentiable: each operator's forward and backward side by side, one family a file.

Here are the functions of tensors, which ``retrograd`` offers and ``methods`` attaches to Tensor. What networks are made
of (convolution, pooling, normalization, loss, dropout) is offered by ``nn.functional``. kernel_set chooses the kernels,
dtype holds the element types, and gradients gives the engine what it adds and copies with.
"""

import sys

from . import gradients, methods  # noqa: F401  they attach themselves
from .broadcasting import *
from .comparison import *
from .creation import *
from .elementwise import *
from .extremes import *
from .kernel_set import active_kernels, use_kernels
from .matmul import *
from .norms import *
from .order import *
from .random import *
from .reduction import *
from .scan import *
from .search import *
from .shape import *
from .softmax import *
from .statistics import *

_FAMILIES = (
    "broadcasting",
    "comparison",
    "creation",
    "elementwise",
    "extremes",
    "matmul",
    "norms",
    "order",
    "random",
    "reduction",
    "scan",
    "search",
    "shape",
    "softmax",
    "statistics",
)
__all__ = ["active_kernels", "use_kernels"]
__all__ += [name for family in _FAMILIES for name in sys.modules[f"{__name__}.{family}"].__all__]
