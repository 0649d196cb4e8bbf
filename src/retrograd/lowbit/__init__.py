"""Low-bit networks: quantisers of weights and activations, the layers that take them, and converting a model.

``lowbit.Conv2d(16, 32, 3, weight=lowbit.DeepShiftQ(bits=5), activation=lowbit.Sign())`` trains float weights through
quantised ones. Any quantiser goes with any layer.
"""

import sys

from .base import *
from .binary import *
from .convert import *
from .fuse import *
from .layers import *
from .norm import *
from .pack import *
from .packed import *
from .quantizer import *
from .recurrent import *
from .shift import *
from .uniform import *

_FAMILIES = (
    "base",
    "binary",
    "convert",
    "fuse",
    "layers",
    "norm",
    "pack",
    "packed",
    "quantizer",
    "recurrent",
    "shift",
    "uniform",
)
__all__ = [name for family in _FAMILIES for name in sys.modules[f"{__name__}.{family}"].__all__]
