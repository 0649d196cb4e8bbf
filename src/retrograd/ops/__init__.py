"""The differentiable operators: forward and backward passes side by side, one folder per subject.

This package exports the tensor functions, and ``methods`` attaches them to Tensor as methods. ``nn.functional`` exports
the neural-network operators (convolution, pooling, normalization, losses, dropout). ``dtypes`` contains the element
types, ``argument_checks`` the checks shared by all operators.
"""

import types
import typing

from ..kernel_set import active_kernels as active_kernels
from ..kernel_set import use_kernels as use_kernels
from .convolution.plan import exact_convolution as exact_convolution
from .creation import *
from .index.gather import *
from .index.indexing import *
from .index.search import *
from .index.selection import *
from .index.sorting import *
from .linalg.aliases import *
from .linalg.lu import lu_unpack as lu_unpack
from .linalg.matrix_functions import chain_matmul as chain_matmul
from .normalization.softmax import *
from .pointwise.arithmetic import *
from .pointwise.comparison import *
from .pointwise.exponential import *
from .pointwise.floating_point import *
from .pointwise.piecewise import *
from .pointwise.rounding import *
from .pointwise.trigonometry import *
from .product.distance import *
from .product.einsum import *
from .product.matmul import *
from .product.products import *
from .random.random import *
from .random.sampling import *
from .recurrent.recurrent import *
from .reduce.calculus import *
from .reduce.correlation import *
from .reduce.norms import *
from .reduce.reduction import *
from .reduce.scan import *
from .reduce.statistics import *
from .shape.broadcasting import *
from .shape.diagonal import *
from .shape.join import *
from .shape.padding import constant_pad_nd as constant_pad_nd
from .shape.rearrange import *
from .shape.shape import *
from .shape.splitting import *
from .signatures import add_forms as _add_forms
from .sparse import *
from .special import *
from .special import polygamma as polygamma
from .spectral import *
from .storage import *

# isort: split
from . import methods  # attaches the operators registered above to Tensor

_add_forms(globals())

if not typing.TYPE_CHECKING:  # type checkers cannot evaluate this and would assume an empty list
    __all__ = [
        name
        for name, value in globals().items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    ]
