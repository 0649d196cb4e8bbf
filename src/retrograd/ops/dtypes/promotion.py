"""PyTorch's type promotion: the result type of operators on several tensors and numbers.

The categories are bool < integers < floating point. The higher category decides, then the wider type; uint8 with int8
gives int16. Within a category, a Python number never changes a tensor's type, nor does a 0-d tensor change the type of
a tensor with axes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...arrays import from_host
from ...engine.arguments import format_number, kind_name
from ...engine.dtype import CATEGORY as CATEGORY
from ...engine.grad_mode import thread
from ...engine.operator import interpreters
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact
from ..argument_checks import as_element, as_float, copy_for_backward, is_number, require_float, require_tensor
from .dtype import bool_, cast, default_dtype, int16, int64


def floats(name: str, *, integers: bool = False, **operands: Any) -> tuple[Tensor, ...]:
    """Promote the operands, given by their names in the caller, to a floating-point type.

    TypeError if none is floating-point. integers: instead convert integers and bool to the default type.
    """
    for label, x in operands.items():
        require_tensor(name, x, label)
    dtype = promoted_type(*[x.array for x in operands.values()])
    if dtype.char not in "fd" and not (integers and dtype.kind != "f"):
        for label, x in operands.items():
            require_float(name, x, label)
    return (*[cast(x, dtype if dtype.kind == "f" else default_dtype()) for x in operands.values()],)


def _operand(name: str, label: str, number: Any, dtype: np.dtype[Any]) -> Tensor:
    """Convert a number as ``as_element`` does, but wrap around for integer types narrower than int64."""
    if dtype.kind in "iu" and dtype.itemsize < 8:
        return wrap(exact("cast")(as_element(name, label, number, int64), dtype))
    return wrap(as_element(name, label, number, dtype))


def as_operand(x: Any, others: Iterable[Any]) -> Any:
    """Convert x to a Tensor if it is an array; copy it if a backward pass may read it, since the user may change it.

    Raises:
        TypeError: a Tensor cannot hold elements of its type.
    """
    if not isinstance(x, np.ndarray):
        return x
    recorded = thread.mode.enabled and any(isinstance(other, Tensor) and other._requires_grad for other in others)
    return Tensor(copy_for_backward(x, recorded))


def promote(name: str, x: Any, y: Any, second: str = "other") -> tuple[Tensor, Tensor]:
    """Promote two operands, one of which may be a number, to Tensors of one type.

    second: the name of y in the caller.

    Raise TypeError if an operand is neither a Tensor nor a number, or both are numbers, and ValueError if a number
    does not fit.
    """
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        if x.array.dtype is y.array.dtype and not interpreters:  # which also see a cast that does nothing
            return x, y
        dtype = promoted_type(x.array, y.array)
        return cast(x, dtype), cast(y, dtype)
    if isinstance(x, Tensor) and is_number(y):
        dtype = with_number(x.array.dtype, y)
        return cast(x, dtype), _operand(name, second, y, dtype)
    if isinstance(y, Tensor) and is_number(x):
        dtype = with_number(y.array.dtype, x)
        return _operand(name, "input", x, dtype), cast(y, dtype)
    if is_number(x) and is_number(y):
        raise TypeError(
            f"{name}: input={format_number(x)} and {second}={format_number(y)} are both numbers, but one must be a "
            f"Tensor; try retrograd.tensor({format_number(x)})"
        )
    label, wrong = (second, y) if isinstance(x, Tensor) or is_number(x) else ("input", x)
    raise TypeError(
        f"{name}: {label} is {kind_name(wrong)}, needs a Tensor or a number; make one with retrograd.tensor({label})"
    )


def promote_to_float(name: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Promote two operands as ``promote``, then integers to the default type, before a number could wrap.

    Raises: as ``promote``; also TypeError for float16.
    """
    a, b = promote(name, x, y)
    if a.array.dtype.kind != "f":
        a, b = (v if isinstance(v, Tensor) else wrap(from_host(v, default_dtype())) for v in (x, y))
    return as_float(name, a), as_float(name, b)


def promoted_type(x: np.ndarray, *others: np.ndarray) -> np.dtype[Any]:
    """Return the promoted type of arrays; next to arrays with axes, only the category of a 0-d array counts."""
    for y in others:
        if y.dtype is not x.dtype:
            break
    else:
        return x.dtype
    widest: dict[bool, np.dtype[Any]] = {}
    for array in (x, *others):
        group, dtype = bool(array.ndim), array.dtype
        widest[group] = joined(widest[group], dtype) if group in widest else dtype
    if len(widest) == 1:
        return next(iter(widest.values()))
    axes, scalar = widest[True], widest[False]
    return scalar if CATEGORY[scalar.kind] > CATEGORY[axes.kind] else axes


def joined(one: np.dtype[Any], other: np.dtype[Any]) -> np.dtype[Any]:
    """Return the promoted type of two tensors with axes, as ``promote_types``."""
    if one == other:  # not "is": unpickled dtypes are equal but not identical
        return one
    difference = CATEGORY[one.kind] - CATEGORY[other.kind]
    if not difference and one.itemsize == other.itemsize:  # uint8 and int8
        return int16
    return one if (difference or one.itemsize - other.itemsize) > 0 else other


def with_number(dtype: np.dtype[Any], number: Any) -> np.dtype[Any]:
    """Return the promoted type of a tensor of ``dtype`` and a Python number."""
    if dtype.kind == "f" or isinstance(number, (bool, np.bool_)):
        return dtype
    if isinstance(number, (int, np.integer)):
        return int64 if dtype is bool_ else dtype
    return default_dtype()
