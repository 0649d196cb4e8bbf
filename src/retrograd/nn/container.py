"""Containers: Sequential, lists and dicts of modules, lists and dicts of parameters."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import groupby
from types import FunctionType
from typing import Any, ClassVar, Generic, Self, SupportsIndex, TypeVar, overload

from ..engine.arguments import as_list, excerpt, kind_name
from ..engine.grad_mode import thread
from ..engine.tensor import Tensor
from .module import Module
from .normalization import BATCH_NORMS, clamped
from .parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


# ---- Base classes of lists and dicts of modules or parameters -------------------------------------------------------

Member = TypeVar("Member")


class _Members(Module, Generic[Member]):
    """Base of containers whose members are all of one kind."""

    _kind: ClassVar[str]  # "module" or "parameter"
    _registry: ClassVar[str]  # the attribute with their names

    def __len__(self) -> int:
        return len(self.__dict__[self._registry])

    def _members_by_name(self) -> dict[str, Member]:
        return {name: self.__dict__[name] for name in self.__dict__[self._registry]}


class MemberList(_Members[Member]):
    """Members indexed by position."""

    def __iter__(self) -> Iterator[Member]:
        return (self.__dict__[name] for name in self.__dict__[self._registry])

    def _name_at(self, index: SupportsIndex) -> str:
        position, size = operator.index(index), len(self)
        if not -size <= position < size:
            raise IndexError(f"{type(self).__name__}: index {position} is out of range; it holds {size} {self._kind}s")
        return list(self.__dict__[self._registry])[position]

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    @overload
    def __getitem__(self, index: SupportsIndex) -> Any: ...

    def __getitem__(self, index: slice | SupportsIndex) -> Any:
        if isinstance(index, slice):
            return self._of(dict(list(self._members_by_name().items())[index]))
        return self.__dict__[self._name_at(index)]

    def _of(self, members: Mapping[str, Member]) -> Self:
        """Return a container of the same class with other members."""
        kind: Any = type(self)
        return kind(members.values())


class MemberDict(_Members[Member]):
    """Members by name, in insertion order."""

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise KeyError(f"{type(self).__name__}: no {self._kind} {key!r}; it holds {list(self)}")
        return self.__dict__[key]

    def __delitem__(self, key: str) -> None:
        self[key]  # raises KeyError with its own message
        delattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__[self._registry])

    def __contains__(self, key: object) -> bool:
        return key in self.__dict__[self._registry]

    def clear(self) -> None:
        """Remove all members."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Member:
        """Remove the member under key and return it.

        Raises:
            KeyError: there is no such member.
        """
        member: Member = self[key]
        del self[key]
        return member

    def keys(self) -> KeysView[str]:
        return self._members_by_name().keys()

    def items(self) -> ItemsView[str, Member]:
        return self._members_by_name().items()

    def values(self) -> ValuesView[Member]:
        return self._members_by_name().values()


# ---- Containers of modules: Sequential runs them in order, ModuleList and ModuleDict only store them ----------------


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
        """Repeat the modules; repetitions are the same objects, so they share parameters."""
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
        if not thread.mode.enabled:
            return self._without_graph(input)
        for name in self._child_names:
            input = members[name](input)
        return input

    def _without_graph(self, input: Any) -> Any:
        """``forward`` with batch norms and the activations after them in one pass over memory, where that is possible.

        The bits are the same.
        """
        members, norm = self.__dict__, None
        for name in self._child_names:
            module = members[name]
            if norm is not None:
                y = clamped(norm, module, input)
                input, norm = norm(input) if y is None else y, None
                if y is not None:
                    continue
            if type(module) in BATCH_NORMS:
                norm = module
            else:
                input = module(input)
        return input if norm is None else norm(input)


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
                f"ModuleDict: modules is {kind_name(modules)}, needs a dict of modules or a list of (name, module)"
            ) from None
        for module in added.values():
            _require_module("ModuleDict", module)
        for key, module in added.items():
            self[key] = module


def _require_module(container: str, module: object) -> None:
    if not isinstance(module, Module):
        if isinstance(module, (list, tuple)):
            raise TypeError(
                f"{container}: got a {type(module).__name__}, needs modules; unpack it: {container}(*modules)"
            )
        if isinstance(module, FunctionType):
            hint = "use the layer, such as nn.ReLU() for relu, or write the network as a class with forward"
            raise TypeError(f"{container}: {kind_name(module)} is not a Module; {hint}")
        if isinstance(module, type):
            raise TypeError(f"{container}: {kind_name(module)} is not a Module")
        raise TypeError(f"{container}: {excerpt(module)} is not a Module but {type(module).__name__}")


# ---- ParameterList and ParameterDict: parameters indexed by position or by key --------------------------------------

AnyParameter = Tensor | Parameter


class _Parameters(Module):
    """Base of ParameterList and ParameterDict: converts entries to parameters and prints them."""

    _kind, _registry = "parameter", "_parameter_names"

    def _entry(self, value: object) -> Parameter:
        if isinstance(value, Parameter):
            return value
        if not isinstance(value, Tensor):
            raise TypeError(f"{type(self).__name__}: {value!r} is {kind_name(value)}, needs a Parameter or a Tensor")
        return Parameter(value)

    def __repr__(self) -> str:
        lines = []
        for name in self._parameter_names:
            data = self.__dict__[name].array
            size = "x".join(map(str, data.shape))
            lines.append(f"\n    ({name}): Parameter containing: [{data.dtype} of size {size}]")
        return f"{type(self).__name__}({''.join(lines)}\n)" if lines else f"{type(self).__name__}()"


class ParameterList(_Parameters, MemberList[Parameter]):
    """A list of parameters, found by ``parameters()`` under the names "0", "1", ...; it has no forward.

    values: Parameters, or Tensors, which become parameters.

    Raises:
        TypeError: a value is neither a Parameter nor a Tensor.
    """

    def __init__(self, values: Iterable[AnyParameter] | None = None) -> None:
        super().__init__()
        if values is not None:
            self.extend(values)

    def __setitem__(self, index: SupportsIndex, value: AnyParameter) -> None:
        self.register_parameter(self._name_at(index), self._entry(value))

    def append(self, value: AnyParameter) -> Self:
        """Append a parameter."""
        self.register_parameter(str(len(self)), self._entry(value))
        return self

    def extend(self, values: Iterable[AnyParameter]) -> Self:
        """Append every parameter of an iterable."""
        for entry in [self._entry(value) for value in values]:
            self.append(entry)
        return self

    def __iadd__(self, values: Iterable[AnyParameter]) -> Self:
        return self.extend(values)


class ParameterDict(_Parameters, MemberDict[Parameter]):
    """A dict of parameters in insertion order; it has no forward.

    parameters: a mapping of name -> Parameter (or Tensor, which becomes one), or (name, parameter) pairs.

    Raises:
        TypeError: a value is neither a Parameter nor a Tensor, or a key is not a str.
        KeyError: a key is empty, contains a dot, or is the name of an attribute.
    """

    def __init__(
        self, parameters: Mapping[str, AnyParameter] | Iterable[tuple[str, AnyParameter]] | None = None
    ) -> None:
        super().__init__()
        if parameters is not None:
            self.update(parameters)

    def __setitem__(self, key: str, value: AnyParameter) -> None:
        self.register_parameter(key, self._entry(value))

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._parameter_names)

    def __or__(self, other: ParameterDict) -> ParameterDict:
        if not isinstance(other, ParameterDict):
            return NotImplemented
        return ParameterDict({**dict(self.items()), **dict(other.items())})

    def __ior__(self, other: Mapping[str, AnyParameter] | ParameterDict) -> Self:
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        """Return another dict of the same parameters."""
        return ParameterDict(dict(self.items()))

    def get(self, key: str, default: Any = None) -> Any:
        """Return the parameter under key, or default."""
        return self.__dict__[key] if key in self._parameter_names else default

    def setdefault(self, key: str, default: AnyParameter) -> Parameter:
        """Return the parameter under key; if there is none, store default there first."""
        if key not in self:
            self[key] = default
        return self[key]

    def popitem(self) -> tuple[str, Parameter]:
        """Remove the parameter added last and return (key, parameter).

        Raises:
            KeyError: the dict is empty.
        """
        if not len(self):
            raise KeyError("ParameterDict: popitem of an empty dict")
        key = next(reversed(self))
        return key, self.pop(key)

    def update(self, parameters: Any) -> None:
        """Add parameters from a mapping or pairs, replacing those with the same names.

        A plain dict is added in the order of its sorted keys, as in PyTorch: optimizers number parameters by position.
        """
        try:
            added = dict(parameters.items() if isinstance(parameters, (Mapping, ParameterDict)) else parameters)
        except (TypeError, ValueError):
            raise TypeError(
                f"ParameterDict: parameters is {kind_name(parameters)}, needs a dict of parameters or a list of "
                "(name, parameter)"
            ) from None
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            added = dict(sorted(added.items()))
        entries = {key: self._entry(value) for key, value in added.items()}
        for key, entry in entries.items():
            self[key] = entry
