"""Layers as functions: PyTorch's ``torch.nn.functional``, its names, argument order and defaults.

N batch, Ci/Co channels, I/R/O extents of input, kernel and output. A function stands with its operator in ``ops``; here
are those that exist once for each number of axes.
"""

import sys

from ...ops.dropout import *
from ...ops.elementwise import relu, sigmoid, tanh
from ...ops.group_norm import *
from ...ops.loss import *
from ...ops.matmul import linear
from ...ops.normalization import *
from ...ops.softmax import log_softmax, softmax
from .convolution import *
from .pooling import *

_HERE = ("convolution", "pooling")
_OPERATORS = ("dropout", "group_norm", "loss", "normalization")
_PACKAGE = __name__.partition(".")[0]
__all__ = ["linear", "log_softmax", "relu", "sigmoid", "softmax", "tanh"]
__all__ += [name for family in _HERE for name in sys.modules[f"{__name__}.{family}"].__all__]
__all__ += [name for family in _OPERATORS for name in sys.modules[f"{_PACKAGE}.ops.{family}"].__all__]
