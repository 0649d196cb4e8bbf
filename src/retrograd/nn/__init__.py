"""Layers, losses and containers with PyTorch's names."""

from . import (
    activation,
    container,
    convolution,
    dropout,
    functional,
    group_norm,
    init,
    linear,
    loss,
    module,
    normalization,
    pooling,
    utils,
)
from .activation import *
from .container import *
from .convolution import *
from .dropout import *
from .group_norm import *
from .linear import *
from .loss import *
from .module import *
from .normalization import *
from .parameter import Parameter
from .pooling import *

__all__ = ["Parameter", "functional", "init", "utils"]
__all__ += activation.__all__
__all__ += container.__all__
__all__ += convolution.__all__
__all__ += dropout.__all__
__all__ += group_norm.__all__
__all__ += linear.__all__
__all__ += loss.__all__
__all__ += module.__all__
__all__ += normalization.__all__
__all__ += pooling.__all__
