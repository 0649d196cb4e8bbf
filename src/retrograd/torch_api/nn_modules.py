"""PyTorch's import paths of layers, `torch.nn.modules.conv` and the like: each names this module.

It has all that ``nn`` has, and the base classes and helpers that scripts import from there, which begin with "_".
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


# ---- Tuples of extents: the helpers that scripts of layers import from torch.nn.modules.utils -----------------------


def _ntuple(n: int) -> Callable[[Any], tuple[Any, ...]]:
    """A function that repeats a value n times, and makes a tuple of an iterable as it is."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    return parse


_single, _pair, _triple = _ntuple(1), _ntuple(2), _ntuple(3)


# ---- PyTorch's paths to its layers, `torch.nn.modules.conv` and the like: each is another name of this module -------

_ConvNd, _ConvTransposeNd = _convolution._Conv, _convolution._ConvTranspose
_DropoutNd = _dropout._Dropout
_WeightedLoss = _Loss
_BatchNorm, _InstanceNorm, _NormBase = (
    _normalization._BatchNorm,
    _normalization._InstanceNorm,
    _normalization._ChannelNorm,
)
_AvgPoolNd, _MaxPoolNd = _pooling._AvgPool, _pooling._MaxPool
NonDynamicallyQuantizableLinear = nn.Linear  # of an attention, by PyTorch's name


def __getattr__(name: str) -> Any:
    if is_path("retrograd.nn.modules", name):
        return sys.modules[__name__]
    return getattr(nn, name)
