"""A module's members as dicts, PyTorch's ``_modules``, ``_parameters`` and ``_buffers``, as scripts use them."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .module import Module

__all__ = ["Members"]


class Members(MutableMapping[str, Any]):
    """The members of one kind by name; to set or delete one is to set or delete the attribute.

    kind: "module", "parameter" or "buffer".

    Raises:
        KeyError: there is no such member.
    """

    def __init__(self, module: Module, kind: str) -> None:
        self._module, self._kind = module, kind

    def _names(self) -> dict[str, Any]:
        registry = {"module": "_child_names", "parameter": "_parameter_names", "buffer": "_buffer_names"}[self._kind]
        names: dict[str, Any] = self._module.__dict__[registry]
        return names

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(name)
        return self._module.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        getattr(self._module, f"register_{self._kind}")(name, value)

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self._module, name)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._names()))

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return repr(dict(self))
