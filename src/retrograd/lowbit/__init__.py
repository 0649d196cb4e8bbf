"""Low-bit networks: quantizers, the layers that use them, and model conversion.

``lowbit.Conv2d(16, 32, 3, weight=lowbit.DeepShiftQ(bits=5), activation=lowbit.Sign())`` trains float weights through
quantized ones. Any quantizer works with any layer.
"""

import sys

from ..ops.signatures import explain_wrong_arguments as _explain_wrong_arguments
from .base import *
from .binary_quantizers import *
from .convert import *
from .fusion import *
from .layers import *
from .pack import *
from .packed_layers import *
from .quantizer import *
from .recurrent import *
from .shift_quantizers import *
from .uniform_quantizers import *

_MODULES = (
    *("base", "binary_quantizers", "convert", "fusion", "layers", "pack", "packed_layers", "quantizer", "recurrent"),
    *("shift_quantizers", "uniform_quantizers"),
)
__all__ = [name for module in _MODULES for name in sys.modules[f"{__name__}.{module}"].__all__]

_explain_wrong_arguments(globals()[name] for name in __all__)
