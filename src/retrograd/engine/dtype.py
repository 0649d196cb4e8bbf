"""Dtypes of tensors, and the conversion of constructor data to an array."""

from __future__ import annotations

import warnings
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import first_outside, from_host, is_array, within, zeros
from ..kernel_set import exact, usual
from .arguments import format_number, kind_name

if TYPE_CHECKING:
    from .attached import Attached as Attached
else:

    class Attached:
        """Base of Tensor. Type checkers see the attached methods in attached.pyi."""

        __slots__ = ()


FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)
INT64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)
FLOAT16 = np.dtype(np.float16)
COMPUTED = FLOAT32, FLOAT64, INT64, BOOL  # the types that operators compute in
STORED = tuple(np.dtype(kind) for kind in (np.uint8, np.int8, np.int16, np.int32, np.float16))  # converted for use
ALLOWED = frozenset((*COMPUTED, *STORED))
# dtype -> the instance to compare with `is`: unpickling in NumPy creates other instances
OWN: dict[Any, Any] = {kind: kind for kind in ALLOWED}
DTypeLike = np.dtype[Any] | type[float | int | np.generic] | str | None  # None: the default of a function
TYPES = "float32, float64, int64 or bool, or for storage float16, int32, int16, int8 or uint8"
CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2}  # by dtype kind; a number may move to a higher category
_MAX_ELEMENTS = 2**60  # more elements than an array can have; NumPy does not always check
_DEFAULT_OF_KIND: dict[str, np.dtype[Any]] = {"f": FLOAT32, "i": INT64, "b": BOOL}


def default_dtype() -> np.dtype[Any]:
    """Return the dtype of new floating-point tensors: float32, unless another one was set."""
    return _DEFAULT_OF_KIND["f"]


def set_default(dtype: np.dtype[Any]) -> None:
    """Set the dtype of new floating-point tensors."""
    _DEFAULT_OF_KIND["f"] = dtype
    usual[1] = int(dtype is FLOAT32)


def as_allowed_array(data: Any, dtype: Any) -> np.ndarray:
    """Convert the data passed to Tensor(...) to an array of an allowed dtype."""
    requested: np.dtype[Any] | None = None if dtype is None else np.dtype(dtype)
    by_kernel = False  # the array belongs to a Tensor or to another library: a kernel converts its dtype
    if requested is not None and requested not in ALLOWED:
        raise TypeError(f"Tensor: dtype {requested} is not supported; use {TYPES}")
    if _is_tensor(data):
        if data.requires_grad:
            raise TypeError("Tensor: data is already a Tensor, and requires grad; use it itself, or tensor.detach()")
        data, by_kernel = data.array, True
    if isinstance(data, np.ndarray | np.generic):
        if hasattr(data, "mask"):
            raise TypeError("Tensor: a masked array would lose its mask; use array.filled(value) first")
        array = from_host(data)
    elif is_array(data):
        array, by_kernel = data, True
    else:
        data = _with_scalars(data)
        try:
            try:
                array = from_host(data)
            except RuntimeError:  # a tensor that requires a gradient
                array = from_host(_without_history(data))
        except (ValueError, TypeError) as error:
            uneven = isinstance(data, (list, tuple)) and "inhomogeneous" in str(error)
            why = "its nested lists have different lengths; pad them to one length" if uneven else str(error)
            raise TypeError(
                f"Tensor: data of type {type(data).__name__} is not a regular array of numbers: {why}"
            ) from None
        if array.dtype.kind in "uO":
            array = _large_integers(array, requested)
        if requested is None:
            requested = _DEFAULT_OF_KIND.get(str(array.dtype.kind))
            if array.dtype is FLOAT64 and _is_double(data):
                requested = FLOAT64
            if not array.size and isinstance(data, list | tuple):
                requested = default_dtype()
        if requested is not None and requested.kind in "iu" and requested.itemsize < 8 and array.dtype.kind in "iu":
            _check_fit(array, requested)
    if by_kernel and requested is not None:
        array = array if array.dtype == requested else exact("cast")(array, requested)
    elif requested is not None and array.dtype.kind in "fiub":
        with np.errstate(over="ignore"):  # too large a number becomes inf, as in PyTorch
            array = from_host(array, requested, like=array)
    if array.dtype not in ALLOWED:
        if array.dtype.kind in "UO" and not isinstance(data, np.ndarray | np.generic):
            what = "text" if array.dtype.kind == "U" else "objects other than numbers"
            values = "" if data is None or isinstance(data, (str, dict)) else f" of {what}"
            raise TypeError(
                f"Tensor: data is {kind_name(data)}{values}, needs numbers, or lists or an array of numbers"
            )
        raise TypeError(
            f"Tensor: dtype {array.dtype} is not supported; use {TYPES}, for example array.astype(np.float32)"
        )
    return as_own(array)


def as_own(array: np.ndarray) -> np.ndarray:
    """Return the array, or a view of it, with the dtype instance from OWN."""
    own = OWN[array.dtype]
    return array if array.dtype is own else array.view(own)


def _with_scalars(data: Any) -> Any:
    """Reshape one-element tensors in nested sequences to have no axes, as PyTorch does."""
    first = data
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if first is data or not _is_tensor(first) or first.array.size != 1 or not first.array.ndim:
        return data

    def scalar(item: Any) -> Any:
        if isinstance(item, list | tuple):
            return [scalar(each) for each in item]
        return item.reshape(()) if _is_tensor(item) and item.array.size == 1 else item

    return scalar(data)


def _without_history(data: Any) -> Any:
    """Replace tensors in nested sequences by their arrays."""
    if _is_tensor(data):
        if data.requires_grad:
            warnings.warn(
                "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior. Consider "
                "using tensor.detach() first.",
                UserWarning,
                stacklevel=2,
            )
        return data.array
    return [_without_history(each) for each in data] if isinstance(data, list | tuple) else data


def _is_tensor(data: Any) -> bool:
    return isinstance(data, Attached)


def _is_double(data: Any) -> bool:
    """Return whether the first element of nested sequences is a float64, as opposed to a Python float."""
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return getattr(data, "dtype", None) is FLOAT64


def _check_fit(array: np.ndarray, requested: np.dtype[Any]) -> None:
    largest, why = int(np.iinfo(requested).max), "whether a type holds the data"
    if not within(array, -largest - 1, largest, why):
        _, value = first_outside(array, -largest - 1, largest, why)
        raise ValueError(f"Tensor: data contains {value}, which {requested} cannot hold")


def zeros_of_extents(*arguments: Any) -> np.ndarray:
    """Return zeros for Tensor(2, 3), where the extents are in the positions of requires_grad and dtype."""
    extents = [value for value in arguments if value is not False and value is not None]
    if any(type(extent) is not int or extent < 0 for extent in extents):
        raise TypeError(f"Tensor: extents {tuple(extents)} must be ints of at least 0; Tensor(data) takes other data")
    if prod(extents) > _MAX_ELEMENTS:
        raise ValueError(f"Tensor: extents {tuple(extents)} are too many elements; Tensor([number]) contains a number")
    return zeros(tuple(extents), default_dtype())


def _large_integers(array: np.ndarray, requested: np.dtype[Any] | None) -> np.ndarray:
    """Convert an array made from Python ints beyond int64 to the requested type; return any other array unchanged."""
    items: list[Any] = array.reshape(-1).tolist()
    beyond = [item for item in items if type(item) is int and not -(2**63) <= item < 2**63]
    if not beyond or not all(isinstance(item, int | float) for item in items):
        return array
    if requested is None or requested.kind == "i":
        raise ValueError(
            f"Tensor: data contains {format_number(beyond[0])}, which int64 cannot hold; pass dtype=float32 or float64"
        )
    try:
        return from_host(array, requested)
    except OverflowError:
        raise ValueError(
            f"Tensor: data contains {format_number(max(beyond, key=abs))}, which is larger than any {requested}; "
            "use float('inf')"
        ) from None
