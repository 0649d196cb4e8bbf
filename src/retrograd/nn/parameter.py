"""Parameter, a Tensor that a Module owns and an optimiser updates, and the memory order of weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine.tensor import Tensor

__all__ = ["Parameter", "as_float_dtype", "empty_weight"]


class Parameter(Tensor):
    """A leaf Tensor that a Module registers when it is assigned to an attribute.

    data: array or Tensor of any shape, float32 or float64, kept without a copy; its memory order is kept too.
    ``grad_req`` says what a backward pass does with ``grad``: "add" (the default) adds to it, "write"
    replaces it, "null" neither computes nor touches it. ``grad_sample`` is the gradient of each sample, (N, \\*shape),
    computed inside ``per_sample_gradients``; otherwise None.

    Raises:
        TypeError: data is not a floating-point array, or is missing.
        ValueError: data is read-only, or grad_req is set to anything else.
    """

    __slots__ = ("_grad_sample",)  # missing until it is set

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        if data is None:
            raise TypeError("Parameter: data is missing; pass an array, of shape (0,) for an empty parameter")
        super().__init__(data.array if isinstance(data, Tensor) else data)
        if self.array.dtype not in (np.float32, np.float64):
            raise TypeError(
                f"Parameter: data has dtype {self.array.dtype}, but only float32 and float64 can be trained; "
                "convert it, or register it with register_buffer"
            )
        if not self.array.flags.writeable:
            raise ValueError("Parameter: data is read-only memory, which no optimiser can update; pass data.copy()")
        self.requires_grad = requires_grad

    @property
    def grad_sample(self) -> Tensor | None:
        """The gradient of each sample, (N, \\*shape), or None; see ``per_sample_gradients``.

        Setting it raises:
            TypeError, ValueError: not a Tensor or None, or the shape after axis 0 or the dtype is not the parameter's.
        """
        return getattr(self, "_grad_sample", None)

    @grad_sample.setter
    def grad_sample(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad_sample: expected a Tensor or None, got {type(value).__name__}")
            if value.shape[1:] != self.shape or not value.ndim or value.dtype != self.dtype:
                raise ValueError(
                    f"grad_sample: expected {self.dtype} of shape (N, *{self.shape}), got {value.dtype} "
                    f"of shape {value.array.shape}"
                )
        self._grad_sample = value

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce__(self) -> tuple[Any, ...]:
        # NumPy pickles arrays of other memory orders in C order, so the order is pickled separately.
        axes = _memory_axes(self.array)
        return _rebuild, (type(self), self.array.transpose(axes), axes, self.requires_grad, self.grad_req)


def _memory_axes(array: np.ndarray) -> tuple[int, ...]:
    """The axes of array from the slowest to the fastest in memory."""
    return tuple(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))


def _rebuild(
    kind: type[Parameter], memory: np.ndarray, axes: tuple[int, ...], requires_grad: bool, grad_req: str
) -> Parameter:
    parameter = kind(memory.transpose(np.argsort(axes)), requires_grad)
    parameter.grad_req = grad_req
    return parameter


def as_float_dtype(dtype: Any) -> np.dtype:
    """np.dtype of dtype (None means float32).

    Raises:
        TypeError: dtype is neither float32 nor float64.
    """
    try:
        converted = np.dtype(np.float32 if dtype is None else dtype)
    except TypeError:
        raise TypeError(f"dtype={dtype!r} is not a dtype; use float32 or float64") from None
    if converted not in (np.float32, np.float64):
        raise TypeError(f"dtype={converted}, but layers compute in float32 or float64; use one of these")
    return converted


def empty_weight(shape: Sequence[int], dtype: Any = None) -> Parameter:
    """An uninitialised weight of logical shape (A, B, \\*R), stored as (\\*R, B, A).

    The matrix kernels read a weight in this order, so they need not pack it: every tap is a contiguous (B, A) matrix.
    A is out_features or the channels of the convolution's output.
    """
    memory = np.empty((*shape[2:], shape[1], shape[0]), as_float_dtype(dtype))
    ndim = memory.ndim
    return Parameter(memory.transpose(ndim - 1, ndim - 2, *range(ndim - 2)))
