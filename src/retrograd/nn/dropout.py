"""Dropout layers. ``inplace=True`` overwrites the input, as in PyTorch."""

from __future__ import annotations

from typing import Any

from ..engine.tensor import Tensor
from ..ops.argument_checks import as_real
from . import functional
from .layer import OverAxes, layer
from .module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


@layer
class _Dropout(OverAxes, Module):
    """Base of dropout layers: the probability ``p`` and the function of ``nn.functional``."""

    p: float = 0.5
    inplace: bool = False

    def _set_up(self) -> None:
        if not 0 <= as_real(type(self).__name__, "p", self.p) <= 1:
            raise ValueError(f"{type(self).__name__}: p={self.p} must be a probability, from 0 to 1")

    def forward(self, input: Tensor) -> Any:
        return getattr(functional, self.operator)(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """The layer of Srivastava et al. 2014; in eval mode y = x.

    {functional.dropout}
    """

    operator = "dropout"


class AlphaDropout(_Dropout):
    """{functional.alpha_dropout}"""

    operator = "alpha_dropout"


class FeatureAlphaDropout(_Dropout):
    """{functional.feature_alpha_dropout}"""

    operator = "feature_alpha_dropout"


class _ChannelDropout(_Dropout):
    """{functional.dropout{n}d}"""

    operator = "dropout{n}d"


class Dropout1d(_ChannelDropout, ndim=1):
    """{functional.dropout1d}"""


class Dropout2d(_ChannelDropout, ndim=2):
    """{functional.dropout2d}"""


class Dropout3d(_ChannelDropout, ndim=3):
    """{functional.dropout3d}"""
