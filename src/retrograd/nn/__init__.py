"""Layers, losses and containers with PyTorch's names."""

import sys

from ..torch_api.missing import attach_to_module
from . import functional, grad, init, utils
from .activation import *
from .attention import *
from .container import *
from .conv_recurrent import *
from .conv_recurrent_cell import *
from .convolution import *
from .deformable import *
from .dropout import *
from .embedding import *
from .group_norm import *
from .lazy import *
from .linear import *
from .loss.classification import *
from .loss.ctc import *
from .loss.distance import *
from .loss.likelihood import *
from .loss.ranking import *
from .loss.regression import *
from .module import *
from .normalization import *
from .padding import *
from .parallel import *
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter
from .parameter_container import *
from .pooling import *
from .rectifier import *
from .recurrent import *
from .recurrent_cell import *
from .recurrent_wrapper import *
from .resolution import *
from .transformer import *
from .uninitialized import *

_FAMILIES = (
    "activation",
    "attention",
    "container",
    "conv_recurrent",
    "conv_recurrent_cell",
    "convolution",
    "deformable",
    "dropout",
    "embedding",
    "group_norm",
    "lazy",
    "linear",
    "loss",
    "module",
    "normalization",
    "padding",
    "parallel",
    "parameter_container",
    "pooling",
    "rectifier",
    "recurrent",
    "recurrent_cell",
    "recurrent_wrapper",
    "resolution",
    "transformer",
    "uninitialized",
)
__all__ = ["Buffer", "Parameter", "functional", "grad", "init", "utils"]
__all__ += [name for family in _FAMILIES for name in sys.modules[f"{__name__}.{family}"].__all__]


def _sync_batch_norm() -> type:
    from ..distributed import SyncBatchNorm

    return SyncBatchNorm


attach_to_module(__name__, {"SyncBatchNorm": _sync_batch_norm})
