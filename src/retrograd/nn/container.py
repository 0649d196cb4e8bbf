"""Containers of modules: Sequential runs them in order, ModuleList and ModuleDict only hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, Self, SupportsIndex

from ..engine.arguments import as_list
from .members import MemberDict, MemberList
from .module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class _Indexed(MemberList[Module]):
    """Base of Sequential and ModuleList: children indexed by position."""

    _kind, _registry = "module", "_child_names"

    def __setitem__(self, index: SupportsIndex, module: Module) -> None:
        self.register_module(self._name_at(index), module)

    def __delitem__(self, index: slice | SupportsIndex) -> None:
        """Remove modules and renumber the rest, so that the names stay 0, 1, 2, ..."""
        names = list(self._child_names)
        removed = set(names[index]) if isinstance(index, slice) else {self._name_at(index)}
        remaining = [self.__dict__[name] for name in names if name not in removed]
        for name in names:
            delattr(self, name)
        for module in remaining:
            self.append(module)

    def append(self, module: Module) -> Self:
        """Append module."""
        _require_module(type(self).__name__, module)
        self.register_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Append every module of an iterable."""
        added = as_list(type(self).__name__, "modules", modules, "a list of modules")
        for module in added:
            _require_module(type(self).__name__, module)
        for module in added:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Insert module before position index.

        Raises:
            IndexError: index is outside -len..len.
        """
        _require_module(type(self).__name__, module)
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"{type(self).__name__}: index {index} is out of range; it holds {size} modules")
        modules: list[Module] = list(self)
        modules.insert(index, module)
        del self[:]
        return self.extend(modules)

    def pop(self, key: SupportsIndex) -> Module:
        """Remove the module at position key and return it.

        Raises:
            IndexError: key is out of range.
        """
        module: Module = self[key]
        del self[key]
        return module

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)


class Sequential(_Indexed):
    """Runs its modules in order, each on the output of the previous one.

    args: modules (named "0", "1", ...) or one dict of name -> module.

    Raises:
        TypeError: an argument is not a Module.
    """

    def __init__(self, *args: Module | Mapping[str, Module]) -> None:
        super().__init__()
        named: dict[str, Any] = {str(position): module for position, module in enumerate(args)}
        if len(args) == 1 and isinstance(args[0], Mapping):
            named = dict(args[0])
        for name, module in named.items():
            _require_module("Sequential", module)
            self.register_module(name, module)

    def _of(self, members: Mapping[str, Module]) -> Self:
        return type(self)(members)

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            return NotImplemented
        return Sequential(*self, *other)

    def __mul__(self, times: int) -> Sequential:
        """The modules repeated: the same objects, so repetitions share parameters."""
        if isinstance(times, bool) or not isinstance(times, int):
            return NotImplemented
        if times < 1:
            raise ValueError(f"Sequential: times={times} must be at least 1")
        return Sequential(*list(self) * times)

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        return self.extend(list((self * times)[len(self) :]))

    def forward(self, input: Any) -> Any:
        members = self.__dict__
        for name in self._child_names:
            input = members[name](input)
        return input


class ModuleList(_Indexed):
    """A list of modules, registered so that their parameters are found; it has no forward.

    Raises:
        TypeError: an element is not a Module.
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __add__(self, modules: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *modules])

    def _entries(self, number: Callable[[Any], int]) -> list[tuple[str, Any]]:
        """As in PyTorch's repr, a run of equal modules is one entry: ``(0-2): 3 x Linear(...)``."""
        entries = []
        position = 0
        for _, equal in groupby(self, number):
            run = list(equal)
            last = position + len(run) - 1
            entries.append((f"({position}): " if len(run) == 1 else f"({position}-{last}): {len(run)} x ", run[0]))
            position += len(run)
        return entries


class ModuleDict(MemberDict[Module]):
    """A dict of modules in insertion order, registered so that their parameters are found; it has no forward.

    modules: a mapping of name -> module, or (name, module) pairs.

    Raises:
        TypeError: a value is not a Module or a key is not a str.
        KeyError: a key is empty, contains a dot, or is the name of an attribute.
    """

    _kind, _registry = "module", "_child_names"

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __setitem__(self, key: str, module: Module) -> None:
        _require_module("ModuleDict", module)
        self.register_module(key, module)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules, replacing those with the same names."""
        try:
            added = dict(modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules)
        except (TypeError, ValueError):
            raise TypeError(
                f"ModuleDict: modules is {type(modules).__name__}, needs a dict of modules or a list of (name, module)"
            ) from None
        for module in added.values():
            _require_module("ModuleDict", module)
        for key, module in added.items():
            self[key] = module


def _require_module(container: str, module: object) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"{container}: {module!r} is not a Module but {type(module).__name__}")
