"""Says in an exception's message which module of the model it came from.

Nothing is tracked while a network runs: the names are found when an exception passes through Module.__call__,
from the frames of its traceback.
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
    """Put ``in features.3 (Conv2d(16, 32, ...)): `` before the message of error.

    Every module on the way out calls this and replaces what the one inside it wrote, so that the outermost
    module's words stay. An exception whose text is not its one argument (KeyError, OSError, ...) keeps its
    arguments and gets the words as a note. ``call`` is the code of Module.__call__.
    """
    words = f"in {_describe(_modules_in_traceback(error, call))}"
    previous: str | None = error.__dict__.get(_ATTRIBUTE)
    error.__dict__[_ATTRIBUTE] = words
    # BaseException.__str__ shows the arguments; a class with its own shows something else.
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
    except Exception:  # a module whose repr does not work yet must not hide its error
        description = type(modules[-1]).__name__
    return f"{'.'.join(names)} ({description})" if names else description


modules.describe = _describe


def _name_in(outer: Module, inner: Module) -> str:
    for name, module in outer.named_modules():
        if module is inner:
            return name
    return f"<{type(inner).__name__}>"  # called by outer, but not registered in it
