"""Tensors in a .pt file: PyTorch's functions that rebuild one, on our storages.

Source: torch/_utils.py and torch/_tensor.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...engine.tensor import Tensor
from ...nn.parameter import Parameter
from ..widened import widened
from .refusal import Refused
from .storage import BFLOAT16, UNTYPED, Storage
from .values import Name

__all__ = ["REBUILD", "rebuild_from_other", "rebuild_from_type"]


def _storage(storage: Any) -> Storage:
    if type(storage) is not Storage:
        raise Refused(f"a tensor is made of {type(storage).__name__} instead of a storage")
    return storage


def _tensor(array: np.ndarray, requires_grad: Any) -> Tensor:
    if requires_grad is True and array.dtype.kind == "f":
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float32)
        return Tensor(array, requires_grad=True)
    return Tensor(array)


def _rebuild_tensor(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    found = _storage(storage)
    if metadata:
        raise Refused("a tensor is a lazy conjugate or negative; save x.resolve_conj().resolve_neg()")
    if found.dtype == UNTYPED:
        raise Refused("a tensor has numbers without a dtype")
    return _tensor(found.array(offset, size, stride), requires_grad)


def _rebuild_tensor_v3(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, metadata: Any = None
) -> Tensor:
    if metadata:
        raise Refused("a tensor is a lazy conjugate or negative; save x.resolve_conj().resolve_neg()")
    return _tensor(_storage(storage).array(offset, size, stride, _dtype_name(dtype)), requires_grad)


def _dtype_name(dtype: Any) -> str:
    if isinstance(dtype, np.dtype):
        return dtype.name
    if type(dtype) is Name and dtype.text in ("torch.bfloat16", "torch.uint16", "torch.uint32", "torch.uint64"):
        return BFLOAT16 if dtype.text == "torch.bfloat16" else dtype.text.removeprefix("torch.")
    raise Refused("a tensor has numbers of a dtype that is not read")


def _rebuild_parameter(data: Any, requires_grad: Any, hooks: Any = None, state: Any = None) -> Tensor:
    """A Parameter; a Tensor if it holds integers, which only a Tensor does here."""
    if not isinstance(data, Tensor) or type(requires_grad) is not bool:
        raise Refused("a parameter is made of no tensor")
    array = data.array
    if array.dtype.kind != "f":
        return _with_attributes(data, state)
    if array.dtype not in (np.float32, np.float64) or not array.flags.writeable:
        array = array.astype(np.float64 if array.dtype == np.float64 else np.float32)
    return _with_attributes(Parameter(array, requires_grad), state)


def _with_attributes(tensor: Tensor, state: Any) -> Tensor:
    """The tensor with the attributes that its user had set in PyTorch.

    Names that the class defines are left out, and so are names such as ``__array_interface__``, from which NumPy would
    take an address: a file sets neither.
    """
    if isinstance(state, dict):
        names = [name for name in state if type(name) is str and not name.startswith("__")]
        vars(tensor).update({name: state[name] for name in names if not hasattr(type(tensor), name)})
    return tensor


def rebuild_from_type(function: Any, kind: Any, args: Any, state: Any = None) -> Tensor:
    """A tensor with Python attributes."""
    own = ("torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer")
    if type(function) is not Name or type(kind) is not Name or kind.text not in own or type(args) is not tuple:
        raise Refused("a tensor is of a class of its own; save x.as_subclass(torch.Tensor)")
    if function.text not in REBUILD:
        raise Refused(f"a tensor is made by {function.text}")
    return _with_attributes(REBUILD[function.text](*args), state)


def rebuild_from_other(data: Any, dtype: Any, device: Any, requires_grad: Any) -> Tensor:
    """A tensor of a device without storages, stored as an array or a tensor."""
    array = data.array if isinstance(data, Tensor) else data
    if not isinstance(array, np.ndarray):
        raise Refused("a tensor of another device is made of no array")
    name = _dtype_name(dtype)
    return _tensor(widened(array.astype(np.float32 if name == BFLOAT16 else np.dtype(name))), requires_grad)


REBUILD: dict[str, Callable[..., Tensor]] = {
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
}
