"""ParameterList and ParameterDict: parameters indexed by position or by key."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, SupportsIndex

from ..engine.tensor import Tensor
from .members import MemberDict, MemberList
from .module import Module
from .parameter import Parameter

__all__ = ["ParameterDict", "ParameterList"]

AnyParameter = Tensor | Parameter


class _Parameters(Module):
    """Base of both: conversion of entries to parameters, and the repr."""

    _kind, _registry = "parameter", "_parameter_names"

    def _entry(self, value: object) -> Parameter:
        if isinstance(value, Parameter):
            return value
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{type(self).__name__}: {value!r} is {type(value).__name__}, needs a Parameter or a Tensor"
            )
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
        TypeError: a value is neither.
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
        TypeError: a value is neither, or a key is not a str.
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
        """Another dict of the same parameters."""
        return ParameterDict(dict(self.items()))

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter under key, or default."""
        return self.__dict__[key] if key in self._parameter_names else default

    def setdefault(self, key: str, default: AnyParameter) -> Parameter:
        """The parameter under key; default is stored there first if there is none."""
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

        A plain dict is added in the order of its sorted keys, as in PyTorch: optimisers number parameters by position.
        """
        try:
            added = dict(parameters.items() if isinstance(parameters, (Mapping, ParameterDict)) else parameters)
        except (TypeError, ValueError):
            raise TypeError(
                f"ParameterDict: parameters is {type(parameters).__name__}, needs a dict of parameters or a list of "
                "(name, parameter)"
            ) from None
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            added = dict(sorted(added.items()))
        entries = {key: self._entry(value) for key, value in added.items()}
        for key, entry in entries.items():
            self[key] = entry
