"""An array type that behaves like one on another device: not an ndarray, and never implicitly converted to one.

It wraps a NumPy array, reached only through NumPy's protocols (``__array_ufunc__``, ``__array_function__``), and counts
transfers to and from the host. Listeners are notified of every computation, copy, write or read of elements, but not of
views and new arrays filled with one number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from retrograd.engine.aliasing import memory_owner

crossed: Counter[str] = Counter()  # "to host", "from host"
listeners: list[Callable[[str], None]] = []  # called with the kind of access to elements
_WAYS_IN = {np.asarray, np.array, np.ascontiguousarray}  # with like=
_NEW = {np.empty, np.zeros, np.ones, np.full, np.arange, np.eye}  # with like=
_ALIKE = {np.empty_like, np.zeros_like, np.ones_like, np.full_like}
_NEITHER = {np.may_share_memory, np.shares_memory}  # look at addresses only

_owners: WeakValueDictionary[int, Any] = WeakValueDictionary()  # those that own memory, by the id of their array


class Strict:
    """An array whose elements NumPy cannot access directly."""

    __slots__ = ("__weakref__", "_inner", "base")
    __array_priority__ = 1000

    def __init__(self, inner: np.ndarray) -> None:
        self._inner = inner
        owner = memory_owner(inner)
        self.base = None if owner is inner else _outside(owner)  # alive as long as its views
        if self.base is None:
            _owners.setdefault(id(inner), self)

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError("a strict array does not become an array of NumPy by itself")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        _tell(ufunc.__name__)
        return _outside(getattr(ufunc, method)(*_inside(inputs), **_inside(kwargs)))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in _WAYS_IN and type(args[0]) is np.ndarray:
            crossed["from host"] += 1
            return _outside(function(*args, **kwargs))
        found = function(*_inside(args), **_inside(kwargs))
        reads = any(isinstance(each, Strict) for each in args[1 if function in _ALIKE else 0 :])
        if function not in _NEITHER and (reads or function not in (*_NEW, *_ALIKE, *_WAYS_IN)):
            _tell_of_copies(function.__name__, found, *args)
        return _outside(found)

    def to_host(self) -> np.ndarray:
        """Return the elements as a NumPy array."""
        crossed["to host"] += 1
        _tell("to_host")
        return self._inner.copy()

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        found: int = self._inner.__array_interface__["data"][0]
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._inner, name)
        if not callable(found):
            return _outside(found)

        def method(*args: Any, **kwargs: Any) -> Any:
            if name in ("item", "tolist", "tobytes"):
                crossed["to host"] += 1
            result = found(*_inside(args), **_inside(kwargs))
            _tell_of_copies(f".{name}()", result, self)
            return _outside(result)

        return method

    def __getitem__(self, key: Any) -> Any:
        found = self._inner[_inside(key)]
        _tell_of_copies("x[...]", found, self)
        return _outside(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.ndim:
            raise TypeError("an array of NumPy is written into a strict one")
        _tell("x[...] =")
        self._inner[_inside(key)] = _inside(value)

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Any:
        return (self[at] for at in range(len(self)))

    def __bool__(self) -> bool:
        crossed["to host"] += 1
        _tell("bool()")
        return bool(self._inner)

    def __float__(self) -> float:
        crossed["to host"] += 1
        _tell("float()")
        return float(self._inner)

    def __int__(self) -> int:
        crossed["to host"] += 1
        _tell("int()")
        return int(self._inner)

    __index__ = __int__

    def __repr__(self) -> str:
        return f"Strict({self._inner!r})"


def _operator(name: str) -> Any:
    def run(self: Strict, *others: Any) -> Any:
        if any(isinstance(other, np.ndarray) and other.ndim for other in others):
            return NotImplemented
        _tell(name)
        found = getattr(self._inner, name)(*_inside(others))
        return found if found is NotImplemented else _outside(found)

    return run


def _in_place(name: str) -> Any:
    def run(self: Strict, other: Any) -> Any:
        _tell(name)
        getattr(self._inner, name)(_inside(other))
        return self

    return run


for _name in (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
):
    setattr(Strict, f"__{_name}__", _operator(f"__{_name}__"))
    setattr(Strict, f"__r{_name}__", _operator(f"__r{_name}__"))
    setattr(Strict, f"__i{_name}__", _in_place(f"__i{_name}__"))
for _name in ["neg", "pos", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge"]:
    setattr(Strict, f"__{_name}__", _operator(f"__{_name}__"))
Strict.__hash__ = object.__hash__  # type: ignore[method-assign]


def _tell(what: str) -> None:
    for listener in listeners:
        listener(what)


def _tell_of_copies(what: str, result: Any, *sources: Any) -> None:
    """Tell listeners of a result, unless it is a view of a source, an array without elements or nothing."""
    if not listeners or result is None:
        return
    inner = [each._inner for each in sources if isinstance(each, Strict)]
    for found in result if isinstance(result, (tuple, list)) else (result,):
        known = isinstance(found, np.ndarray) and not found.size
        if not known and not (isinstance(found, np.ndarray) and any(np.may_share_memory(found, x) for x in inner)):
            _tell(what)
            return


def _inside(value: Any) -> Any:
    if isinstance(value, Strict):
        return value._inner
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_inside, value))
    if isinstance(value, (tuple, list)):
        return type(value)(map(_inside, value))
    if isinstance(value, dict):
        return {key: _inside(each) for key, each in value.items()}
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "fcbiu":
        raise TypeError("an array of NumPy meets a strict one")
    return value


def _outside(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        owner = _owners.get(id(value))
        return Strict(value) if owner is None else owner
    if isinstance(value, np.generic):
        return Strict(np.asarray(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_outside, value))
    if isinstance(value, (tuple, list)):
        return type(value)(map(_outside, value))
    return value
