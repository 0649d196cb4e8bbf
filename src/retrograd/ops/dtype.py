"""Element types: the cast operator, PyTorch's promotion rules, and checks of operands.

bool < integers < floating point: the higher category decides, then the wider type; uint8 with int8 is int16. Within a
category a Python number never changes a tensor's type, nor does a 0-d tensor that of one with axes.

float32, float64, int64 and bool are computed in. uint8, int8, int16 and int32 are computed in too, and wrap; float16
holds numbers, which are moved, compared and converted: the compiled kernels do not compute in it.
"""

from __future__ import annotations

import numbers
import operator
import warnings
from typing import Any

import numpy as np

from ..engine.arguments import as_flag as as_flag  # for the files of ops
from ..engine.arguments import shown
from ..engine.convert import ALLOWED, BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, STORED, TYPES
from ..engine.convert import default_dtype as default_dtype  # for the files of ops
from ..engine.function import Function
from ..engine.tensor import Tensor, wrap

float32, float64, int64, bool_, float16 = FLOAT32, FLOAT64, INT64, BOOL, FLOAT16
uint8, int8, int16, int32, _ = STORED
CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2}


class Cast(Function):
    """x in another floating-point type."""

    moves = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: np.dtype[Any]) -> Tensor:
        ctx.input_dtype = x.array.dtype
        return wrap(converted(x.array, dtype) if dtype is float16 else x.array.astype(dtype))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return Cast.apply(g, ctx.input_dtype), None


def cast(x: Tensor, dtype: Any) -> Tensor:
    """x in another element type; gradients flow between floating-point types.

    dtype: an element type, as a NumPy dtype, its name, or Python's float (the default type), int, bool.

    Raises:
        TypeError: ``dtype`` is none of these.
    """
    target = as_dtype(dtype)
    if x.array.dtype == target:
        return x
    if target.kind == "f" and x.array.dtype.kind == "f":
        return Cast.apply(x, target)
    return wrap(converted(x.array, target))


def converted(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """array in another type, in its order of memory: numbers are truncated to integers, which wrap."""
    if array.dtype.kind != "f":
        return array.astype(dtype)
    with np.errstate(all="ignore"):
        if dtype.kind in "iu" and dtype.itemsize < 4:  # as other libraries do it, for numbers outside the type
            array = array.astype(np.int64)
        return array.astype(dtype)


def as_dtype(dtype: Any, *, default: bool = False) -> np.dtype[Any]:
    """``dtype`` as one of a Tensor's element types; TypeError otherwise.

    default: None is the type of new floating-point tensors, as Python's float is.
    """
    if dtype is float or (default and dtype is None):
        return default_dtype()
    try:
        found = np.dtype(dtype) if dtype is not None else None
    except TypeError:
        if isinstance(dtype, Unavailable):
            raise TypeError(dtype.reason) from None
        found = None
    if found is None or found not in ALLOWED:  # for NumPy, None is float64
        raise TypeError(f"dtype={dtype!r} is not an element type of a Tensor; choose {TYPES}")
    return found


class Unavailable:
    """An element type of PyTorch that no Tensor has; to use it is a TypeError, to name it is none."""

    def __init__(self, name: str, way_out: str) -> None:
        self.name, self._way_out = name, way_out
        self.reason = f"dtype=retrograd.{name} is not an element type of a Tensor: {way_out}"

    def __repr__(self) -> str:
        return f"retrograd.{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unavailable) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> Any:
        return Unavailable, (self.name, self._way_out)


def require_tensor(name: str, x: Any, label: str = "input") -> None:
    """TypeError unless x is a Tensor; ``label`` is its name in the caller."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{name}: {label} is {type(x).__name__}, needs a Tensor; make one with retrograd.tensor({label})"
        )


def require_number(name: str, x: Any, label: str = "input") -> None:
    """TypeError unless x is a Tensor of numbers, not bool."""
    if not isinstance(x, Tensor) or x.array.dtype.kind == "b":
        require_float(name, x, label)


def require_float(name: str, x: Any, label: str = "input") -> None:
    """TypeError unless x is a floating-point Tensor."""
    if isinstance(x, Tensor):
        if x.array.dtype.kind == "f":
            return
        raise TypeError(f"{name}: {label} is {x.dtype}, needs float32 or float64; convert it with {label}.float()")
    require_tensor(name, x, label)


def kind_of(value: Any) -> str:
    """A Tensor's element type, or the class of anything else, for messages."""
    return str(value.array.dtype) if isinstance(value, Tensor) else type(value).__name__


def as_index(name: str, x: Any, label: str = "input", needs: str = "an int64 Tensor") -> Tensor:
    """x, a Tensor of integers, in int64; TypeError for anything else."""
    if not isinstance(x, Tensor) or x.array.dtype.kind not in "iu":
        raise TypeError(f"{name}: {label} is {kind_of(x)}, needs {needs}")
    return cast(x, int64)


def as_mask(name: str, array: np.ndarray) -> np.ndarray:
    """Bytes as truth values, which older scripts use them as, with PyTorch's warning."""
    warnings.warn(
        f"{name}: a mask with dtype uint8 is now deprecated, please use a dtype bool instead", UserWarning, stacklevel=4
    )
    return array != 0


def as_float(name: str, x: Any, label: str = "input") -> Tensor:
    """x, in the default type if it holds integers or bool; TypeError unless it is a Tensor."""
    require_tensor(name, x, label)
    return x if x.array.dtype.kind == "f" else cast(x, default_dtype())


def are_floats(x: Any, y: Any) -> bool:
    """Whether both are floating-point Tensors of one type, the usual case."""
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        dtype = x.array.dtype
        return dtype is y.array.dtype and dtype.kind == "f"
    return False


def floats(name: str, *, integers: bool = False, **operands: Any) -> tuple[Tensor, ...]:
    """The operands, by their names in the caller, promoted to a floating-point type; TypeError without a floating one.

    integers: allow integers and truth values alone, in the default type.
    """
    for label, x in operands.items():
        require_tensor(name, x, label)
    dtype = promoted_type(*[x.array for x in operands.values()])
    if dtype.kind != "f" and not integers:
        for label, x in operands.items():
            require_float(name, x, label)
    return (*[cast(x, dtype if dtype.kind == "f" else default_dtype()) for x in operands.values()],)


def whole(name: str, label: str, number: Any) -> int:
    """A number truncated to an int; ValueError if it is NaN or does not fit int64."""
    exact = number.item() if isinstance(number, np.generic) else number
    if -(2**63) <= exact < 2**63:
        return int(exact)
    raise ValueError(f"{name}: {label}={shown(number)} does not fit int64; convert the integers with .float()")


def as_real(name: str, label: str, number: Any) -> float:
    """A number as a float; ValueError if it is an int larger than any float."""
    try:
        return float(number)
    except OverflowError:
        raise ValueError(
            f"{name}: {label}={shown(number)} is larger than any floating-point number; use float('inf')"
        ) from None


def as_element(name: str, label: str, number: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """A number as a 0-d array of ``dtype``, truncated for integers; raises as ``as_real`` or ``whole``."""
    if dtype.kind == "f":
        number = as_real(name, label, number)
    elif dtype.kind in "iu":
        number = whole(name, label, number)
        if dtype.itemsize < 8:
            most = np.iinfo(dtype).max
            if not -most - 1 <= number <= most:
                raise ValueError(f"{name}: {label}={shown(number)} does not fit {dtype}")
            return np.array(number).astype(dtype)  # -1 is the largest number of uint8
    return np.array(number, dtype)


def _operand(name: str, label: str, number: Any, dtype: np.dtype[Any]) -> Tensor:
    """As ``as_element``; beside a tensor of a smaller type than int64 a number wraps."""
    if dtype.kind in "iu" and dtype.itemsize < 8:
        return wrap(as_element(name, label, number, int64).astype(dtype))
    return wrap(as_element(name, label, number, dtype))


def as_int(name: str, label: str, value: Any) -> int:
    """``value``, an int of Python, NumPy or a Tensor, as an int; TypeError otherwise."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {label}={value!r} must be an int") from None


def require_same(name: str, first: str, x: Tensor, second: str, y: Tensor, integers: bool = False) -> None:
    """TypeError unless both are floating-point Tensors of one type, or both int64 where ``integers`` are allowed."""
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        dtype = x.array.dtype
        if dtype is y.array.dtype and dtype.kind == "f":
            return
    for label, value in ((first, x), (second, y)):
        require_tensor(name, value, label)
    if x.array.dtype != y.array.dtype or x.array.dtype.kind not in ("fiu" if integers else "f"):
        allowed = "float32, both float64 or both int64" if integers else "float32 or both float64"
        raise TypeError(
            f"{name}: {first} is {x.array.dtype}, {second} is {y.array.dtype}; both must be {allowed}: "
            f"convert one with .float() or .double()"
        )


def are_integers(*values: Any) -> bool:
    """Whether all are Tensors of integers."""
    return all(isinstance(value, Tensor) and value.array.dtype.kind in "iu" for value in values)


def require_factor(name: str, label: str, factor: Any, dtype: np.dtype[Any]) -> None:
    """TypeError unless ``factor`` is a number, and not a floating-point one where ``dtype`` is an integer type."""
    if not is_number(factor):
        raise TypeError(f"{name}: {label} is {type(factor).__name__}, needs a number")
    if dtype.kind != "f" and isinstance(factor, (float, np.floating)):
        raise TypeError(f"{name}: {label}={factor!r} does not scale {dtype}; use an int, or operands with .float()")


def is_number(value: Any) -> bool:
    """Whether value is a Python or NumPy real number or truth value."""
    return isinstance(value, (float, int, numbers.Real, np.bool_))


def promote(name: str, x: Any, y: Any, second: str = "other") -> tuple[Tensor, Tensor]:
    """Both operands, one of them perhaps a number, as Tensors of one type; ``second`` is y's name in the caller.

    TypeError if an operand is neither a Tensor nor a number, or both are numbers; ValueError if a number does not fit.
    """
    if isinstance(x, Tensor) and isinstance(y, Tensor):
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
            f"{name}: input={shown(x)} and {second}={shown(y)} are numbers, one must be a Tensor; "
            f"try retrograd.tensor({shown(x)})"
        )
    label, wrong = (second, y) if isinstance(x, Tensor) or is_number(x) else ("input", x)
    raise TypeError(
        f"{name}: {label} is {type(wrong).__name__}, needs a Tensor or a number; "
        f"make one with retrograd.tensor({label})"
    )


def promoted_type(x: np.ndarray, *others: np.ndarray) -> np.dtype[Any]:
    """The promoted type of arrays; next to arrays with axes, a 0-d array counts only by its category."""
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
    """The smallest type that holds what two tensors with axes hold: ``promote_types``."""
    if one == other:  # not "is": types that were pickled are equal, and others
        return one
    difference = CATEGORY[one.kind] - CATEGORY[other.kind]
    if not difference and one.itemsize == other.itemsize:  # uint8 and int8
        return int16
    return one if (difference or one.itemsize - other.itemsize) > 0 else other


def with_number(dtype: np.dtype[Any], number: Any) -> np.dtype[Any]:
    """The promoted type of a tensor of ``dtype`` and a Python number."""
    if dtype.kind == "f" or isinstance(number, (bool, np.bool_)):
        return dtype
    if isinstance(number, (int, np.integer)):
        return int64 if dtype is bool_ else dtype
    return default_dtype()
