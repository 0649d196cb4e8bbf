"""Objects of the .pt reader: errors, limits, storages, globals, and objects waiting for their state."""

from __future__ import annotations

import math
import pickle
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from ..._files.state import checked_bools
from ...engine.tensor import Tensor
from ..dtypes import bfloat16_numbers, widened

__all__ = [
    "BFLOAT16",
    "DTYPES",
    "MOST_DEPTH",
    "MOST_INT",
    "Name",
    "PTFileError",
    "Pending",
    "Refused",
    "Storage",
    "UNTYPED",
    "bytes_of",
    "checked_key",
    "checked_object",
    "entry",
]


# ---- Errors for unusable .pt files, and limits on files and saved objects -------------------------------------------

MOST_DEPTH = 200  # levels of nested containers
MOST_INT = 1024  # bytes of an integer


class PTFileError(pickle.UnpicklingError, RuntimeError, ValueError):
    """A .pt file is damaged or contains something unsupported; the message names the file, the location and the reason.

    It is a subclass of both errors that PyTorch raises.
    """


class Refused(Exception):  # noqa: N818  it never leaves this folder
    """The reason something is refused; the reader adds the file and the location."""


def entry(place: str, key: object) -> str:
    """Return the location of an entry in the container at ``place``, for a message: obj['model'][3]."""
    text = repr(key) if type(key) in (str, int, float, bool, type(None)) else type(key).__name__
    return f"{place}[{text if len(text) <= 80 else text[:80] + '...'}]"


# ---- Storages of a .pt file, and the tensors that are views of them -------------------------------------------------

BFLOAT16, UNTYPED = "bfloat16", "untyped"
_LEGACY = {
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": BFLOAT16,
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "Untyped": UNTYPED,
}

# a storage's class -> the dtype of its numbers
DTYPES = {
    f"{module}{kind}Storage": dtype
    for kind, dtype in _LEGACY.items()
    for module in ("torch.", "torch.cuda.", "torch.storage.")
}


def bytes_of(dtype: str) -> int:
    """Return the bytes per number of a storage."""
    return {BFLOAT16: 2, UNTYPED: 1}.get(dtype) or np.dtype(dtype).itemsize


class Storage:
    """A block of numbers in a file.

    data: its bytes, writable; None during a first pass that only collects storage requests. dtype: the name of its
        numbers' dtype, or "untyped".
    """

    big_endian: bool
    data: np.ndarray | None
    dtype: str

    def __init__(self, data: np.ndarray | None, dtype: str, big_endian: bool = False) -> None:
        self.data, self.dtype, self.big_endian = data, dtype, big_endian
        self._numbers: dict[str, np.ndarray] = {}
        self._parts: dict[tuple[int, int], Storage] = {}

    def part(self, first: int, size: int) -> Storage:
        """Return these bytes as a storage; the same object for the same bytes.

        Raises:
            Refused: the storage has fewer bytes.
        """
        assert self.data is not None
        if first + size > self.data.size:
            raise Refused("a part of a storage goes beyond its end")
        key = first, size
        if key not in self._parts:
            self._parts[key] = Storage(self.data[first : first + size], self.dtype, self.big_endian)
        return self._parts[key]

    def numbers(self, dtype: str) -> np.ndarray:
        """All numbers, in a dtype that a Tensor can have; tensors with the same storage share them."""
        if dtype not in self._numbers:
            self._numbers[dtype] = self._read(dtype)
        return self._numbers[dtype]

    def _read(self, dtype: str) -> np.ndarray:
        assert self.data is not None
        order: Literal["<", ">"] = ">" if self.big_endian else "<"
        if dtype == BFLOAT16:
            return bfloat16_numbers(self.data.view(f"{order}u2"))
        kind = np.dtype(dtype)
        if self.data.size % kind.itemsize:
            raise Refused(f"a storage of {self.data.size:,} bytes does not have a whole number of {dtype}")
        array = self.data.view(kind.newbyteorder(order))
        try:
            return widened(checked_bools("a storage", array.astype(kind, copy=False)))
        except ValueError as error:
            raise Refused(str(error)) from error

    def array(self, offset: Any, size: Any, stride: Any, dtype: str | None = None) -> np.ndarray:
        """Return the view of a tensor; read-only if elements overlap.

        Raises:
            Refused: the sizes are invalid, or the view exceeds the storage.
        """
        if self.data is None:
            return np.empty(0, np.float32)
        numbers = self.numbers(dtype or self.dtype)
        if not _counts((offset,)) or not _counts(size) or not _counts(stride) or len(size) != len(stride):
            raise Refused("a tensor has sizes, strides or an offset that are not counts")
        if len(size) > 32:
            raise Refused(f"a tensor has {len(size)} axes; at most 32 are read")
        elements = math.prod(size)
        width = numbers.itemsize
        if elements * width >= 2**62:
            raise Refused(f"a tensor has the shape {tuple(size)}, too large for any memory")
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if elements and last >= numbers.size:
            raise Refused(f"a tensor reaches element {last:,} of a storage of {numbers.size:,}")
        if not elements:
            return np.empty(size, numbers.dtype)
        view: np.ndarray = np.ndarray(
            tuple(size), numbers.dtype, numbers, offset * width, tuple(step * width for step in stride)
        )
        if _overlaps(size, stride):
            view.flags.writeable = False
        return view


def _counts(values: Any) -> bool:
    return isinstance(values, (tuple, list)) and all(type(n) is int and 0 <= n < 2**62 for n in values)


def _overlaps(size: Any, stride: Any) -> bool:
    """Return whether two elements of a view may share one element of the storage."""
    reach = 0
    for step, n in sorted((step, n) for n, step in zip(size, stride, strict=True) if n > 1):
        if step <= reach:
            return True
        reach += step * (n - 1)
    return False


# ---- Reader objects on the stack, and checks of keys and values -----------------------------------------------------


class Name:
    """A global in a pickle, represented by its name only."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: str = text


class Pending:
    """An object whose state follows; keys: the memo keys under which the pickle stored it."""

    __slots__ = ("build", "keys")

    def __init__(self, build: Callable[[Any], Any]) -> None:
        self.build: Callable[[Any], Any] = build
        self.keys: list[int] = []


def checked_key(key: Any) -> Any:
    """Return a dict key or set item whose hash takes bounded time and cannot be made to collide.

    Raises:
        Refused: the key is of another kind.
    """
    if type(key) is tuple and len(key) <= 16:
        for item in key:
            if type(item) is tuple:
                break
            checked_key(item)
        else:
            return key
    elif key is None or type(key) in (str, bytes, bool, float) or (type(key) is int and abs(key) < 2**61 - 1):
        return key
    kind = key.text if type(key) is Name else "a large int" if type(key) is int else type(key).__name__
    raise Refused(f"a key of a dict or an item of a set is {kind}; strings, numbers and short tuples are read")


def checked_object(value: Any) -> Any:
    """Return a complete value: no container contains itself, and none of the reader's own objects remains in it.

    Raises:
        Refused: the value is incomplete, or containers are nested too deep.
    """
    heights: dict[int, int] = {}  # of containers already checked
    path: list[tuple[Any, Iterator[tuple[Any, Any]], list[int]]] = []  # container, the rest of it, its height so far
    keys: list[Any] = []
    active: set[int] = set()

    def place() -> str:
        text = "obj"
        for key in keys[:10]:
            text = entry(text, key)
        return text + "..." * (len(keys) > 10)

    def enter(item: Any) -> None:
        entries = _entries(item)
        if entries is None:
            if type(item) in (Name, Storage, Pending):
                what = item.text if type(item) is Name else "a storage without a tensor or an unfinished object"
                raise Refused(f"{place()} is {what}, which is not read as a value")
            return
        if id(item) in active:
            raise Refused(f"{place()} is a container that contains it")
        if id(item) not in heights:
            if len(path) >= MOST_DEPTH:
                raise Refused(f"{place()} is nested deeper than {MOST_DEPTH} containers")
            active.add(id(item))
            path.append((item, entries, [0]))
        elif len(path) + heights[id(item)] > MOST_DEPTH:
            raise Refused(f"{place()} is nested deeper than {MOST_DEPTH} containers")
        elif path:
            path[-1][2][0] = max(path[-1][2][0], heights[id(item)])

    enter(value)
    while path:
        container, rest, height = path[-1]
        del keys[len(path) - 1 :]
        following = next(rest, None)
        if following is not None:
            keys.append(following[0])
            enter(following[1])
            continue
        path.pop()
        active.discard(id(container))
        heights[id(container)] = height[0] + 1
        if path:
            path[-1][2][0] = max(path[-1][2][0], height[0] + 1)
    return value


def _entries(value: Any) -> Iterator[tuple[Any, Any]] | None:
    if isinstance(value, dict):
        return iter(value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return enumerate(value)
    return iter(vars(value).items()) if type(value) is Namespace or isinstance(value, Tensor) else None
