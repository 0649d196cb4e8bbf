"""Dropout layers. ``inplace=True`` overwrites the input, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ..engine.tensor import Tensor
from ..ops.dropout import alpha_dropout, dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
from .module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(Module):
    """p and the operator."""

    operator: ClassVar[Callable[..., Tensor]]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: p={p} must be a probability, from 0 to 1")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Any:
        return type(self).operator(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """In training, zeroes every element with probability p and scales the others by 1 / (1 - p).

    x of any shape, y of the same; in eval mode y = x. Source: Srivastava et al. 2014.

    Raises:
        ValueError: p is outside [0, 1].
        TypeError: input is not a floating-point Tensor.
    """

    operator = staticmethod(dropout)


class Dropout1d(_Dropout):
    """``Dropout`` of whole channels: x (N, C, W) or (C, W). Source: Tompson et al. 2015.

    Raises:
        ValueError: p is outside [0, 1], or input has the wrong number of axes.
        TypeError: input is not a floating-point Tensor.
    """

    operator = staticmethod(dropout1d)


class Dropout2d(_Dropout):
    """``Dropout`` of whole channels: x (N, C, H, W) or (C, H, W). Source: Tompson et al. 2015.

    Raises:
        ValueError: p is outside [0, 1], or input has the wrong number of axes.
        TypeError: input is not a floating-point Tensor.
    """

    operator = staticmethod(dropout2d)


class Dropout3d(_Dropout):
    """``Dropout`` of whole channels: x (N, C, D, H, W) or (C, D, H, W). Source: Tompson et al. 2015.

    Raises:
        ValueError: p is outside [0, 1], or input has the wrong number of axes.
        TypeError: input is not a floating-point Tensor.
    """

    operator = staticmethod(dropout3d)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean 0 and variance 1, for networks with SELU; see ``functional.alpha_dropout``.

    Source: Klambauer et al. 2017.

    Raises:
        ValueError: p is outside [0, 1].
        TypeError: input is not a floating-point Tensor.
    """

    operator = staticmethod(alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """``AlphaDropout`` of whole channels: x (N, C, *I).

    Raises:
        ValueError: p is outside [0, 1], or input has fewer than 2 axes.
        TypeError: input is not a floating-point Tensor.
    """

    operator = staticmethod(feature_alpha_dropout)
