"""Adds to an exception's message the path of the module that raised it.

Nothing is tracked while a network runs: each Module.__call__ that an exception leaves adds itself to the exception.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .module import Module

__all__ = ["add_module_path", "described"]

_PREFIX, _MODULES = "_retrograd_module_path", "_retrograd_modules"


class _Left(list["Module"]):
    """The modules that an exception has left, outermost first; a copy for another process has none of them."""

    def __reduce__(self) -> Any:
        return _Left, ()


def add_module_path(error: Exception, module: Module) -> None:
    """Prefix the message of error, which leaves a call of ``module``: ``in features.3 (Conv2d(16, 32, ...)): ``.

    Every module on the way out replaces the prefix of the one inside it, so the outermost module's stays. An exception
    whose text is not its only argument (KeyError, OSError, ...) keeps its arguments and gets a note instead.
    """
    members: dict[str, Any] = error.__dict__
    members[_MODULES] = modules = _Left([module, *members.get(_MODULES, ())])
    words = f"in {described(modules)}"
    previous: str | None = members.get(_PREFIX)
    members[_PREFIX] = words
    # only BaseException.__str__ is known to print the arguments
    if type(error).__str__ is BaseException.__str__ and [type(arg) for arg in error.args] == [str]:
        message: str = error.args[0]
        if previous is not None:
            message = message.removeprefix(previous + ": ")
        error.args = (f"{words}: {message}",)
        return
    notes: list[str] = getattr(error, "__notes__", [])
    if previous in notes:
        notes[notes.index(previous)] = words
    else:
        error.add_note(words)


def described(modules: list[Module]) -> str:
    """The path from the first module to the last, and what that is."""
    names = [name for outer, inner in pairwise(modules) if (name := _name_in(outer, inner))]
    try:
        description = modules[-1].describe()
    except Exception:  # a failing repr must not hide the error
        description = type(modules[-1]).__name__
    return f"{'.'.join(names)} ({description})" if names else description


def _name_in(outer: Module, inner: Module) -> str:
    for name, module in outer.named_modules():
        if module is inner:
            return name
    return f"<{type(inner).__name__}>"  # called by outer, but not registered in it
