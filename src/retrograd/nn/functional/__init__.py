"""Layers as functions, with the names, argument order and defaults of ``torch.nn.functional``.

N batch, Ci/Co channels, I/R/O extents of input, kernel and output. Most functions are defined in ``ops``; this package
defines those with one version per number of axes.
"""

import sys

from ...absent import attach_to_module
from ...ops.activation import *
from ...ops.attention import *
from ...ops.convolution_plan import conv_plan
from ...ops.deformable import *
from ...ops.distance import *
from ...ops.dropout import *
from ...ops.embedding import *
from ...ops.gating import *
from ...ops.grid import *
from ...ops.group_norm import *
from ...ops.loss.binary import *
from ...ops.loss.classification import *
from ...ops.loss.ctc import *
from ...ops.loss.likelihood import *
from ...ops.loss.margin import *
from ...ops.loss.ranking import *
from ...ops.loss.regression import *
from ...ops.matmul import bilinear, linear
from ...ops.normalization import *
from ...ops.padding import *
from ...ops.pixels import *
from ...ops.rectifier import *
from ...ops.resampling import *
from ...ops.softmax import log_softmax, softmax
from ...ops.transcendental import sigmoid
from ...ops.trigonometry import tanh
from ...ops.windows import *
from .convolution import *
from .pooling import *
from .recurrent import *

_HERE = ("convolution", "pooling", "recurrent")
_LOSSES = ("binary", "classification", "ctc", "likelihood", "margin", "ranking", "regression")
_OPERATORS = (
    "activation",
    "attention",
    "deformable",
    "distance",
    "dropout",
    "embedding",
    "gating",
    "grid",
    "group_norm",
    "normalization",
    "padding",
    "pixels",
    "rectifier",
    "resampling",
    "windows",
    *(f"loss.{subject}" for subject in _LOSSES),
)
_PACKAGE = __name__.partition(".")[0]
__all__ = ["bilinear", "conv_plan", "linear", "log_softmax", "sigmoid", "softmax", "tanh"]
__all__ += [name for family in _HERE for name in sys.modules[f"{__name__}.{family}"].__all__]
__all__ += [name for family in _OPERATORS for name in sys.modules[f"{_PACKAGE}.ops.{family}"].__all__]

attach_to_module(__name__)
