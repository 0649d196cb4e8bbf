"""What a recording of ``compile`` depends on: the modules and tensors of a function, compared before each replay."""

from __future__ import annotations

from collections.abc import Callable
from dis import get_instructions
from functools import lru_cache
from operator import is_
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from ..engine.tensor import Tensor
from .module import Module
from .module_hooks import changes

PLAIN = (bool, int, float, str, type(None))
_FUNCTIONS = {"print", "input", "open", "breakpoint", "exec", "eval"}  # these and the methods would not be repeated
_METHODS = {"register_hook", "retain_grad"}
_REGISTRIES = ("_parameter_names", "_buffer_names", "_child_names")
_CONTAINERS = (list, dict, set)


class State:
    """The modules and tensors that a function refers to, as they were when it was recorded."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.references = _references(function)
        found: dict[int, Module] = {}
        for value in self.references:
            if isinstance(value, Module):
                found.update((id(each), each) for each in value.modules())
        self.modules = [*found.values()]
        self.members = [{**module.__dict__} for module in self.modules]
        held = [value for members in self.members for value in members.values()]
        self.optimizers = [value for value in self.references if is_optimizer(value)]
        self.groups = [[*group["params"]] for optimizer in self.optimizers for group in optimizer.param_groups]
        grouped = [tensor for group in self.groups for tensor in group]
        tensors = [value for value in (*held, *self.references, *grouped) if isinstance(value, Tensor)]
        self.tensors = [*{id(tensor): tensor for tensor in tensors}.values()]
        self.arrays = [tensor.array for tensor in self.tensors]
        self.ids = {*map(id, self.tensors)}
        self.flags = [tensor._requires_grad for tensor in self.tensors]
        self.trained = [tensor for tensor in self.tensors if tensor._requires_grad]
        leaves = [*self.trained, *grouped] if self.optimizers else self.trained
        self.leaves = [*{id(tensor): tensor for tensor in leaves if tensor._edge is None}.values()]
        own = {id(members[name]) for members in self.members for name in _REGISTRIES}  # with these, the count changes
        self.containers = [
            (value, _content(value)) for value in held if isinstance(value, _CONTAINERS) and id(value) not in own
        ]
        self.has_rules = any("_backward_rule" in members for members in self.members)
        self.count = changes[0]
        self.is_ready = False  # whether the optimizers have made their states

    def holds(self, function: Callable[..., Any]) -> bool:
        """Whether nothing has been replaced."""
        if self.count != changes[0]:
            if not all(map(_same_members, self.modules, self.members)):
                return False
            self.count = changes[0]
        tensors = self.tensors  # lists, since the interpreter reads an attribute faster than attrgetter
        if not all(map(is_, [tensor.array for tensor in tensors], self.arrays)):
            return False
        if [tensor._requires_grad for tensor in tensors] != self.flags:
            return False
        if not all(_has_content(value, before) for value, before in self.containers):
            return False
        if self.optimizers:
            now = [group["params"] for optimizer in self.optimizers for group in optimizer.param_groups]
            if [*map(len, now)] != [*map(len, self.groups)] or not all(
                all(map(is_, group, before)) for group, before in zip(now, self.groups, strict=True)
            ):
                return False
        return isinstance(function, Module) or all(map(_is_same, _references(function), self.references))

    def states(self) -> list[np.ndarray]:
        """Return the arrays in the optimizers' states."""
        entries = [each for optimizer in self.optimizers for each in optimizer.state.values()]
        return [value.array for each in entries for value in each.values() if isinstance(value, Tensor)]

    def obstacle(self, function: Callable[..., Any]) -> str | None:
        """Why calls cannot be recorded, whatever the arguments are."""
        for module in self.modules:
            name = type(module).__name__
            hooks = module.__dict__.get("_hooks")
            if hooks is not None and any(hooks.values()):
                return f"{name} has a hook"
            rule = module.__dict__.get("_backward_rule")
            if rule is not None and not _is_of_library(rule.function):
                return f"{name} has a backward rule of your own"
            if "forward" in module.__dict__:
                return f"{name} has a forward of its own"
            if not type(module)._is_plain and (call := _visible_call(type(module).forward)):
                return f"forward of {name} calls {call}"
        for optimizer in self.optimizers:
            if not optimizer.is_recordable:
                return f"{type(optimizer).__name__} has a step of its own"
        call = None if isinstance(function, Module) else _visible_call(function)
        return f"the function calls {call}" if call else None


def _references(function: Callable[..., Any]) -> list[Any]:
    """The module itself, or the modules, tensors, optimizers and numbers in a function's closure, defaults and globals.

    Of a method, also those that are attributes of its object.
    """
    if isinstance(function, Module):
        return [function]
    owner = getattr(function, "__self__", None)
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    found = [owner] if owner is not None else []
    if code is None:
        return found
    for cell in plain.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            found.append(None)
    names = _names(code)
    found += [*(plain.__defaults__ or ()), *(plain.__kwdefaults__ or {}).values()]
    found += [plain.__globals__.get(name) for name in sorted(names.globals)]
    if owner is not None and not isinstance(owner, Module) and hasattr(owner, "__dict__"):
        found += [owner.__dict__.get(name) for name in sorted(names.attributes)]
    return [value if isinstance(value, (Module, Tensor, *PLAIN)) or is_optimizer(value) else None for value in found]


def is_optimizer(value: Any) -> bool:
    """Whether a value is an Optimizer, which this package does not import."""
    return hasattr(type(value), "next_update")


class _Names(NamedTuple):
    """The global names and the attributes in a function's code."""

    globals: frozenset[str]
    attributes: frozenset[str]


@lru_cache(maxsize=256)
def _names(code: CodeType) -> _Names:
    """The names in a function's code, and in those of functions within it."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    pending = [code]
    while pending:
        code = pending.pop()
        pending += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        for each in get_instructions(code):
            if each.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD"):
                found[each.opname in ("LOAD_GLOBAL", "LOAD_NAME")].add(each.argval)
    return _Names(frozenset(found[True]), frozenset(found[False]))


def _is_of_library(rule: Callable[..., Any]) -> bool:
    """Whether a rule is one of ``rules``, which depend on their arguments and options only."""
    module: str = getattr(rule, "__module__", None) or type(rule).__module__
    return module.startswith(f"{__package__.partition('.')[0]}.rules.")


def _visible_call(function: Any) -> str | None:
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    names = _names(code)
    found = sorted(_FUNCTIONS & names.globals | _METHODS & names.attributes)
    return f"{found[0]}, in line {code.co_firstlineno} of {code.co_filename}" if found else None


def _same_members(module: Module, before: dict[str, Any]) -> bool:
    now = module.__dict__
    return len(now) == len(before) and all(name in now and _is_same(now[name], before[name]) for name in before)


def _content(value: Any) -> Any:
    """What a list, a dict or a set contains, all the way down, in tuples; other values as they are."""
    if isinstance(value, dict):
        return dict, *((key, _content(each)) for key, each in value.items())
    return (type(value), *map(_content, value)) if isinstance(value, _CONTAINERS) else value


def _has_content(value: Any, before: Any) -> bool:
    """Whether the content is the same: the same objects, or equal plain values."""
    return _is_content(_content(value), before)


def _is_content(now: Any, before: Any) -> bool:
    if type(now) is tuple and type(before) is tuple:
        return len(now) == len(before) and all(map(_is_content, now, before))
    return _is_same(now, before)


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, (*PLAIN, tuple)) and repr(a) == repr(b))
