"""Layers, losses and containers with PyTorch's names."""

from ..absent import attach_to_module
from . import (
    activation,
    attention,
    container,
    conv_recurrent,
    conv_recurrent_cell,
    convolution,
    deformable,
    dropout,
    embedding,
    functional,
    grad,
    group_norm,
    init,
    lazy,
    linear,
    loss,
    module,
    normalization,
    padding,
    parameter_container,
    pooling,
    rectifier,
    recurrent,
    recurrent_cell,
    recurrent_wrapper,
    resolution,
    uninitialized,
    utils,
)
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
from .loss import *
from .module import *
from .normalization import *
from .padding import *
from .parameter import Parameter
from .parameter_container import *
from .pooling import *
from .rectifier import *
from .recurrent import *
from .recurrent_cell import *
from .recurrent_wrapper import *
from .resolution import *
from .uninitialized import *

__all__ = ["Parameter", "functional", "grad", "init", "utils"]
__all__ += activation.__all__
__all__ += attention.__all__
__all__ += container.__all__
__all__ += conv_recurrent.__all__
__all__ += conv_recurrent_cell.__all__
__all__ += convolution.__all__
__all__ += deformable.__all__
__all__ += dropout.__all__
__all__ += embedding.__all__
__all__ += group_norm.__all__
__all__ += lazy.__all__
__all__ += linear.__all__
__all__ += loss.__all__
__all__ += module.__all__
__all__ += normalization.__all__
__all__ += padding.__all__
__all__ += parameter_container.__all__
__all__ += pooling.__all__
__all__ += rectifier.__all__
__all__ += recurrent.__all__
__all__ += recurrent_cell.__all__
__all__ += recurrent_wrapper.__all__
__all__ += resolution.__all__
__all__ += uninitialized.__all__

attach_to_module(__name__)
