"""Base classes of lists and dicts of modules or parameters."""

from __future__ import annotations

import operator
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, ClassVar, Generic, Self, SupportsIndex, TypeVar, overload

from .module import Module

__all__ = ["MemberDict", "MemberList"]

Member = TypeVar("Member")


class _Members(Module, Generic[Member]):
    """Holds members of one kind."""

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
        """A container of the same class with other members."""
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
