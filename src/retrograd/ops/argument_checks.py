"""Argument checks: tensors, numbers, flags and indices; copies of arrays saved for backward."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from operator import index
from typing import Any

import numpy as np

from .. import arrays
from ..arrays import from_host
from ..engine.arguments import as_callable as as_callable  # re-exported for the modules of ops
from ..engine.arguments import as_flag as as_flag
from ..engine.arguments import as_list as as_list
from ..engine.arguments import as_truth as as_truth
from ..engine.arguments import excerpt, format_number, kind_name
from ..engine.call_site import warn_user
from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Tensor
from ..kernel_set import kernels
from .dtypes.dtype import cast, default_dtype, int64

__all__: list[str] = []


# ---- Copies of indices and masks for the backward pass ---------------------------------------------------------------


@operator(dtypes="bihf")
def copy_for_backward(array: np.ndarray, recorded: bool = True) -> np.ndarray:
    """Return a copy of ``array`` for the backward pass, or ``array`` itself unless ``recorded``.

    Indices are checked in the forward pass and trusted afterwards, but users can change them unnoticed through
    ``tensor.numpy()``. Arrays shared with the user are therefore copied before they are saved.
    """
    if interpreters and (seen := interpreted(copy_for_backward, locals())) is not None:
        return seen
    if not recorded:
        return array
    return kernels.duplicate(array)


# ---- Argument checks: tensors of the right type, numbers in range, integers ------------------------------------------

TOO_LONG = 2**60  # more elements than an array of 8-byte elements can have; NumPy does not always check


def require_tensor(name: str, x: Any, label: str = "input") -> None:
    """Raise TypeError unless x is a Tensor; ``label`` is its name in the caller."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: {label} is {kind_name(x)}, needs a Tensor{_way_to_a_tensor(x, label)}")


def _way_to_a_tensor(x: Any, label: str) -> str:
    """Return the end of a message about a value that is not a Tensor."""
    if isinstance(x, (list, tuple)) and any(isinstance(each, Tensor) for each in x):
        if isinstance(x, tuple):
            return f"; take one, such as {label}[0], the output of a recurrent layer"
        return "; join them with retrograd.stack or retrograd.cat"
    if x is None:
        return "; if it is the result of a forward, that lacks a return"
    if callable(getattr(x, "parameters", None)):
        return f"; pass one of its parameters, such as {label}.weight" if hasattr(x, "weight") else ""
    return "" if callable(x) else f"; make one with retrograd.tensor({label})"


def require_number(name: str, x: Any, label: str = "input") -> None:
    """Raise TypeError unless x is a Tensor of a numeric type that operators compute in: not bool or float16."""
    if not isinstance(x, Tensor) or x.array.dtype.char in "?e":
        require_float(name, x, label)


def require_float(name: str, x: Any, label: str = "input") -> None:
    """Raise TypeError unless x is a float32 or float64 Tensor: kernels do not compute in float16."""
    if isinstance(x, Tensor):
        if x.array.dtype.char in "fd":
            return
        raise TypeError(f"{name}: {label} is {x.dtype}, needs float32 or float64; convert it with {label}.float()")
    require_tensor(name, x, label)


def kind_of(value: Any) -> str:
    """Return the element type of a Tensor, or the class of another object, for messages."""
    return str(value.array.dtype) if isinstance(value, Tensor) else type(value).__name__


def as_index(name: str, x: Any, label: str = "input", needs: str = "an int64 Tensor") -> Tensor:
    """Return x, a Tensor of integers, as int64; TypeError for anything else."""
    if not isinstance(x, Tensor) or x.array.dtype.kind not in "iu":
        way = "" if isinstance(x, Tensor) else _way_to_a_tensor(x, label)
        raise TypeError(f"{name}: {label} is {kind_of(x)}, needs {needs}{way}")
    return cast(x, int64)


def as_mask(name: str, array: np.ndarray) -> np.ndarray:
    """Convert a uint8 mask, as in older PyTorch scripts, to bool, with PyTorch's deprecation warning."""
    warn_user(f"{name}: a mask with dtype uint8 is now deprecated, please use a dtype bool instead")
    return kernels.cast(array, np.dtype(np.bool_))


def as_float(name: str, x: Any, label: str = "input") -> Tensor:
    """Return x, converted to the default type if it is integer or bool; TypeError for float16 or a non-Tensor."""
    require_tensor(name, x, label)
    if x.array.dtype.kind == "f":
        require_float(name, x, label)
        return x
    return cast(x, default_dtype())


def are_floats(x: Any, y: Any) -> bool:
    """Return True if both are floating-point Tensors of the same type, the common case."""
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        dtype = x.array.dtype
        return dtype is y.array.dtype and dtype.char in "fd"
    return False


def as_int64(name: str, label: str, number: Any) -> int:
    """Return a number truncated to an int; ValueError if it is NaN or does not fit int64."""
    exact = number.item() if isinstance(number, np.generic) else number
    if not isinstance(exact, (int, float)):
        exact = as_real(name, label, exact)
    if -(2**63) <= exact < 2**63:
        return int(exact)
    raise ValueError(f"{name}: {label}={format_number(number)} does not fit int64; convert the integers with .float()")


def as_real(name: str, label: str, number: Any) -> float:
    """Convert a number, or a Tensor or an array with one element, to a float.

    Raises:
        TypeError: it is none of these; a str such as "1.5" is not accepted.
        ValueError: it is an int larger than any float.
    """
    if type(number) is float:  # nearly always
        return number
    if isinstance(number, (Tensor, np.ndarray)):
        array = number.array if isinstance(number, Tensor) else number
        if array.size == 1 and array.dtype.kind in "fiub":
            return float(arrays.number(array, "an argument that is a number"))
        raise TypeError(
            f"{name}: {label} is {array.dtype} of shape {array.shape}, needs a number or one element; "
            f"use {label}.item()"
        )
    if not is_number(number):
        raise TypeError(f"{name}: {label}={excerpt(number)} is {kind_name(number)}, needs a number")
    try:
        return float(number)
    except OverflowError:
        raise ValueError(
            f"{name}: {label}={format_number(number)} is larger than any floating-point number; use float('inf')"
        ) from None


def as_element(name: str, label: str, number: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Convert a number to a 0-d array of ``dtype``, truncated for integers; raises like ``as_real`` or ``whole``."""
    if dtype.kind == "f":
        number = as_real(name, label, number)
    elif dtype.kind in "iu":
        number = as_int64(name, label, number)
        if dtype.itemsize < 8:
            most = np.iinfo(dtype).max
            if not -most - 1 <= number <= most:
                raise ValueError(f"{name}: {label}={format_number(number)} does not fit {dtype}")
            if dtype.kind == "u":
                number %= most + 1  # for uint8, -1 wraps to the largest number
            return from_host(number, dtype)
    if dtype.itemsize < 8 and dtype.kind == "f" and abs(number) > 65504.0:
        with np.errstate(over="ignore"):  # it becomes inf, as in PyTorch
            return from_host(number, dtype)
    return from_host(number, dtype)


def as_int(name: str, label: str, value: Any) -> int:
    """Convert ``value``, a Python or NumPy int or a Tensor holding one, to an int; TypeError otherwise."""
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name}: {label}={excerpt(value)} must be an int, not {kind_of(value)}") from None


def as_count(name: str, label: str, value: Any, least: int = 1, most: int = TOO_LONG - 1) -> int:
    """Convert ``value``, an integer from ``least`` to ``most`` as in ``as_int``, to an int.

    Raises:
        TypeError: it is not an int.
        ValueError: it is out of range.
    """
    count = as_int(name, label, value)
    if least <= count <= most:
        return count
    rule = f"at least {least}" if count < least else "below 2**60" if most == TOO_LONG - 1 else f"at most {most}"
    raise ValueError(f"{name}: {label}={format_number(count)} must be {rule}")


def as_probability(name: str, label: str, value: Any) -> float:
    """Convert a probability to a float; raises like ``as_real``, and ValueError if it is not in [0, 1]."""
    probability = as_real(name, label, value)
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"{name}: {label}={value} is a probability and must lie in [0, 1]")
    return probability


def as_counts(name: str, label: str, values: Any) -> np.ndarray:
    """Convert a list, an array or a Tensor of ints to an int64 vector on the host.

    Raises:
        TypeError: it is none of these, or an element is not an int.
        ValueError: an element does not fit int64.
    """
    if isinstance(values, (Tensor, np.ndarray)):
        array = values.array if isinstance(values, Tensor) else values
        if array.dtype.kind not in "iu":
            raise TypeError(f"{name}: {label} is {array.dtype}, needs integers")
        return arrays.to_host(kernels.cast(array, int64), "an argument that is a list of ints").reshape(-1)
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise TypeError(f"{name}: {label}={excerpt(values)} is {kind_name(values)}, needs a list of ints")
    counts = [as_count(name, f"{label}[{place}]", n, -(2**63), 2**63 - 1) for place, n in enumerate(values)]
    return from_host(counts, int64)


def require_same(name: str, first: str, x: Tensor, second: str, y: Tensor, integers: bool = False) -> None:
    """Raise TypeError unless both are floating-point Tensors of one type, or both int64 if ``integers``."""
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        dtype = x.array.dtype
        if dtype is y.array.dtype and dtype.char in "fd":
            return
    for label, value in ((first, x), (second, y)):
        require_tensor(name, value, label)
    if x.array.dtype != y.array.dtype or not (x.array.dtype.char in "fd" or (integers and are_integers(x))):
        allowed = "float32, both float64 or both int64" if integers else "float32 or both float64"
        kinds = (x.array.dtype, y.array.dtype)
        image = np.dtype(np.uint8) in kinds
        how = "images of 0 to 255 with .float() / 255" if image else "one with .float() or .double()"
        raise TypeError(f"{name}: {first} is {kinds[0]}, {second} is {kinds[1]}; both must be {allowed}: convert {how}")


def are_integers(*values: Any) -> bool:
    """Return True if all are Tensors of integers."""
    return all(isinstance(value, Tensor) and value.array.dtype.kind in "iu" for value in values)


def require_factor(name: str, label: str, factor: Any, dtype: np.dtype[Any]) -> None:
    """Raise TypeError unless ``factor`` is a number, and an integer if ``dtype`` is an integer type."""
    if not is_number(factor):
        raise TypeError(f"{name}: {label} is {kind_name(factor)}, needs a number")
    if dtype.kind != "f" and isinstance(factor, (float, np.floating)):
        raise TypeError(
            f"{name}: {label}={factor!r} cannot scale {dtype}; use an int, or convert the operands with .float()"
        )


def is_number(value: Any) -> bool:
    """Return True if value is a Python or NumPy real number or bool."""
    return isinstance(value, (float, int, numbers.Real, np.bool_))


def is_real(value: Any) -> bool:
    """Return True if value is a Python or NumPy real number; a bool is not."""
    return is_number(value) and not isinstance(value, (bool, np.bool_))
