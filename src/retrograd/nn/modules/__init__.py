"""PyTorch's paths to its layers, ``torch.nn.modules.conv`` and the like: each is another name of this module.

It has all that ``nn`` has, and the base classes and helpers that scripts import from there, which begin with "_".
"""

from __future__ import annotations

from typing import Any

from ... import nn
from ...aliases import alias_modules
from ..convolution import _Conv as _ConvNd
from ..convolution import _ConvTranspose as _ConvTransposeNd
from ..dropout import _Dropout as _DropoutNd
from ..loss.base import Loss as _Loss
from ..normalization import _BatchNorm, _InstanceNorm
from ..normalization import _ChannelNorm as _NormBase
from ..pooling import _AvgPool as _AvgPoolNd
from ..pooling import _MaxPool as _MaxPoolNd
from ..utils.tuples import _ntuple, _pair, _single, _triple

__all__: list[str] = []

_WeightedLoss = _Loss
NonDynamicallyQuantizableLinear = nn.Linear  # of an attention, by PyTorch's name

alias_modules(
    __name__,
    (
        *("activation", "adaptive", "batchnorm", "channelshuffle", "container", "conv", "distance", "dropout"),
        *("flatten", "fold", "instancenorm", "lazy", "linear", "loss", "module", "normalization", "padding"),
        *("pixelshuffle", "pooling", "rnn", "sparse", "transformer", "upsampling", "utils"),
    ),
    __name__,
)


def __getattr__(name: str) -> Any:
    return getattr(nn, name)
