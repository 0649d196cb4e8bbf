"""What a recording of ``compile`` depends on: the modules and tensors of a function, compared before each replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter, is_
from types import CodeType
from typing import Any

from ..engine.tensor import Tensor
from .module import Module
from .module_hooks import changes

PLAIN = (bool, int, float, str, type(None))
_VISIBLE = {"print", "input", "open", "breakpoint", "exec", "eval", "register_hook", "retain_grad"}  # not repeated
_array, _requires_grad = attrgetter("array"), attrgetter("_requires_grad")


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
        tensors = [value for value in (*held, *self.references) if isinstance(value, Tensor)]
        self.tensors = [*{id(tensor): tensor for tensor in tensors}.values()]
        self.arrays = [tensor.array for tensor in self.tensors]
        self.flags = [tensor._requires_grad for tensor in self.tensors]
        self.trained = [tensor for tensor in self.tensors if tensor._requires_grad]
        self.containers = [(value, repr(value)) for value in held if isinstance(value, (list, dict, set)) and value]
        self.containers = [(value, text) for value, text in self.containers if "_names" not in text]
        self.count = changes[0]

    def holds(self, function: Callable[..., Any]) -> bool:
        """Whether nothing has been replaced."""
        if self.count != changes[0]:
            if not all(map(_same_members, self.modules, self.members)):
                return False
            self.count = changes[0]
        if not all(map(is_, map(_array, self.tensors), self.arrays)):
            return False
        if not all(map(is_, map(_requires_grad, self.tensors), self.flags)):
            return False
        if any(repr(value) != text for value, text in self.containers):
            return False
        return isinstance(function, Module) or all(map(_is_same, _references(function), self.references))

    def obstacle(self, function: Callable[..., Any]) -> str | None:
        """Why calls cannot be recorded, whatever the arguments are."""
        for module in self.modules:
            name = type(module).__name__
            hooks = module.__dict__.get("_hooks")
            if hooks is not None and any(hooks.values()):
                return f"{name} has a hook"
            if "_backward_rule" in module.__dict__:
                return f"{name} has a backward rule"
            if "forward" in module.__dict__:
                return f"{name} has a forward of its own"
            if not type(module)._is_plain and (call := _visible_call(type(module).forward)):
                return f"forward of {name} calls {call}"
        call = None if isinstance(function, Module) else _visible_call(function)
        return f"the function calls {call}" if call else None


def _references(function: Callable[..., Any]) -> list[Any]:
    """The module itself, or the modules, tensors and numbers in a function's closure and globals."""
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
    found += [plain.__globals__.get(name) for name in _names(code)]
    return [value if isinstance(value, (Module, Tensor, *PLAIN)) else None for value in found]


def _names(code: CodeType) -> Iterator[str]:
    """The global names in a function's code, and in those of functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _visible_call(function: Any) -> str | None:
    code = getattr(function, "__code__", None)
    if code is None or not (found := sorted(_VISIBLE.intersection(_names(code)))):
        return None
    return f"{found[0]}, in line {code.co_firstlineno} of {code.co_filename}"


def _same_members(module: Module, before: dict[str, Any]) -> bool:
    now = module.__dict__
    return len(now) == len(before) and all(name in now and _is_same(now[name], before[name]) for name in before)


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, (*PLAIN, tuple)) and repr(a) == repr(b))
