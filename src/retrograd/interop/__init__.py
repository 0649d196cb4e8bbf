"""Importing and exporting weights in the formats of other libraries."""

from . import convolution_weight, packed, recurrent_weight, safetensors
from .convolution_weight import *
from .packed import *
from .pt import PTFileError
from .recurrent_weight import *
from .safetensors import *

__all__ = [*convolution_weight.__all__, *packed.__all__, "PTFileError", *recurrent_weight.__all__,
           *safetensors.__all__]  # fmt: skip
