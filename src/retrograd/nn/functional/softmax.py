"""softmax and log_softmax with an optional axis, which older scripts leave out."""

from __future__ import annotations

from ...engine.tensor import Tensor
from ...ops.dtypes.dtype import DTypeLike
from ...ops.normalization import softmax as along

__all__ = ["log_softmax", "softmax"]


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike = None) -> Tensor:
    """exp(input) / sum(exp(input)) along axis ``dim``, computed without overflow.

    dim: None is axis 0 of a tensor with 0, 1 or 3 axes and axis 1 of others, with PyTorch's warning. dtype: if given,
    convert input to this type first. ``_stacklevel`` counts frames for the warning.

    Raises:
        TypeError: input is not floating-point after the conversion.
        IndexError: input has no axis ``dim``.
    """
    return along.softmax(input, along.axis_of("softmax", input, dim, _stacklevel), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike = None) -> Tensor:
    """input - log(sum(exp(input))) along axis ``dim``, computed without overflow; see ``softmax``.

    Raises: as ``softmax``.
    """
    return along.log_softmax(input, along.axis_of("log_softmax", input, dim, _stacklevel), dtype)


# a backward rule for one form applies to the other
softmax.operator = along.softmax.operator  # type: ignore[attr-defined]
log_softmax.operator = along.log_softmax.operator  # type: ignore[attr-defined]
