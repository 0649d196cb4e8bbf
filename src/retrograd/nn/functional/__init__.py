"""Layers as functions, with the names, argument order and defaults of ``torch.nn.functional``.

Most functions are defined in ``ops``. This package defines those with one version per number of axes, multi-head
attention, MXNet's ``rnn``, and softmax with an optional axis.

N batch, Ci/Co channels, I/R/O extents of input, kernel and output.
"""

import types

from ...ops.convolution.deformable import *
from ...ops.convolution.plan import conv_plan as conv_plan
from ...ops.index.embedding import *
from ...ops.loss.classification import *
from ...ops.loss.ctc import *
from ...ops.loss.margin import *
from ...ops.loss.regression import *
from ...ops.normalization.batch_norm import *
from ...ops.normalization.layer_norm import *
from ...ops.pointwise.activation import *
from ...ops.pointwise.exponential import sigmoid as sigmoid
from ...ops.pointwise.gating import *
from ...ops.pointwise.trigonometry import tanh as tanh
from ...ops.product.attention import *
from ...ops.product.distance import cosine_similarity as cosine_similarity
from ...ops.product.distance import pairwise_distance as pairwise_distance
from ...ops.product.distance import pdist as pdist
from ...ops.product.matmul import bilinear as bilinear
from ...ops.product.matmul import linear as linear
from ...ops.random.dropout import *
from ...ops.resampling import *
from ...ops.shape.padding import *
from ...ops.shape.rearrange import channel_shuffle as channel_shuffle
from ...ops.shape.rearrange import pixel_shuffle as pixel_shuffle
from ...ops.shape.rearrange import pixel_unshuffle as pixel_unshuffle
from ...ops.shape.sliding_windows import *
from ...ops.signatures import with_direct_forms as _with_direct_forms
from ...torch_api import missing
from .attention import *
from .convolution import *
from .pooling import *
from .recurrent import *
from .softmax import *

__all__ = [
    name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, types.ModuleType)
]

_with_direct_forms(globals())
missing.attach_to_module(__name__)
