"""Element types: the cast operator, and which type two operands meet in (PyTorch's promotion rules).

Truth values < integers < floating point: the higher category decides, within a category the wider type; a Python
number never changes a tensor's type within its category, nor does a 0-d tensor one with axes.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap

float32, float64, int64, bool_ = (np.dtype(t) for t in ("float32", "float64", "int64", "bool"))
_ALLOWED = (float32, float64, int64, bool_)
_CATEGORY = {"b": 0, "i": 1, "f": 2}


class Cast(Function):
    """x in another floating-point type."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: np.dtype[Any]) -> Tensor:
        ctx.input_dtype = x.data.dtype
        return wrap(x.data.astype(dtype))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return Cast.apply(g, ctx.input_dtype), None


def cast(x: Tensor, dtype: Any) -> Tensor:
    """x in another element type; gradients flow between floating-point types.

    dtype: float32, float64, int64 or bool, as a NumPy dtype, its name, or Python's float (float32), int, bool.

    Raises:
        TypeError: ``dtype`` is none of these.
    """
    target = as_dtype(dtype)
    if x.data.dtype == target:
        return x
    if target.kind == "f" and x.data.dtype.kind == "f":
        return Cast.apply(x, target)
    return wrap(x.data.astype(target))


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """One of the four element types of a Tensor.

    Raises:
        TypeError: ``dtype`` is none of them.
    """
    if dtype is float:
        return float32
    try:
        found = np.dtype(dtype) if dtype is not None else None
    except TypeError:
        found = None
    if found is None or found not in _ALLOWED:  # NumPy reads None as float64
        raise TypeError(f"dtype={dtype!r} is not an element type of a Tensor; choose float32, float64, int64 or bool")
    return found


def require_tensor(name: str, x: Any, label: str = "input") -> None:
    """Refuse anything but a Tensor; ``label`` is what the caller calls x.

    Raises:
        TypeError: x is no Tensor.
    """
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{name}: {label} is {type(x).__name__}, needs a Tensor; make one with retrograd.tensor({label})"
        )


def require_float(name: str, x: Any, label: str = "input") -> None:
    """Refuse anything but a floating-point Tensor; ``label`` is what the caller calls x.

    Raises:
        TypeError: x is no Tensor or holds integers or truth values.
    """
    if isinstance(x, Tensor):
        if x.data.dtype.kind == "f":
            return
        raise TypeError(f"{name}: {label} is {x.data.dtype}, needs float32 or float64; convert it with {label}.float()")
    require_tensor(name, x, label)


def require_same(name: str, first: str, x: Tensor, second: str, y: Tensor) -> None:
    """Refuse operands that are not floating-point Tensors of one type.

    Raises:
        TypeError: naming both types.
    """
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        dtype = x.data.dtype
        if dtype is y.data.dtype and dtype.kind == "f":
            return
    for label, value in ((first, x), (second, y)):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name}: {label} is {type(value).__name__}, needs a Tensor; make one with retrograd.tensor({label})"
            )
    if x.data.dtype != y.data.dtype or x.data.dtype.kind != "f":
        raise TypeError(
            f"{name}: {first} is {x.data.dtype}, {second} is {y.data.dtype}; both must be float32 or both float64: "
            f"convert one with .float() or .double()"
        )


def as_flag(name: str, argument: str, value: Any) -> bool:
    """A truth value, Python's or NumPy's; a text, a number or None is none: "False" would count as True.

    Raises:
        TypeError: value is no truth value.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"{name}: {argument}={value!r} must be True or False, not {type(value).__name__}")


def is_number(value: Any) -> bool:
    """Whether value is a Python or NumPy real number or truth value."""
    return isinstance(value, (float, int, numbers.Real, np.bool_))


def promote(name: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both operands, one of them perhaps a Python number, as Tensors of one type.

    Raises:
        TypeError: an operand is neither a Tensor nor a number.
    """
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        dtype = _common_dtype(x.data, y.data)
        return cast(x, dtype), cast(y, dtype)
    if isinstance(x, Tensor) and is_number(y):
        dtype = with_number(x.data.dtype, y)
        return cast(x, dtype), wrap(np.array(y, dtype))
    if isinstance(y, Tensor) and is_number(x):
        dtype = with_number(y.data.dtype, x)
        return wrap(np.array(x, dtype)), cast(y, dtype)
    label, wrong = ("other", y) if isinstance(x, Tensor) or is_number(x) else ("input", x)
    raise TypeError(
        f"{name}: {label} is {type(wrong).__name__}, needs a Tensor or a number; "
        f"make one with retrograd.tensor({label})"
    )


def _common_dtype(x: np.ndarray, y: np.ndarray) -> np.dtype[Any]:
    a, b = _CATEGORY[x.dtype.kind], _CATEGORY[y.dtype.kind]
    if a != b:
        return x.dtype if a > b else y.dtype
    if bool(x.ndim) != bool(y.ndim):
        return x.dtype if x.ndim else y.dtype
    return x.dtype if x.dtype.itemsize >= y.dtype.itemsize else y.dtype


def common_dtype(dtype: np.dtype[Any], y: np.ndarray) -> np.dtype[Any]:
    """The type in which tensors with axes of ``dtype`` and of y's type meet."""
    return _common_dtype(np.empty(0, dtype), y if y.ndim else y[np.newaxis])


def with_number(dtype: np.dtype[Any], number: Any) -> np.dtype[Any]:
    """The type in which a tensor of ``dtype`` meets a Python number."""
    if dtype.kind == "f" or isinstance(number, (bool, np.bool_)):
        return dtype
    if isinstance(number, (int, np.integer)):
        return int64
    return float32
