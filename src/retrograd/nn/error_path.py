"""Adds to an exception's message the path of the module that raised it.

Nothing is tracked while a network runs: when an exception passes through Module.__call__, the names are read from the
frames of its traceback.
"""

from __future__ import annotations

from itertools import pairwise
from types import CodeType
from typing import TYPE_CHECKING

from ..engine.anomaly import modules

if TYPE_CHECKING:
    from .module import Module

__all__ = ["add_module_path"]

_ATTRIBUTE = "_retrograd_module_path"


def add_module_path(error: Exception, call: CodeType) -> None:
    """Prefix the message of error with ``in features.3 (Conv2d(16, 32, ...)): ``.

    Every module on the way out replaces the prefix of the one inside it, so the outermost module's stays. An exception
    whose text is not its only argument (KeyError, OSError, ...) keeps its arguments and gets a note instead. ``call``
    is the code of Module.__call__.
    """
    words = f"in {_describe(_modules_in_traceback(error, call))}"
    previous: str | None = error.__dict__.get(_ATTRIBUTE)
    error.__dict__[_ATTRIBUTE] = words
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


def _modules_in_traceback(error: Exception, call: CodeType) -> list[Module]:
    """The modules whose __call__ the exception left or is leaving, outermost first."""
    modules: list[Module] = []
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is call:
            modules.append(traceback.tb_frame.f_locals["self"])
        traceback = traceback.tb_next
    return modules


def _describe(modules: list[Module]) -> str:
    names = [name for outer, inner in pairwise(modules) if (name := _name_in(outer, inner))]
    try:
        description = modules[-1].describe()
    except Exception:  # a failing repr must not hide the error
        description = type(modules[-1]).__name__
    return f"{'.'.join(names)} ({description})" if names else description


modules.describe = _describe


def _name_in(outer: Module, inner: Module) -> str:
    for name, module in outer.named_modules():
        if module is inner:
            return name
    return f"<{type(inner).__name__}>"  # called by outer, but not registered in it
