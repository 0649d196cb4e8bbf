"""PyTorch's import paths of layers, such as `torch.nn.modules.conv`: each is an alias of this module.

It has everything that ``nn`` has, and the base classes and helpers with a leading "_" that scripts import from there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from .. import nn
from ..nn import convolution as _convolution
from ..nn import dropout as _dropout
from ..nn import normalization as _normalization
from ..nn import pooling as _pooling
from ..nn.loss import Loss as _Loss
from .imports import is_path

__all__ = ["_ntuple", "_pair", "_single", "_triple"]


# ---- Tuples of extents: helpers that layer scripts import from torch.nn.modules.utils -------------------------------


def _ntuple(n: int) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that repeats a value n times, or converts an iterable to a tuple."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    return parse


_single, _pair, _triple = _ntuple(1), _ntuple(2), _ntuple(3)


# ---- Layers ---------------------------------------------------------------------------------------------------------

_ConvNd, _ConvTransposeNd = _convolution._Conv, _convolution._ConvTranspose
_DropoutNd = _dropout._Dropout
_WeightedLoss = _Loss
_BatchNorm, _InstanceNorm, _NormBase = (
    _normalization._BatchNorm,
    _normalization._InstanceNorm,
    _normalization._ChannelNorm,
)
_AvgPoolNd, _MaxPoolNd = _pooling._AvgPool, _pooling._MaxPool
NonDynamicallyQuantizableLinear = nn.Linear  # PyTorch's name of a projection in attention


def __getattr__(name: str) -> Any:
    if is_path("retrograd.nn.modules", name):
        return sys.modules[__name__]
    return getattr(nn, name)
