"""References: the values that the code of a function reads besides its arguments, with their places.

Globals, closures, defaults, methods, imports, and attributes of objects, all the way down through functions of the
user. Code of this package, of the standard library and of installed packages is not looked into, except the forward of
modules and what a decorator wraps.
"""

from __future__ import annotations

import random
import re
import sys
import sysconfig
import threading
import weakref
from collections import UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dis import Instruction, get_instructions, hasjabs, hasjrel, opmap, stack_effect
from functools import cache, lru_cache, partial
from logging import Logger
from pathlib import Path
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor
from .module import Module

PLAIN = (bool, int, float, str, type(None))
_CHANGEABLE = (list, dict, set, deque)
_CONTAINERS = (*_CHANGEABLE, tuple)
_OPAQUE = (Iterator, ContextVar, threading.local, weakref.ref, bytearray)  # whose next value cannot be seen in advance
_MOST_BYTES = 1 << 14  # of a NumPy array, to compare at each call
_UNREAD = {"__init__", "__new__", "__del__", "__repr__", "__str__"}  # methods that a call does not reach
_MOST = 1000  # objects
_MOST_ROUNDS = 5
_BY_TEXT = {"getattr", "vars", "attrgetter", "methodcaller", "__dict__"}  # a text in the code may name an attribute
_CALL = "PRECALL" if "PRECALL" in opmap else "CALL"  # takes the arguments off the stack
_JOINED = ("LOAD_", "BINARY_OP", "FORMAT_", "CONVERT_VALUE", "BUILD_STRING")  # instructions that put texts together
_ANY = "*"  # before a part of names of attributes, all of which a function may read
_MISSING = object()
ELEMENTS = ".array"  # stands for this attribute of anything but NumPy, whose function has the same name


_LOADS = {"LOAD_GLOBAL": True, "LOAD_NAME": True, "STORE_GLOBAL": True}  # whether it is a global name
_LOADS |= dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "IMPORT_FROM"), False)


class Names(NamedTuple):
    """The global names, the attributes and the imported modules in a function's code.

    Among the attributes, ``*part`` stands for each whose name contains the part: the code puts the name together.
    """

    globals: frozenset[str]
    attributes: frozenset[str]
    imports: frozenset[str]


@lru_cache(maxsize=1024)
def names_in(code: CodeType) -> Names:
    """The names in a function's code, and in those of functions within it."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    imports: set[str] = set()
    texts: set[str] = set()
    pending, by_text = [code], False
    while pending:
        code = pending.pop()
        texts.update(_texts_in(code.co_consts))
        pending += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        before = None
        found[False].update(_parts_of_attributes(code))
        for each in get_instructions(code):
            if each.opname == "IMPORT_NAME":
                imports.add(each.argval)
            elif each.opname == "MATCH_CLASS":
                by_text = True
            elif each.opname in _LOADS:
                found[_LOADS[each.opname]].add(each.argval)
                if each.argval == "array" and before not in ("np", "numpy"):
                    found[False].add(ELEMENTS)
            before = each.argval
    if by_text or not _BY_TEXT.isdisjoint(found[True] | found[False]):
        found[False].update(texts)
        if not _BY_TEXT.isdisjoint((found[True] | found[False]) - {"getattr"}):
            found[False].add(_ANY)
    return Names(frozenset(found[True]), frozenset(found[False]), frozenset(imports))


def _texts_in(constants: tuple[Any, ...]) -> Iterator[str]:
    for each in constants:
        if isinstance(each, str) and each.isidentifier():
            yield each
        elif isinstance(each, tuple):
            yield from _texts_in(each)


def _parts_of_attributes(code: CodeType) -> Iterator[str]:
    """A pattern for each ``getattr`` whose second argument is not a text: the longest text that becomes part of it."""
    shown = [each for each in get_instructions(code) if each.opname not in ("EXTENDED_ARG", "NOP", "RESUME")]
    for at, load in enumerate(shown):
        if load.opname in _LOADS and load.argval == "getattr":
            name = _second_argument(shown[at + 1 :]) or []
            texts = [each.argval for each in name if each.opname == "LOAD_CONST" and isinstance(each.argval, str)]
            if len(name) == len(texts) == 1:
                continue
            is_joined = all(each.opname.startswith(_JOINED) for each in name)
            parts = (
                re.findall(r"[^\W\d]\w*", re.sub(r"%[^a-zA-Z]*[a-zA-Z]|{.*?}", " ", " ".join(texts)))
                if is_joined
                else []
            )
            yield _ANY + max(parts, key=len, default="")


def _second_argument(shown: list[Instruction]) -> list[Instruction] | None:
    """The instructions that make the second argument of the call of a function that has just been loaded, if known."""
    depth, first, second = 0, 0, 0
    for at, each in enumerate(shown):
        if depth == each.arg and depth in (2, 3) and each.opname == _CALL:
            return shown[first : at if depth == 2 else second]
        if each.opcode in hasjrel or each.opcode in hasjabs:
            return None
        depth += stack_effect(each.opcode, each.arg)
        if depth == 1:
            first = at + 1
        elif depth == 2:
            second = at + 1
    return None


def _matching(names: frozenset[str], keys: Iterable[str]) -> frozenset[str]:
    """The names, with the keys that match a pattern among them in place of it."""
    parts = [each[1:] for each in names if each[0] == _ANY]
    if not parts:
        return names
    found = [key for key in keys if isinstance(key, str) and key[:2] != "__" and any(part in key for part in parts)]
    return frozenset([*found, *(each for each in names if each[0] != _ANY)])


def has_own_forward(kind: type[Module]) -> bool:
    """Whether the forward of a class of modules is not this package's."""
    code = getattr(kind.forward, "__code__", None)
    return not kind._is_plain or (code is not None and _is_of_user(code.co_filename))  # it may have been replaced


def _is_optimizer(value: Any) -> bool:
    """Whether a value is an Optimizer, which this package does not import."""
    return hasattr(type(value), "next_update")


def _is_scheduler(value: Any) -> bool:
    """Whether a value is a learning-rate scheduler, or scales losses: a trial would count as a step of it."""
    return hasattr(type(value), "get_last_lr") or (hasattr(type(value), "get_scale") and bool(value.is_enabled()))


class References:
    """The values that a function reads, and their places: cells of closures, and mappings with a key.

    modules, tensors, optimizers, schedulers, generators of random numbers: those among the values. codes: of the
    functions that were looked into. opaque: what a value is that cannot be compared.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        names: frozenset[str] = frozenset()  # that any of the functions reads: an object may be passed on
        for _ in range(_MOST_ROUNDS):
            self._look(function, names)
            more = names.union(*(names_in(code).attributes for code in self.codes))
            if more == names:
                break
            names = more
        places = self._places.values()
        self._entries = [(mapping.get, key, value) for mapping, before, _ in places for key, value in before.items()]

    def _look(self, function: Callable[..., Any], names: frozenset[str]) -> None:
        self._names = names
        self.modules: dict[int, Module] = {}  # by id
        self.tensors: dict[int, Tensor] = {}
        self.optimizers: dict[int, Any] = {}
        self.schedulers: list[Any] = []
        self.generators: dict[int, Any] = {}
        self.codes: list[CodeType] = []
        self.opaque: str | None = None
        self._functions: list[tuple[FunctionType, Any, Any, Any]] = []  # with code and defaults
        self._forwards: dict[Any, Any] = {}  # by the class of a module
        self._slots: list[tuple[Any, str, Any]] = []
        self._elements = 0  # of containers
        self._cells: dict[int, tuple[Any, Any]] = {}  # by id: cells, and their values
        self._places: dict[int, tuple[Mapping[str, Any], dict[str, Any], type | None]] = {}  # values by key
        self._containers: list[tuple[Any, Any]] = []
        self._seen: dict[Any, Any] = {}  # keeps the objects, whose ids are in the keys
        self._visit(function, frozenset())

    @property
    def are_too_many(self) -> bool:
        """Whether not all were looked at."""
        return len(self._seen) + self._elements > _MOST

    def hold(self) -> bool:
        """Whether the same objects, or equal plain values, are in all places."""
        for get, key, value in self._entries:  # loops, which cost less than ``all`` where there is little
            if get(key, _MISSING) is not value and not is_same(get(key, _MISSING), value):
                return False
        for cell, value in self._cells.values():
            if not is_same(_content_of(cell), value):
                return False
        for value, before in self._containers:
            if not has_content(value, before):
                return False
        for value, name, before in self._slots:
            if not is_same(getattr(value, name, _MISSING), before):
                return False
        for function, code, defaults, named in self._functions:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not named
            ):
                return False
        return all(kind.forward is forward for kind, forward in self._forwards.items())

    def present(self) -> tuple[Any, ...]:
        """Return what is in all places now, for ``put_back``."""
        places = [
            (mapping, {key: mapping.get(key, _MISSING) for key in before}, of)
            for mapping, before, of in self._places.values()
        ]
        cells = [(cell, _content_of(cell)) for cell, _ in self._cells.values()]
        return places, cells, [(value, name, getattr(value, name, _MISSING)) for value, name, _ in self._slots]

    def put_back(self, present: tuple[Any, ...] | None = None) -> None:
        """Let the same objects be in all places again, or those that ``present`` has returned."""
        places, cells, slots = present or (self._places.values(), self._cells.values(), self._slots)
        for mapping, before, of in places:
            for key, value in before.items():
                if mapping.get(key, _MISSING) is value:
                    continue
                if isinstance(mapping, dict):
                    mapping.pop(key, None)
                    mapping.update({} if value is _MISSING else {key: value})
                elif of is not None:
                    _set(of, key, value)
        for cell, value in cells:
            if _content_of(cell) is not value:
                _set(cell, "cell_contents", value)
        for value, name, before in slots:
            if getattr(value, name, _MISSING) is not before:
                _set(value, name, before)

    @property
    def containers(self) -> Iterator[Any]:
        """The lists, dicts and sets among the values."""
        return (value for value, _ in self._containers)

    def _visit(self, value: Any, names: frozenset[str]) -> None:
        """Look at a value of which a function reads these attributes."""
        if isinstance(value, (*PLAIN, np.generic, CodeType)) or value is _MISSING:
            return
        names |= self._names
        key = id(value), names
        if key in self._seen or self.are_too_many:
            return
        self._seen[key] = value
        if isinstance(value, Tensor):
            self.tensors[id(value)] = value
        elif isinstance(value, np.ndarray):
            if value.nbytes > _MOST_BYTES or value.dtype.hasobject:
                self.opaque = f"a NumPy array of {value.nbytes:,} bytes: make it a tensor outside of the function"
            self._containers.append((value, content(value)))
        elif _is_optimizer(value):
            self.optimizers[id(value)] = value
            self._visit_mapping(vars(value), frozenset({"step", "zero_grad"}))
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
            elif hasattr(value, "__wrapped__"):  # by a decorator such as no_grad
                self._visit(value.__wrapped__, names)
        elif isinstance(value, partial):
            for each in (value.func, *value.args, *value.keywords.values()):
                self._visit(each, names | _attributes_in(value.func))
        elif isinstance(value, ModuleType):
            if _is_of_user(getattr(value, "__file__", None) or ""):
                plain = [key for key, each in vars(value).items() if not _is_code(each)]
                self._visit_mapping(vars(value), _matching(names, plain), names)
            elif value.__name__.partition(".")[0] == _PACKAGE:  # whose functions may be replaced
                self._visit_mapping(vars(value), frozenset(each for each in names if _is_code(vars(value).get(each))))
        elif isinstance(value, _CONTAINERS):
            self._elements += len(value)
            if self.are_too_many:
                return
            if not isinstance(value, tuple):
                self._containers.append((value, content(value)))
            for each in value.values() if isinstance(value, dict) else value:
                self._visit(each, names)
            if _is_of_user_class(type(value)):
                self._visit_object(value, names)
        elif isinstance(value, type) or _is_of_user_class(type(value)):
            self._visit_object(value, names)
        elif isinstance(value, Logger):
            self.opaque = "a logger, whose messages would not be repeated"
        elif isinstance(value, _OPAQUE):
            self.opaque = f"{type(value).__name__}, whose values are not known before a call"
        elif hasattr(value, "__wrapped__"):  # a compiled or cached function
            self._visit(value.__wrapped__, names)
        elif hasattr(value, "__dict__") and not type(value).__module__.startswith(_PACKAGE):  # such as a Namespace
            more = {"data"} if isinstance(value, (UserDict, UserList)) else set()
            self._visit_mapping(vars(value), _matching(names, vars(value)) | more, names)

    def _visit_code(self, function: FunctionType) -> None:
        names = names_in(function.__code__)
        self.codes.append(function.__code__)
        self._functions.append((function, function.__code__, function.__defaults__, function.__kwdefaults__))
        for name in names.imports:
            self._visit(sys.modules.get(name, _MISSING), names.attributes)
        for cell in function.__closure__ or ():
            self._cells[id(cell)] = cell, _content_of(cell)
            self._visit(_content_of(cell), names.attributes)
        for each in (function.__defaults__, function.__kwdefaults__):
            self._visit(each, names.attributes)
        self._visit_mapping(function.__globals__, names.globals, names.attributes)

    def _visit_module(self, module: Module, names: frozenset[str]) -> None:
        for each in module.modules():
            self.modules[id(each)] = each
            self._forwards[type(each)] = type(each).forward
            for found in vars(each).values():  # such as the activation of a layer
                if callable(found) and not isinstance(found, (Module, Tensor, type)):
                    self._visit(found, names)
            if has_own_forward(type(each)):
                forward = type(each).forward
                if isinstance(forward, FunctionType):
                    self._visit_code(forward)
                    names |= names_in(forward.__code__).attributes
            if has_own_forward(type(each)) or _is_of_user_class(type(each)):
                self._visit_object(each, names)

    def _visit_object(self, value: Any, names: frozenset[str]) -> None:
        """The attributes of an instance or class, and its methods and properties."""
        is_class = isinstance(value, type)
        kinds = [each for each in (value if is_class else type(value)).__mro__ if _is_of_user_class(each)]
        names = _names_of_methods(value, kinds, names)
        if hasattr(value, "__dict__"):
            # the private attributes of a module are this package's
            keys = [key for key in vars(value) if key[0] != "_" or not isinstance(value, Module)]
            self._visit_mapping(vars(value), _matching(names, keys), names, value if is_class else None)
        for each in kinds:
            members = vars(each)
            self._visit_mapping(members, names & members.keys(), names, of=each)
            for name in names & members.keys():
                self._visit(_function_of(members[name]), names)
                if isinstance(members[name], MemberDescriptorType) and not is_class:
                    before = getattr(value, name, _MISSING)
                    self._slots.append((value, name, before))
                    self._visit(before, names)

    def _visit_mapping(
        self,
        mapping: Mapping[str, Any],
        keys: frozenset[str],
        names: frozenset[str] | None = None,
        of: type | None = None,
    ) -> None:
        """Look at values in a dict, or in the members ``of`` a class, which are a new object at each access."""
        _, before, _ = self._places.setdefault(id(of or mapping), (mapping, {}, of))
        for key in sorted(keys):
            before[key] = mapping.get(key, _MISSING)
            self._visit(before[key], keys if names is None else names)


def _content_of(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _set(value: Any, name: str, before: Any) -> None:
    if before is not _MISSING:
        setattr(value, name, before)
    elif hasattr(value, name):
        delattr(value, name)


def _is_code(value: Any) -> bool:
    return isinstance(value, ModuleType) or callable(value)


def _names_of_methods(value: Any, kinds: Sequence[type], names: frozenset[str]) -> frozenset[str]:
    """The names, and those that the methods of an instance or class read if they are among the names."""
    names = names.union(  # methods that an operator or a call reaches
        *(
            {name for name, found in vars(each).items() if name[:2] == "__" and isinstance(found, FunctionType)}
            for each in kinds
        )
    )
    if any(issubclass(each, Function) for each in kinds):  # whose methods the graph calls
        names |= {"forward", "backward", "setup_context"}
    made = {"__init__", "__new__"} if isinstance(value, type) and not issubclass(value, Module) else set()
    while True:
        names = (names - _UNREAD) | made  # a call may make an instance of a class
        found = [vars(each)[name] for each in kinds for name in _matching(names, vars(each)) & vars(each).keys()]
        more = names.union(*map(_attributes_in, map(_function_of, found)))
        if more - _UNREAD <= names:
            return names.union(*(_matching(names, vars(each)) & vars(each).keys() for each in kinds))
        names = more


def _function_of(member: Any) -> Any:
    """The function of a member of a class: a method, or the getter of a property."""
    return getattr(member, "__func__", None) or getattr(member, "fget", None) or member


def _attributes_in(function: Any) -> frozenset[str]:
    return names_in(function.__code__).attributes if isinstance(function, FunctionType) else frozenset()


_PACKAGE = __name__.partition(".")[0]


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
    """Return the content of a list, tuple, dict, set or small array in nested tuples; other values as they are."""
    if isinstance(value, dict):
        return dict, *((key, content(each)) for key, each in value.items())
    if isinstance(value, np.ndarray) and value.nbytes <= _MOST_BYTES:
        return value.shape, str(value.dtype), value.tobytes()
    return (type(value), *map(content, value)) if isinstance(value, _CONTAINERS) else value


def has_content(value: Any, before: Any) -> bool:
    """Whether the content is the same: the same objects, or equal plain values."""
    return is_same(content(value), before)


def is_same(a: Any, b: Any) -> bool:
    """Whether two values are one object, equal plain values, or tuples of such."""
    if a is b or type(a) is not type(b):
        return a is b
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(is_same, a, b))
    return a == b if isinstance(a, bytes) else isinstance(a, PLAIN) and repr(a) == repr(b)


def with_nested(values: Iterable[Any]) -> Iterator[Any]:
    """The lists, dicts, sets and small arrays among the values, and within them, all the way down."""
    for value in values:
        is_small = isinstance(value, np.ndarray) and value.nbytes <= _MOST_BYTES and value.flags.writeable
        if is_small or isinstance(value, _CHANGEABLE):
            yield value
        if isinstance(value, _CONTAINERS):
            yield from with_nested(value.values() if isinstance(value, dict) else value)


def refill(value: Any, before: Any) -> None:
    """Let a list, dict, set or array contain what it did before."""
    if isinstance(value, np.ndarray):
        value[...] = before
        return
    value.clear()
    (value.update if isinstance(value, (dict, set)) else value.extend)(before)


def has_changeable_content(value: Any) -> bool:
    """Whether the content of a value may change while it is the same object."""
    return isinstance(value, _CHANGEABLE) or (
        isinstance(value, tuple) and not all(isinstance(each, PLAIN) for each in value)
    )
