"""The differentiable operators, forward and backward side by side, a folder for each subject.

This package exports the functions of tensors, which ``methods`` attaches to Tensor; ``nn.functional`` exports those of
networks (convolution, pooling, normalization, loss, dropout). dtypes holds the element types, arguments the checks that
operators share.
"""

import types
import typing

from ..kernel_set import active_kernels as active_kernels
from ..kernel_set import use_kernels as use_kernels
from .arguments.forms import add_forms as _add_forms
from .convolution.plan import exact_convolution as exact_convolution
from .creation.creation import *
from .creation.window import *
from .fourier.spectrogram import *
from .index.gather import *
from .index.indexing import *
from .index.order import *
from .index.quantiles import *
from .index.scattering import *
from .index.search import *
from .index.selection import *
from .index.sets import *
from .linalg.aliases import *
from .linalg.functions import chain_matmul as chain_matmul
from .linalg.lu import lu_unpack as lu_unpack
from .linalg.vandermonde import *
from .normalization.softmax import *
from .pointwise.comparison import *
from .pointwise.elementwise import *
from .pointwise.numbers import *
from .pointwise.piecewise import *
from .pointwise.powers import *
from .pointwise.rounding import *
from .pointwise.transcendental import *
from .pointwise.trigonometry import *
from .product.einsum import *
from .product.matmul import *
from .product.pairs import *
from .product.products import *
from .random.random import *
from .random.sampling import *
from .recurrent.cells import *
from .reduce.calculus import *
from .reduce.correlation import *
from .reduce.extremes import *
from .reduce.norms import *
from .reduce.reduction import *
from .reduce.scan import *
from .reduce.statistics import *
from .shape.blocks import *
from .shape.broadcasting import *
from .shape.diagonal import *
from .shape.join import *
from .shape.padding import constant_pad_nd as constant_pad_nd
from .shape.rearrange import *
from .shape.shape import *
from .shape.splitting import *
from .shape.strides import *
from .sparse.coo import *
from .special.bessel import *
from .special.gamma import *
from .special.gamma import polygamma as polygamma
from .special.normal import *

# isort: split
from . import methods  # attaches to Tensor what the files above have registered

_add_forms(globals())

if not typing.TYPE_CHECKING:  # type checkers cannot evaluate it and would take it for empty
    __all__ = [
        name
        for name, value in globals().items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    ]
