"""New tensors of the type of a given one, as methods: ``x.new_zeros(2, 3)``, ``x.new_tensor([1, 2])``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from ..engine.tensor import Tensor, wrap
from .creation import empty, full, ones, tensor, zeros
from .dtype import as_dtype, as_int
from .layout import Options, check_options
from .typed import made

__all__ = ["empty_strided"]


def new(input: Tensor, *data: Any, device: Any = None) -> Tensor:
    """A tensor of input's type from extents, a sequence, an array or a Tensor, as ``retrograd.FloatTensor`` makes."""
    return made("new", input.array.dtype, data, device)


def new_tensor(
    input: Tensor, data: Any, *, dtype: Any = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """``retrograd.tensor(data)`` in input's type, or ``dtype``."""
    check_options("new_tensor", options)
    return tensor(data, dtype or input.array.dtype, requires_grad)


def new_zeros(
    input: Tensor, *size: Any, dtype: Any = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """Zeros of shape ``size`` in input's type, or ``dtype``."""
    return zeros(*size, dtype=dtype or input.array.dtype, requires_grad=requires_grad, **options)


def new_ones(
    input: Tensor, *size: Any, dtype: Any = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """Ones of shape ``size`` in input's type, or ``dtype``."""
    return ones(*size, dtype=dtype or input.array.dtype, requires_grad=requires_grad, **options)


def new_empty(
    input: Tensor, *size: Any, dtype: Any = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """A tensor of shape ``size`` in input's type, or ``dtype``, uninitialized."""
    return empty(*size, dtype=dtype or input.array.dtype, requires_grad=requires_grad, **options)


def new_full(
    input: Tensor, size: int | Sequence[int], fill_value: float, *, dtype: Any = None, requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:  # fmt: skip
    """One number in shape ``size`` and input's type, or ``dtype``."""
    return full(size, fill_value, dtype or input.array.dtype, requires_grad, **options)


def new_empty_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], dtype: Any = None, requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:  # fmt: skip
    """``retrograd.empty_strided`` in input's type, or ``dtype``."""
    return empty_strided(size, stride, dtype=dtype or input.array.dtype, requires_grad=requires_grad, **options)


def empty_strided(
    size: Sequence[int], stride: Sequence[int], *, dtype: Any = None, requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:  # fmt: skip
    """An uninitialized tensor of shape ``size`` with ``stride[i]`` elements between neighbours along axis i.

    Raises:
        ValueError: a number is negative, or there are not as many strides as extents.
    """
    check_options("empty_strided", options)
    extents = [as_int("empty_strided", "size", extent) for extent in size]
    steps = [as_int("empty_strided", "stride", step) for step in stride]
    if len(steps) != len(extents) or min((*extents, *steps), default=0) < 0:
        raise ValueError(f"empty_strided: size={size} and stride={stride} must be as many numbers of at least 0 each")
    kind = as_dtype(dtype, default=True)
    count = 1 + sum((extent - 1) * step for extent, step in zip(extents, steps, strict=True)) if all(extents) else 0
    flat = np.empty(count, kind)
    array = np.lib.stride_tricks.as_strided(flat, extents, [step * kind.itemsize for step in steps])
    return wrap(array).requires_grad_(requires_grad) if requires_grad else wrap(array)


METHODS: dict[str, Any] = {
    function.__name__: function
    for function in (new, new_tensor, new_zeros, new_ones, new_empty, new_full, new_empty_strided)
}
