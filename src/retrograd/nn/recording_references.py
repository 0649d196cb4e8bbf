"""What the code of a function and of a module's class reads besides arguments: where it is, and what was there.

Globals, closures, defaults, methods, and attributes of objects, all the way down through functions of the user. Code
of this package, of the standard library and of installed packages is not looked into, except the forward of modules.
"""

from __future__ import annotations

import random
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dis import get_instructions
from functools import cache, lru_cache, partial
from itertools import repeat
from operator import is_
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..engine.tensor import Tensor
from .module import Module

PLAIN = (bool, int, float, str, type(None))
_CONTAINERS = (list, dict, set, tuple)
_UNREAD = {"__init__", "__new__", "__del__", "__repr__", "__str__"}  # methods that a call does not reach
_MOST = 1000  # objects
_MISSING = object()
ELEMENTS = ".array"  # stands for this attribute of anything but NumPy, whose function has the same name
_all_missing = repeat(_MISSING)


class Names(NamedTuple):
    """The global names and the attributes in a function's code."""

    globals: frozenset[str]
    attributes: frozenset[str]


@lru_cache(maxsize=1024)
def names_in(code: CodeType) -> Names:
    """The names in a function's code, and in those of functions within it."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    pending = [code]
    while pending:
        code = pending.pop()
        pending += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        before = None
        for each in get_instructions(code):
            if each.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD"):
                found[each.opname in ("LOAD_GLOBAL", "LOAD_NAME")].add(each.argval)
                if each.argval == "array" and before not in ("np", "numpy"):
                    found[False].add(ELEMENTS)
            before = each.argval
    return Names(frozenset(found[True]), frozenset(found[False]))


def _is_optimizer(value: Any) -> bool:
    """Whether a value is an Optimizer, which this package does not import."""
    return hasattr(type(value), "next_update")


def _is_scheduler(value: Any) -> bool:
    """Whether a value is a learning-rate scheduler."""
    return hasattr(type(value), "get_last_lr")


class References:
    """The values that a function reads, and their places: cells of closures, and mappings with a key.

    modules, tensors, optimizers, schedulers, generators of random numbers: those among the values. codes: of the
    functions that were looked into.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.modules: dict[int, Module] = {}  # by id
        self.tensors: dict[int, Tensor] = {}
        self.optimizers: dict[int, Any] = {}
        self.schedulers: list[Any] = []
        self.generators: dict[int, Any] = {}
        self.codes: list[CodeType] = []
        self._elements = 0  # of containers
        self._cells: dict[int, tuple[Any, Any]] = {}  # by id: cells, and their values
        self._places: dict[int, tuple[Mapping[str, Any], dict[str, Any]]] = {}  # mappings, and their values by key
        self._containers: list[tuple[Any, Any]] = []
        self._seen: dict[Any, Any] = {}  # keeps the objects, whose ids are in the keys
        self._visit(function, frozenset())

    @property
    def are_too_many(self) -> bool:
        """Whether not all were looked at."""
        return len(self._seen) + self._elements > _MOST

    def hold(self) -> bool:
        """Whether the same objects, or equal plain values, are in all places."""
        for mapping, before in self._places.values():
            if not all(map(is_, map(mapping.get, before, _all_missing), before.values())) and not all(
                is_same(mapping.get(key, _MISSING), value) for key, value in before.items()
            ):
                return False
        return all(is_same(_content_of(cell), value) for cell, value in self._cells.values()) and all(
            has_content(value, before) for value, before in self._containers
        )

    def _visit(self, value: Any, names: frozenset[str]) -> None:
        """Look at a value of which a function reads these attributes."""
        if isinstance(value, (*PLAIN, np.ndarray, np.generic, CodeType)) or value is _MISSING:
            return
        key = id(value), names
        if key in self._seen or self.are_too_many:
            return
        self._seen[key] = value
        if isinstance(value, Tensor):
            self.tensors[id(value)] = value
        elif _is_optimizer(value):
            self.optimizers[id(value)] = value
        elif _is_scheduler(value):
            self.schedulers.append(value)
        elif isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
            self.generators[id(value)] = value
        elif isinstance(value, Module):
            self._visit_module(value, names)
        elif isinstance(value, MethodType):
            self._visit(value.__func__, names)
            self._visit(value.__self__, _attributes_in(value.__func__))
        elif isinstance(value, FunctionType):
            if _is_of_user(value.__code__.co_filename):
                self._visit_code(value)
        elif isinstance(value, partial):
            for each in (value.func, *value.args, *value.keywords.values()):
                self._visit(each, names | _attributes_in(value.func))
        elif isinstance(value, ModuleType):
            if _is_of_user(getattr(value, "__file__", None) or ""):
                self._visit_mapping(vars(value), names)
        elif type(value) in _CONTAINERS:
            self._elements += len(value)
            if self.are_too_many:
                return
            if not isinstance(value, tuple):
                self._containers.append((value, content(value)))
            for each in value.values() if isinstance(value, dict) else value:
                self._visit(each, names)
        elif isinstance(value, type) or _is_of_user_class(type(value)):
            self._visit_object(value, names)

    def _visit_code(self, function: FunctionType) -> None:
        names = names_in(function.__code__)
        self.codes.append(function.__code__)
        for cell in function.__closure__ or ():
            self._cells[id(cell)] = cell, _content_of(cell)
            self._visit(_content_of(cell), names.attributes)
        for each in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._visit(each, names.attributes)
        self._visit_mapping(function.__globals__, names.globals, names.attributes)

    def _visit_module(self, module: Module, names: frozenset[str]) -> None:
        for each in module.modules():
            self.modules[id(each)] = each
            if not type(each)._is_plain:
                forward = type(each).forward
                if isinstance(forward, FunctionType):
                    self._visit_code(forward)
                    names |= names_in(forward.__code__).attributes
                self._visit_object(each, names)

    def _visit_object(self, value: Any, names: frozenset[str]) -> None:
        """The attributes of an instance or class, and its methods and properties."""
        if hasattr(value, "__dict__"):
            self._visit_mapping(vars(value), names, of=value if isinstance(value, type) else None)
        for each in (value if isinstance(value, type) else type(value)).__mro__:
            if not _is_of_user_class(each):
                continue
            members = vars(each)
            names |= {name for name, found in members.items() if name[:2] == "__" and isinstance(found, FunctionType)}
            names -= _UNREAD
            self._visit_mapping(members, frozenset(names & members.keys()), names, of=each)
            for name in names & members.keys():
                found = getattr(members[name], "__func__", None) or getattr(members[name], "fget", None)
                self._visit(found, names)
                more = _attributes_in(found or members[name])
                if not more <= names:
                    self._visit_object(value, names | more)

    def _visit_mapping(
        self,
        mapping: Mapping[str, Any],
        keys: frozenset[str],
        names: frozenset[str] | None = None,
        of: type | None = None,
    ) -> None:
        """Look at values in a dict, or in the members ``of`` a class, which are a new object at each access."""
        _, before = self._places.setdefault(id(of or mapping), (mapping, {}))
        for key in sorted(keys):
            before[key] = mapping.get(key, _MISSING)
            self._visit(before[key], keys if names is None else names)


def _content_of(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _attributes_in(function: Any) -> frozenset[str]:
    return names_in(function.__code__).attributes if isinstance(function, FunctionType) else frozenset()


@cache
def _foreign() -> tuple[str, ...]:
    """The folders of code that is not the user's."""
    paths = sysconfig.get_paths()
    own = str(Path(__file__).parents[1])
    return own, *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


@lru_cache(maxsize=4096)
def _is_of_user(file: str) -> bool:
    return bool(file) and not file.startswith(_foreign()) and not file.startswith("<frozen")


def _is_of_user_class(kind: type) -> bool:
    """Whether a class is the user's; one of a script or notebook has no file."""
    module = sys.modules.get(kind.__module__)
    if module is None or kind.__module__ == "__main__":
        return True
    return _is_of_user(getattr(module, "__file__", None) or "")


# ---- Comparison of values --------------------------------------------------------------------------------------------


def content(value: Any) -> Any:
    """What a list, a tuple, a dict or a set contains, all the way down, in tuples; other values as they are."""
    if isinstance(value, dict):
        return dict, *((key, content(each)) for key, each in value.items())
    return (type(value), *map(content, value)) if isinstance(value, (list, set, tuple)) else value


def has_content(value: Any, before: Any) -> bool:
    """Whether the content is the same: the same objects, or equal plain values."""
    return is_same(content(value), before)


def is_same(a: Any, b: Any) -> bool:
    """Whether two values are one object, equal plain values, or tuples of such."""
    if a is b or type(a) is not type(b):
        return a is b
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(is_same, a, b))
    return isinstance(a, PLAIN) and repr(a) == repr(b)


def is_container(value: Any) -> bool:
    """Whether the content of a value may change while it is the same object."""
    return isinstance(value, (list, dict, set)) or (
        isinstance(value, tuple) and not all(isinstance(each, PLAIN) for each in value)
    )
