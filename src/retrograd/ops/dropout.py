"""Dropout: a random mask in forward, the same mask in every order of derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from .dtype import require_float
from .kernel_set import kernels
from .random import default_generator

__all__ = ["dropout"]


class Dropout(Function):
    """x * mask, each element of the mask 0 with probability p and 1 / (1 - p) otherwise.

    Source: N. Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", 2014.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        mask = _mask(x.data.shape, p, x.data.dtype)
        ctx.save_for_backward(mask)
        return wrap(kernels.mul(x.data, mask))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        return g * wrap(mask), None


def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """In training, each element is zeroed with probability p and the others are scaled by 1/(1 - p).

    Raises:
        TypeError: input is no floating-point Tensor.
        ValueError: p is not in [0, 1].
    """
    require_float("dropout", input)
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout: p={p} is a probability and must lie in [0, 1]")
    return Dropout.apply(input, float(p)) if training and p else input


def _mask(shape: tuple[int, ...], p: float, dtype: np.dtype[Any]) -> np.ndarray:
    # Images are kept channels-last in memory, and so is their mask. The order depends on the shape alone, not on the
    # strides at hand: the same seed gives the same mask on every kernel set.
    images = len(shape) > 2
    order = (shape[0], *shape[2:], shape[1]) if images else shape
    keep = default_generator.random(order, dtype=np.float32) >= p
    mask = np.asarray(np.multiply(keep, 1.0 / (1.0 - p) if p < 1.0 else 0.0, dtype=dtype))
    return np.moveaxis(mask, -1, 1) if images else mask
