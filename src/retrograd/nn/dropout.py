"""Dropout."""

from __future__ import annotations

from ..engine.tensor import Tensor
from ..ops.dropout import dropout
from .activation import refuse_inplace
from .module import Module

__all__ = ["Dropout"]


class Dropout(Module):
    """In training every element is zeroed with probability p and the others are scaled by 1 / (1 - p).

    x and y of any one shape; in eval mode y = x. Source: Srivastava et al. 2014.

    Raises:
        ValueError: p lies outside [0, 1], or inplace is True, which is not supported.
        TypeError: x is no floating point Tensor.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout: p={p} must be a probability, between 0 and 1")
        refuse_inplace("Dropout", inplace)
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace=False"
