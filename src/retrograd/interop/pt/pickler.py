"""The pickler of the .pt writer: protocol 2, with storages shared between overlapping tensors."""

from __future__ import annotations

import struct
from argparse import Namespace
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...engine.arguments import kind_name
from ...engine.tensor import Size, Tensor
from ...nn.module import Module
from ...nn.parameter import Parameter, is_lazy
from ...ops.device import device
from .objects import MOST_DEPTH, entry

__all__ = ["Pickler", "Placement", "assign_storages"]


# ---- Storages for tensors that share memory -------------------------------------------------------------------------


@dataclass(frozen=True)
class Placement:
    """A tensor as a view of a storage; offset and stride are in numbers, not bytes."""

    storage: int
    numbers: int
    dtype: str
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True)
class _View:
    number: int
    array: np.ndarray
    low: int  # addresses of its first byte and past its last one
    high: int


def assign_storages(arrays: Mapping[int, np.ndarray]) -> tuple[list[np.ndarray], dict[int, Placement]]:
    """Compute the storages of arrays, as arrays of one axis, and the placement of each array in them, by its number.

    Arrays of one dtype whose memory overlaps share a storage: the memory from the first number of one to the last of
    another. The storage contains no other part of the underlying memory.
    """
    views = sorted((_view(number, array) for number, array in arrays.items()), key=_address)
    groups: list[list[_View]] = []
    end = 0
    for view in views:
        first = groups[-1][0] if groups else view
        same = first.array.dtype == view.array.dtype and (view.low - first.low) % view.array.itemsize == 0
        if groups and same and view.low < end:
            groups[-1].append(view)
            end = max(end, view.high)
        else:
            groups.append([view])
            end = view.high
    position = {number: place for place, number in enumerate(arrays)}
    groups.sort(key=lambda group: min(position[view.number] for view in group))
    storages: list[np.ndarray] = []
    placement = {}
    for group in groups:
        first, width = group[0], group[0].array.itemsize
        numbers = (max(view.high for view in group) - first.low) // width
        for view in group:
            stride = tuple(step // width for step in view.array.strides)
            offset = (view.low - first.low) // width
            name = view.array.dtype.name
            placement[view.number] = Placement(len(storages), numbers, name, offset, view.array.shape, stride)
        storages.append(np.lib.stride_tricks.as_strided(first.array, (numbers,), (width,)))
    return storages, placement


def _view(number: int, array: np.ndarray) -> _View:
    """Make an array that PyTorch can view: in native byte order, with strides that are whole numbers of elements."""
    if not array.dtype.isnative or array.size == 0 or any(step < 0 or step % array.itemsize for step in array.strides):
        array = np.array(array, array.dtype.newbyteorder("="), order="C")
    low = array.ctypes.data
    reach = sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)) + array.itemsize
    return _View(number, array, low, low + (reach if array.size else 0))


def _address(view: _View) -> tuple[str, int, int]:
    return view.array.dtype.name, view.low, -view.high


# ---- Pickling with protocol 2, limited to the operations of PyTorch's weights-only unpickler ------------------------

_STORAGES = {
    "float64": "Double",
    "float32": "Float",
    "float16": "Half",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
}
_FACTORIES: dict[Any, str] = {list: "list", dict: "dict", set: "set", int: "int", float: "float", str: "str"}
_BATCH = 1000  # entries between a mark and the operation that adds them


class Pickler:
    """Writes pickles: ``pickled`` returns one, ``storages`` then contains the arrays that its tensors are views of."""

    def __init__(self) -> None:
        self.storages: list[np.ndarray] = []
        self.parts: list[bytes] = []
        self.memo: dict[Any, int] = {}
        self.kept: list[Any] = []  # keeps objects alive, so that no id is reused
        self.above: list[int] = []  # the containers around the current one
        self.placements: dict[int, Placement] = {}

    def pickled(self, value: Any) -> bytes:
        """Pickle a value.

        Raises:
            TypeError: the value contains something that cannot be written.
            ValueError: a container contains itself, or containers are nested too deep.
        """
        tensors: dict[int, np.ndarray] = {}
        _find_tensors(value, tensors, set())
        self.storages, self.placements = assign_storages(tensors)
        self.parts = [b"\x80\x02"]
        self.write(value, "obj")
        return b"".join([*self.parts, b"."])

    def write(self, value: Any, place: str) -> None:
        if isinstance(value, np.generic) and value.dtype.kind in "biufUSc":
            value = value.item()
        kind = type(value)
        if value is None or kind is bool:
            self.parts.append({None: b"N", True: b"\x88", False: b"\x89"}[value])
        elif kind is int:
            self._int(value, place)
        elif kind is float:
            self.parts.append(b"G" + struct.pack(">d", value))
        elif kind is complex:
            self._call("__builtin__ complex", (value.real, value.imag), place)
        elif self._recall(value):
            return
        elif kind is str:
            data = value.encode("utf-8", "surrogatepass")
            self.parts.append(b"X" + struct.pack("<I", len(data)) + data)
            self._store(value)
        elif kind in (bytes, bytearray):
            name = "_codecs encode" if kind is bytes else "__builtin__ bytearray"
            self._call(name, (value.decode("latin1"), "latin1" if kind is bytes else "latin-1"), place)
            self._store(value)
        elif isinstance(value, Tensor):
            self._tensor(value, place)
        elif isinstance(value, np.dtype) and value.name in _STORAGES:
            self._global(f"torch {value.name}")
        elif kind is device:
            self._call("torch device", (value.type,) if value.index is None else (value.type, value.index), place)
        elif kind is np.ndarray:
            self._array(value, place)
        else:
            self._container(value, kind, place)

    # ---- Containers -------------------------------------------------------------------------------------------------

    def _container(self, value: Any, kind: type, place: str) -> None:
        write = _CONTAINERS.get(kind)
        if write is None:
            raise TypeError(f"save: {place} is {_described(value)}")
        self._enter(value, place)
        write(self, value, place)
        self.above.pop()

    def _enter(self, value: Any, place: str) -> None:
        if id(value) in self.above:
            what = (
                "a tensor that its own attributes contain"
                if isinstance(value, Tensor)
                else "a container that contains it"
            )
            raise ValueError(f"save: {place} is {what}; a file cannot contain a cycle")
        if len(self.above) >= MOST_DEPTH:
            raise ValueError(f"save: {place} is nested deeper than {MOST_DEPTH} containers")
        self.above.append(id(value))

    def _list(self, value: list[Any], place: str) -> None:
        self.parts.append(b"]")
        self._store(value)
        for first in range(0, len(value), _BATCH):
            self.parts.append(b"(")
            for position in range(first, min(len(value), first + _BATCH)):
                self.write(value[position], entry(place, position))
            self.parts.append(b"e")

    def _tuple(self, value: tuple[Any, ...], place: str) -> None:
        if type(value) is Size:
            self._call("torch Size", (tuple(value),), place)
        elif not value:
            self.parts.append(b")")
        else:
            self.parts.append(b"(")
            for position, item in enumerate(value):
                self.write(item, entry(place, position))
            self.parts.append(b"t")
            self._store(value)

    def _dict(self, value: dict[Any, Any], place: str) -> None:
        self.parts.append(b"}")
        self._store(value)
        self._items(value, place)

    def _items(self, value: dict[Any, Any], place: str) -> None:
        pairs = list(value.items())
        for first in range(0, len(pairs), _BATCH):
            self.parts.append(b"(")
            for key, item in pairs[first : first + _BATCH]:
                self._key(key, place)
                self.write(item, entry(place, key))
            self.parts.append(b"u")

    def _key(self, key: Any, place: str) -> None:
        plain = (str, bytes, int, float, bool, type(None))
        items = key if type(key) is tuple and len(key) <= 16 else (key,)
        if not all(type(item) in plain or isinstance(item, np.generic) for item in items):
            raise TypeError(
                f"save: a key of {place} is {kind_name(key)}; strings, numbers and short tuples of them can be keys"
            )
        self.write(key, f"a key of {place}")

    def _ordered(self, value: OrderedDict[Any, Any], place: str) -> None:
        self._call("collections OrderedDict", (), place)
        self._store(value)
        self._items(value, place)
        if "_metadata" in vars(value):  # the versions of a state_dict's modules
            self._dict({"_metadata": vars(value)["_metadata"]}, place)
            self.parts.append(b"b")

    def _counter(self, value: Counter[Any], place: str) -> None:
        self._global("collections Counter")
        self._dict(dict(value), place)
        self.parts.append(b"\x85R")
        self._store(value)

    def _default(self, value: defaultdict[Any, Any], place: str) -> None:
        factory: Any = value.default_factory
        if factory is not None and factory not in _FACTORIES:
            raise TypeError(f"save: {place} is a defaultdict with a custom factory; save dict(x)")
        self._global("collections defaultdict")
        self.parts.append(b")" if factory is None else b"")
        if factory is not None:
            self._global(f"__builtin__ {_FACTORIES[factory]}")
            self.parts.append(b"\x85")
        self.parts.append(b"R")
        self._store(value)
        self._items(value, place)

    def _set(self, value: set[Any] | frozenset[Any], place: str) -> None:
        self._global(f"__builtin__ {type(value).__name__}")
        self.parts.append(b"](")
        for item in sorted(value, key=repr):  # the same set gives the same file
            self._key(item, place)
        self.parts.append(b"e\x85R")
        self._store(value)

    def _namespace(self, value: Namespace, place: str) -> None:
        self._global("argparse Namespace")
        self.parts.append(b")\x81")
        self._store(value)
        self._dict(vars(value), place)
        self.parts.append(b"b")

    # ---- Numbers and tensors ----------------------------------------------------------------------------------------

    def _int(self, value: int, place: str) -> None:
        if 0 <= value < 256:
            self.parts.append(b"K" + bytes([value]))
        elif 0 <= value < 65536:
            self.parts.append(b"M" + struct.pack("<H", value))
        elif -(2**31) <= value < 2**31:
            self.parts.append(b"J" + struct.pack("<i", value))
        else:
            size = value.bit_length() // 8 + 1
            if size > 255:
                raise ValueError(f"save: {place} is an integer of {size:,} bytes, the limit is 255")
            self.parts.append(b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True))

    def _tensor(self, value: Tensor, place: str) -> None:
        if is_lazy(value):
            raise TypeError(f"save: {place} is not initialized; call the model once, so that it has a shape")
        self._enter(value, place)
        placement, attributes = self.placements[id(value)], vars(value)
        if isinstance(value, Parameter):
            self._global(f"torch._utils _rebuild_parameter{'_with_state' if attributes else ''}")
            self.parts.append(b"(")
            self._rebuild(placement, False)
            self._flags(value.requires_grad)
        elif attributes:
            self._global("torch._tensor _rebuild_from_type_v2")
            self.parts.append(b"(")
            self._global("torch._utils _rebuild_tensor_v2")
            self._global("torch Tensor")
            self._arguments(placement, value.requires_grad)
        else:
            self._rebuild(placement, value.requires_grad)
        if attributes:
            self.parts.append(b"}(")
            for name, item in attributes.items():
                self.write(name, place)
                self.write(item, f"{place}.{name}")
            self.parts.append(b"u")
        if attributes or isinstance(value, Parameter):
            self.parts.append(b"tR")
        self.above.pop()
        self._store(value)

    def _rebuild(self, placement: Placement, requires_grad: bool) -> None:
        self._global("torch._utils _rebuild_tensor_v2")
        self._arguments(placement, requires_grad)
        self.parts.append(b"R")

    def _arguments(self, placement: Placement, requires_grad: bool) -> None:
        """Write the arguments of ``_rebuild_tensor_v2``."""
        self.parts.append(b"((")
        self.write("storage", "")
        self._global(f"torch {_STORAGES[placement.dtype]}Storage")
        for item in (str(placement.storage), "cpu", placement.numbers):
            self.write(item, "")
        self.parts.append(b"tQ")
        self.write(placement.offset, "")
        for sizes in (placement.shape, placement.stride):
            self.parts.append(b"(")
            for size in sizes:
                self._int(size, "")
            self.parts.append(b"t")
        self._flags(requires_grad)
        self.parts.append(b"t")

    def _flags(self, requires_grad: bool) -> None:
        """Write the arguments that tensors and parameters share: whether a gradient is required, and hooks."""
        self.parts.append(b"\x88" if requires_grad else b"\x89")
        self._global("collections OrderedDict")
        self.parts.append(b")R")

    def _array(self, value: np.ndarray, place: str) -> None:
        """Write a NumPy array as NumPy's own pickles represent it."""
        if value.dtype.kind not in "biuf" or value.dtype.itemsize > 8:
            raise TypeError(f"save: {place} is an array of {value.dtype}; integers, floats and bools can be written")
        self._global("numpy.core.multiarray _reconstruct")
        self.parts.append(b"(")
        self._global("numpy ndarray")
        self.write((0,), place)
        self.write(b"b", place)
        self.parts.append(b"tR")
        self._store(value)
        native = value.dtype.newbyteorder("<")
        self.parts.append(b"(K\x01")
        self.write(tuple(value.shape), place)
        self._call("numpy dtype", (f"{value.dtype.kind}{value.dtype.itemsize}", False, True), place)
        order = "<" if value.dtype.itemsize > 1 else "|"
        self.write((3, order, None, None, None, -1, -1, 0), place)
        self.parts.append(b"b\x89")
        self.write(np.ascontiguousarray(value, native).tobytes(), place)
        self.parts.append(b"tb")

    # ---- Pickle operations ------------------------------------------------------------------------------------------

    def _global(self, text: str) -> None:
        key = "global", text
        if key in self.memo:
            self._get(self.memo[key])
            return
        module, name = text.split(" ")
        self.parts.append(f"c{module}\n{name}\n".encode())
        self._put(key)

    def _call(self, name: str, args: tuple[Any, ...], place: str) -> None:
        self._global(name)
        self.write(args, place)
        self.parts.append(b"R")

    def _store(self, value: Any) -> None:
        self.kept.append(value)
        self._put(("string", value) if type(value) is str else id(value))

    def _recall(self, value: Any) -> bool:
        number = self.memo.get(("string", value) if type(value) is str else id(value))
        if number is None or id(value) in self.above:
            return False
        self._get(number)
        return True

    def _put(self, key: Any) -> None:
        number = self.memo[key] = len(self.memo)
        self.parts.append(b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number))

    def _get(self, number: int) -> None:
        self.parts.append(b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number))


_CONTAINERS: dict[type, Any] = {
    list: Pickler._list,
    tuple: Pickler._tuple,
    Size: Pickler._tuple,
    dict: Pickler._dict,
    Namespace: Pickler._namespace,
    OrderedDict: Pickler._ordered,
    Counter: Pickler._counter,
    defaultdict: Pickler._default,
    set: Pickler._set,
    frozenset: Pickler._set,
}


def _find_tensors(value: Any, found: dict[int, np.ndarray], seen: set[int]) -> None:
    """Collect the arrays of all tensors in containers and in tensors' attributes, by the tensors' ids."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, Tensor):
            if not is_lazy(item) and id(item) not in found:
                found[id(item)] = item.array
                left += [*vars(item).values()][::-1]
            continue
        if id(item) in seen or type(item) not in _CONTAINERS:
            continue
        seen.add(id(item))
        inside = vars(item).values() if type(item) is Namespace else item.values() if isinstance(item, dict) else item
        left += [*inside, *(vars(item).values() if type(item) is OrderedDict else ())][::-1]


def _described(value: Any) -> str:
    """Describe a value that cannot be written, and what to save instead."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    if isinstance(value, Module):
        return f"a Module ({kind}), which a file without code cannot restore; save its state_dict()"
    if hasattr(value, "state_dict"):
        return f"{kind}, which a file without code cannot restore; save its state_dict()"
    if isinstance(value, type) or callable(value):
        return f"code ({getattr(value, '__qualname__', kind)}), which a file cannot hold; save its name"
    if isinstance(value, dict):
        return f"{kind}, a dict of a custom class; save dict(x)"
    if isinstance(value, (list, tuple)):
        return f"{kind}, a sequence of a custom class; save tuple(x) or list(x)"
    return f"{kind}; tensors, numbers, strings, lists, tuples, sets and dicts can be written"
