"""Dropout operators: of elements, of channels, and alpha dropout.

Derivatives of any order use the mask of the forward pass. Two random words and an element's index in C order decide
whether it is dropped, so strides and threads do not matter. The mask is saved with a byte per element, because drawing
it again would take longer. ``inplace=True`` writes the result into the memory of the input and returns the input.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import ones
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import as_flag, as_probability, as_truth, require_float, require_tensor
from ..inplace import in_place
from .random import default_generator

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]

# the limit of SELU toward -inf: the value of dropped elements in alpha dropout
_SATURATED = -1.7580993408473766


class Dropout(Function):
    """x * mask, each element of the mask 0 with probability p and 1 / (1 - p) otherwise.

    Source: N. Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", 2014.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, key: int, stream: int) -> Tensor:
        y, kept = kernels.dropout(x.array, p, key, stream)
        ctx.save_for_backward(kept)
        ctx.p = p
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return DropoutGrad.apply(g, *ctx.saved_tensors, ctx.p), None, None, None


class DropoutGrad(Function):
    """g * mask, with the mask of the forward pass. It is also its own gradient."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, kept: np.ndarray, p: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.p = p
        return wrap(kernels.dropout_grad(g.array, kept, p))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        return DropoutGrad.apply(v, *ctx.saved_tensors, ctx.p), None, None


@operator(records=Dropout)
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p in training, and scale the others by 1/(1 - p).

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: p is not in [0, 1].
    """
    if interpreters and (seen := interpreted(dropout, locals())) is not None:
        return seen
    if not _applies("dropout", input, p, training, inplace):
        return input
    return in_place(dropout)(input, p) if inplace else Dropout.apply(input, float(p), *random_key())


@operator
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``dropout`` of whole channels: input (N, C, W) or (C, W).

    Source: J. Tompson et al., "Efficient Object Localization Using Convolutional Networks", 2015.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: p is not in [0, 1], or input has the wrong number of axes.
    """
    if interpreters and (seen := interpreted(dropout1d, locals())) is not None:
        return seen
    return _channels(dropout1d, input, p, training, inplace, 1)


@operator
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``dropout`` of whole channels: input (N, C, H, W) or (C, H, W). See ``dropout1d``.

    Other inputs of at least 2 axes are read as (N, C, *I) with a UserWarning, as in PyTorch. In an input
    (N, C), single elements are dropped.
    """
    if interpreters and (seen := interpreted(dropout2d, locals())) is not None:
        return seen
    return _channels(dropout2d, input, p, training, inplace, 2)


@operator
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``dropout`` of whole channels: input (N, C, D, H, W) or (C, D, H, W). See ``dropout1d``."""
    if interpreters and (seen := interpreted(dropout3d, locals())) is not None:
        return seen
    return _channels(dropout3d, input, p, training, inplace, 3)


@operator
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean 0 and variance 1: dropped elements become SELU's lowest value, then all are rescaled.

    y = a (x mask + low (1 - mask)) + b, low = -1.7581, a = 1/sqrt((1 - p)(1 + p low^2)), b = -a p low

    Source: G. Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    Raises: as ``dropout``.
    """
    if interpreters and (seen := interpreted(alpha_dropout, locals())) is not None:
        return seen
    if not _applies("alpha_dropout", input, p, training, inplace):
        return input
    if inplace:
        return in_place(alpha_dropout)(input, p, True)
    return _alpha(input, float(p), input.array.shape)


@operator
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``alpha_dropout`` of whole channels: input (N, C, *I).

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: p is not in [0, 1], or input has fewer than 2 axes.
    """
    if interpreters and (seen := interpreted(feature_alpha_dropout, locals())) is not None:
        return seen
    if not _applies("feature_alpha_dropout", input, p, training, inplace):
        return input
    if inplace:
        return in_place(feature_alpha_dropout)(input, p, True)
    shape = input.array.shape
    if len(shape) < 2:
        raise ValueError(f"feature_alpha_dropout: input.shape={shape}, needs (N, C, *I)")
    return _alpha(input, float(p), shape[:2] + (1,) * (len(shape) - 2))


def _applies(name: str, x: Any, p: float, training: bool, inplace: bool) -> bool:
    """Check the arguments and return whether anything is dropped."""
    require_tensor(name, x)
    training = as_flag(name, "training", training)
    as_truth(name, "inplace", inplace)
    if not (as_probability(name, "p", p) and training):
        return False
    require_float(name, x)
    return True


def random_key() -> tuple[int, int]:
    """Draw the key and the stream of one call of the kernel ``dropout``."""
    drawn = int(default_generator.integers(1 << 63))
    return drawn & 0xFFFFFFFF, drawn >> 32


def _mask(shape: tuple[int, ...], p: float, like: np.ndarray) -> np.ndarray:
    """Draw a mask in the type of ``like``: 0 with probability p, else 1 / (1 - p)."""
    mask, _ = kernels.dropout(ones(shape, like.dtype, like=like), p, *random_key())
    return mask


def _channels(
    function: Callable[..., Tensor], x: Tensor, p: float, training: bool, inplace: bool, count: int
) -> Tensor:
    name = function.__name__
    if not _applies(name, x, p, training, inplace):
        return x
    if inplace:
        return in_place(function)(x, p)
    shape = x.array.shape
    if count == 2 and len(shape) not in (0, 1, 3, 4):  # PyTorch's MNIST example passes (N, C)
        warnings.warn(
            f"dropout2d: input.shape={shape} is read as (N, C, *I), which is deprecated; write "
            f"{'dropout' if len(shape) == 2 else 'dropout3d'} instead",
            stacklevel=3,
        )
        count = len(shape) - 2
    elif len(shape) not in (count + 1, count + 2):
        raise ValueError(
            f"{name}: input.shape={shape} must have {count} axes after the channels: (N, C, *I) or (C, *I)"
        )
    return x * wrap(_mask(shape[: len(shape) - count] + (1,) * count, float(p), x.array))


def _alpha(x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    if p == 1:
        return x * 0
    kept, dtype = _mask(shape, p, x.array), x.array.dtype
    a = 1 / math.sqrt((1 - p) * (1 + p * _SATURATED**2))
    center = a * p * _SATURATED
    shift = kernels.choose(kept, 0.0 - center, a * _SATURATED - center, dtype)
    return x * wrap(kernels.choose(kept, a, 0.0, dtype)) + wrap(shift)
