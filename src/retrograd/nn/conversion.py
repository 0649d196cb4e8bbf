"""The methods of a Module that say where its tensors are and of which type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from ..arrays import empty_like
from ..engine.tensor import Tensor
from ..kernel_set import exact
from ..ops.arguments.checks import as_truth
from ..ops.dtypes.conversion import destination, named_type
from ..ops.memory.device import moved, placed
from .parameter import Parameter, as_float_dtype
from .uninitialized import is_lazy

__all__ = ["Convertible"]


class Convertible:
    """Methods of Module that convert its tensors to another type or device."""

    parameters: Callable[..., Iterator[Parameter]]
    buffers: Callable[..., Iterator[Tensor]]

    def to(self, *args: Any, **options: Any) -> Self:
        """Convert parameters, their gradients and floating-point buffers.

        ``to(dtype)``, ``to(device)``, ``to(device, dtype)`` or ``to(tensor)``; non_blocking has no meaning here.

        dtype is float32 or float64; the device is the CPU, or one that ``kernel_set.add_device`` has made known.
        Parameters stay the same objects, in the same memory order, whatever ``memory_format`` says: they lie as the
        kernels read them.

        Raises:
            TypeError: dtype is neither float32 nor float64.
            RuntimeError: the device is not known, or a parameter without a shape would be moved.
        """
        found = destination("to", args, options)
        if found.dtype is not None:
            self._convert(as_float_dtype(found.dtype))
        return self if found.device is None else self._move("to", found.device)

    def _move(self, name: str, device: str) -> Self:
        for tensor in (*self.parameters(), *self.buffers()):
            if is_lazy(tensor):
                if device != "cpu":
                    raise RuntimeError(f"{name}: a parameter has no shape yet; run the module once, then move it")
                continue
            tensor.array = moved(tensor.array, device)
            if tensor.grad is not None:
                tensor.grad = Tensor(moved(tensor.grad.array, device))
        return self

    def _convert(self, dtype: np.dtype) -> Self:
        for tensor in (*self.parameters(), *self.buffers()):
            if is_lazy(tensor):
                tensor.set_dtype(dtype)
            elif tensor.array.dtype.kind == "f":
                tensor.array = _cast(tensor.array, dtype)
                if tensor.grad is not None:
                    tensor.grad = Tensor(_cast(tensor.grad.array, dtype))
        return self

    def type(self, dst_type: Any) -> Self:
        """``to(dtype)`` by an element type, a class such as retrograd.FloatTensor, or its name.

        Raises: as ``to``.
        """
        return self._convert(as_float_dtype(named_type("type", dst_type)))

    def float(self) -> Self:
        return self._convert(np.dtype(np.float32))

    def double(self) -> Self:
        return self._convert(np.dtype(np.float64))

    def half(self) -> Self:
        """Raises a TypeError: layers compute in float32 and float64."""
        return self._convert(as_float_dtype(np.float16))

    def bfloat16(self) -> Self:
        """Raises a TypeError: layers compute in float32 and float64."""
        raise TypeError("bfloat16: layers compute in float32 or float64; leave the call out")

    def cpu(self) -> Self:
        """Move parameters, their gradients and buffers to the CPU."""
        return self._move("cpu", "cpu")

    def cuda(self, device: Any = None) -> Self:
        """Raises a RuntimeError: there is one device, the CPU."""
        raise RuntimeError("cuda: there is one device, the CPU; leave the call out, or write to(device) with 'cpu'")

    def share_memory(self) -> Self:
        """The module itself: no memory is shared between processes."""
        return self

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """New memory with undefined values for all parameters and buffers, on ``device``.

        Raises:
            RuntimeError: the device is not known.
        """
        recurse = as_truth("to_empty", "recurse", recurse)
        for tensor in (*self.parameters(recurse), *self.buffers(recurse)):
            if not is_lazy(tensor):
                tensor.array = placed("to_empty", empty_like(tensor.array), device)
        return self


def _cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """array in a type, itself if it has that type."""
    return array if array.dtype == dtype else exact("cast")(array, dtype)
