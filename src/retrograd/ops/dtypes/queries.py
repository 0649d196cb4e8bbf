"""Queries about tensors and their types, as functions and, as in PyTorch, methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..argument_checks import is_number, require_tensor
from .conversion import get_device as get_device
from .conversion import type_
from .dtype import as_dtype
from .promotion import CATEGORY, joined, promoted_type, with_number

__all__ = [
    "can_cast",
    "detach",
    "get_device",
    "is_complex",
    "is_floating_point",
    "is_inference",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_tensor",
    "promote_types",
    "result_type",
    "typename",
]


def is_tensor(obj: Any) -> bool:
    """Return True if ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Return True if input has a floating-point type."""
    require_tensor("is_floating_point", input)
    return input.array.dtype.kind == "f"


def is_complex(input: Tensor) -> bool:
    """Return False: tensors are always real."""
    require_tensor("is_complex", input)
    return False


def is_signed(input: Tensor) -> bool:
    """Return True if input's type includes negative numbers."""
    require_tensor("is_signed", input)
    return input.array.dtype.kind in "fi"


@operator(methods="is_nonzero", dtypes="bihf")
def is_nonzero(input: Tensor) -> bool:
    """Return True if the only element of input is not 0.

    Raises:
        RuntimeError: input does not have one element.
    """
    if interpreters and (seen := interpreted(is_nonzero, locals())) is not None:
        return seen
    require_tensor("is_nonzero", input)
    return bool(input)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return True if both have the same shape."""
    require_tensor("is_same_size", input)
    require_tensor("is_same_size", other, "other")
    return input.array.shape == other.array.shape


def is_inference(input: Tensor) -> bool:
    """Return True if input was created in inference_mode."""
    require_tensor("is_inference", input)
    return input.is_inference()


@operator(dtypes="bihf")
def detach(input: Tensor) -> Tensor:
    """Return input without its history; see ``Tensor.detach``."""
    if interpreters and (seen := interpreted(detach, locals())) is not None:
        return seen
    require_tensor("detach", input)
    return input.detach()


def typename(obj: Any) -> str:
    """Return the name of a Tensor's type, such as "torch.FloatTensor", or of the class of another object."""
    if isinstance(obj, Tensor):
        return str(type_(obj))
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def can_cast(from_: Any, to: Any) -> bool:
    """Return True if in-place operators may convert ``from_`` to ``to``: not float to integer, nor integer to bool.

    Raises:
        TypeError: one is not an element type.
    """
    return CATEGORY[as_dtype(from_).kind] <= CATEGORY[as_dtype(to).kind]


def promote_types(type1: Any, type2: Any) -> np.dtype[Any]:
    """Return the result type of operators on tensors of these two types.

    Raises:
        TypeError: one is not an element type.
    """
    return joined(as_dtype(type1), as_dtype(type2))


def result_type(tensor1: Any, tensor2: Any) -> np.dtype[Any]:
    """Return the result type of operators on two Tensors or numbers.

    Raises:
        TypeError: one is neither a Tensor nor a number.
    """
    for label, value in (("tensor1", tensor1), ("tensor2", tensor2)):
        if not is_number(value):
            require_tensor("result_type", value, label)
    if isinstance(tensor1, Tensor) and isinstance(tensor2, Tensor):
        return promoted_type(tensor1.array, tensor2.array)
    if isinstance(tensor1, Tensor):
        return with_number(tensor1.array.dtype, tensor2)
    if isinstance(tensor2, Tensor):
        return with_number(tensor2.array.dtype, tensor1)
    truth = np.dtype(bool)
    return joined(with_number(truth, tensor1), with_number(truth, tensor2))


METHODS: dict[str, Any] = {
    function.__name__: function for function in (is_complex, is_floating_point, is_same_size, is_signed)
}
