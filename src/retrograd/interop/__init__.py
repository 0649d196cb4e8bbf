"""Importing and exporting weights in the formats of other libraries."""

from __future__ import annotations

import importlib
from typing import Any

from . import convolution_weight, keras, mxnet, npz, packed, recurrent_weight, safetensors
from .convolution_weight import *
from .keras import *
from .layer_matching import WeightsFileError
from .mxnet import *
from .npz import *
from .packed import *
from .pt import PTFileError
from .recurrent_weight import *
from .safetensors import *

__all__ = [
    *convolution_weight.__all__,
    *keras.__all__,
    *mxnet.__all__,
    *npz.__all__,
    *packed.__all__,
    "PTFileError",
    *recurrent_weight.__all__,
    *safetensors.__all__,
    "WeightsFileError",
]

_OF_OTHERS = {"einops", "sklearn", "torch"}  # they import other libraries: only on request


def __getattr__(name: str) -> Any:
    if name in _OF_OTHERS:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
