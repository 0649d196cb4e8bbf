"""Layers, losses and containers with PyTorch's names."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from ..torch_api.missing import attach_to_module
from . import (
    activation,
    attention,
    container,
    conv_recurrent,
    convolution,
    dropout,
    embedding,
    functional,
    init,
    lazy,
    linear,
    loss,
    module,
    normalization,
    padding,
    parallel,
    pooling,
    recurrent,
    recurrent_cell,
    recurrent_wrapper,
    resampling,
    transformer,
    utils,
)
from .activation import *
from .attention import *
from .container import *
from .conv_recurrent import *
from .convolution import *
from .dropout import *
from .embedding import *
from .lazy import *
from .linear import *
from .loss import *
from .module import *
from .normalization import *
from .padding import *
from .parallel import *
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter
from .parameter import UninitializedBuffer as UninitializedBuffer
from .parameter import UninitializedParameter as UninitializedParameter
from .pooling import *
from .recurrent import *
from .recurrent_cell import *
from .recurrent_wrapper import *
from .resampling import *
from .transformer import *

if TYPE_CHECKING:
    from . import grad

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "grad",
    "init",
    "utils",
]
__all__ += activation.__all__
__all__ += attention.__all__
__all__ += container.__all__
__all__ += conv_recurrent.__all__
__all__ += convolution.__all__
__all__ += dropout.__all__
__all__ += embedding.__all__
__all__ += lazy.__all__
__all__ += linear.__all__
__all__ += loss.__all__
__all__ += module.__all__
__all__ += normalization.__all__
__all__ += padding.__all__
__all__ += parallel.__all__
__all__ += pooling.__all__
__all__ += recurrent.__all__
__all__ += recurrent_cell.__all__
__all__ += recurrent_wrapper.__all__
__all__ += resampling.__all__
__all__ += transformer.__all__


def _sync_batch_norm() -> type:
    from ..distributed import SyncBatchNorm

    return SyncBatchNorm


attach_to_module(
    __name__,
    {"SyncBatchNorm": _sync_batch_norm, "grad": lambda: import_module(f"{__name__}.grad")},  # loaded on first use
)
