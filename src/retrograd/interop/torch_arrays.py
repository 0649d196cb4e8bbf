"""Tensors of PyTorch and of retrograd around one memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..engine.aliasing import memory
from ..engine.dtype import COMPUTED, STORED
from ..engine.tensor import Tensor, wrap

try:
    import torch
    import torch.autograd.forward_ad as _forward_ad
except ImportError:
    raise ImportError("PyTorch is not installed: pip install torch") from None

__all__ = ["array_of", "from_torch", "tensor_of", "to_torch", "torch"]

# the engine compares types by "is"
_TYPES: dict[Any, Any] = {kind: kind for kind in (*COMPUTED, *STORED) if kind != np.float16}


def from_torch(tensor: torch.Tensor) -> Tensor:
    """A Tensor of the memory of a PyTorch tensor of any shape: a change in place of one is a change of both.

    Raises:
        TypeError: it is no PyTorch tensor, or one that has no array here: on a GPU, sparse, bfloat16, complex.
        RuntimeError: it requires a gradient, which would be lost.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"from_torch: tensor is {type(tensor).__name__}, expected a torch.Tensor")
    if tensor.requires_grad:
        raise RuntimeError(
            "from_torch: tensor requires grad, and its gradient would be lost; use tensor.detach(), or "
            "retrograd.interop.torch.function to compute with it"
        )
    return wrap(array_of(tensor, "from_torch: tensor"))


def to_torch(tensor: Tensor) -> torch.Tensor:
    """A PyTorch tensor of the memory of a Tensor of any shape: a change in place of one is a change of both.

    Raises:
        TypeError: it is no Tensor.
        RuntimeError: it requires a gradient, which would be lost.
        ValueError: PyTorch cannot show its memory, which is read-only or read backwards.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"to_torch: tensor is {type(tensor).__name__}, expected a retrograd.Tensor")
    array = tensor.numpy()
    if not array.flags.writeable or min(array.strides, default=0) < 0:
        raise ValueError(
            f"to_torch: the memory of tensor is {'read backwards' if array.flags.writeable else 'read-only'}, which "
            "PyTorch cannot show; use tensor.clone()"
        )
    return torch.from_numpy(array)


def array_of(tensor: torch.Tensor, what: str, place: Any = None) -> np.ndarray:
    """The array of a PyTorch tensor, in its memory; ``what`` it is, or of what the argument ``place``, is for messages.

    Raises:
        TypeError: there is none: it is on a GPU, sparse, of another element type.
    """
    try:
        array: np.ndarray = tensor.detach().numpy()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        why = _reason(tensor) or f"has no array, as within torch.vmap and torch.func.grad: {error}"
    else:
        own = _TYPES.get(array.dtype)
        if _forward_ad._current_level >= 0 and _forward_ad.unpack_dual(tensor).tangent is not None:
            why = "carries a tangent, and retrograd has no forward mode; use backward"
        elif own is array.dtype:
            return array
        elif own is not None:
            return array.view(own)
        else:
            why = _reason(tensor)
    raise TypeError(f"{what}{'' if place is None else f': argument {place}'} {why}")


def _reason(tensor: torch.Tensor) -> str:
    """Why a tensor has no array here, and what to do; "" if it is not known."""
    if tensor.device.type == "meta":
        return "is on the device meta and has no values; make it on the CPU"
    if tensor.device.type != "cpu":
        return f"is on the device {tensor.device}, and retrograd computes on the CPU; move it there: tensor.cpu()"
    if tensor.layout is not torch.strided:
        return f"has the layout {tensor.layout}; use tensor.to_dense()"
    if tensor.dtype not in (torch.float32, torch.float64, torch.int64, torch.bool):
        return f"is {tensor.dtype}, and retrograd computes in float32 and float64; convert it, as by tensor.float()"
    return ""


def tensor_of(array: np.ndarray, others: Iterable[np.ndarray] = ()) -> torch.Tensor:
    """A PyTorch tensor of an array, in its memory if that can be and is none of the ``others``.

    What shares their memory is copied, since PyTorch would not know that a change of the one is a change of the other.
    """
    if array.base is None:
        shared = any(other is array for other in others)
    else:
        owner = memory(array)
        shared = any(memory(other) is owner for other in others)
    if shared or not array.flags.writeable:
        array = array.copy(order="K")
    try:
        return torch.from_numpy(array)
    except ValueError:  # an axis is read backwards
        return torch.from_numpy(array.copy())
