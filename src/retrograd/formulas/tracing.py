"""Running a user's function on symbols.

The function runs unchanged, but its calls are looked up first: a public operator becomes the primitive or formula of
this name, another user function is run on symbols likewise, and other operators are refused.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Mapping
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from .primitive import PRIMITIVES
from .symbol import FormulaError
from .text import NAMES

_PACKAGE = __name__.partition(".")[0]
_MARK = "__run_on_symbols__"  # in the globals of functions that run on symbols


class Meanings:
    """The meaning of public functions on symbols, by object."""

    def __init__(self, known: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
        self._known = {id(function): meaning for function, meaning in known.items()}
        self._known.update((id(function), function) for function in PRIMITIVES.values())
        self._kept = list(known)  # keeps the objects alive, so that their ids stay valid
        self.names = sorted({function.__name__ for function in (*known, *PRIMITIVES.values())})

    def of(self, value: Any, clones: dict[int, Any]) -> Any:
        """The replacement of a value in a function that runs on symbols."""
        if isinstance(value, FunctionType) and hasattr(value, "has_forms"):  # the operator is inside
            value = value.__wrapped__  # type: ignore[attr-defined]
        if id(value) in self._known:
            return self._known[id(value)]
        if isinstance(value, ModuleType):
            return _Module(value, self, clones)
        if isinstance(value, FunctionType):
            if value.__module__ and value.__module__.partition(".")[0] == _PACKAGE:
                return self._refusal(value.__name__)
            return self.clone(value, clones)
        return value

    def _refusal(self, name: str) -> Callable[..., Any]:
        def refuse(*values: Any, **options: Any) -> Any:
            raise FormulaError(
                f"{name} is not a function of single elements that formulas know; these are {', '.join(self.names)}"
            )

        return refuse

    def clone(self, function: FunctionType, clones: dict[int, Any]) -> Any:
        """The function with its names replaced by their meanings."""
        if id(function) in clones:
            return clones[id(function)]
        scope: dict[str, Any] = {**function.__globals__, _MARK: True}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        copy = FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells)
        copy.__kwdefaults__ = function.__kwdefaults__
        clones[id(function)] = copy
        for name in _names(function.__code__):
            if name in scope:
                scope[name] = self.of(scope[name], clones)
        for cell, own in zip(cells, function.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self.of(own.cell_contents, clones)
            except ValueError:  # not bound yet; unbound in the copy, too
                continue
        return copy


class _Module:
    """A module used in a function that runs on symbols."""

    def __init__(self, module: ModuleType, meanings: Meanings, clones: dict[int, Any]) -> None:
        self._module, self._meanings, self._clones = module, meanings, clones

    def __getattr__(self, name: str) -> Any:
        return self._meanings.of(getattr(self._module, name), self._clones)


def _names(code: CodeType) -> set[str]:
    """The global names in a code object and in its nested functions."""
    inside = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inside)


def run(name: str, function: FunctionType, arguments: list[Any], meanings: Meanings) -> Any:
    """The result of a user's function of symbols.

    Raises:
        FormulaError: it cannot be run on them; with file, line and reason.
    """
    try:
        return meanings.clone(function, {})(*arguments)
    except RecursionError:
        raise FormulaError(f"{place(name, function)}: it recurses without end") from None
    except Exception as error:
        if isinstance(error, FormulaError) and getattr(error, "placed", False):
            raise
        reason = str(error) if isinstance(error, FormulaError) else f"{type(error).__name__}: {error}"
        if isinstance(error, NameError) and error.name in NAMES:
            reason += f"; from {_PACKAGE}.formulas import {error.name}"
        placed = FormulaError(f"{_where(name, function, error)}: {reason}")
        placed.placed = True  # type: ignore[attr-defined]
        raise placed from None


def _where(name: str, function: FunctionType, error: BaseException) -> str:
    """The innermost user line of an error."""
    trace, found = error.__traceback__, None
    while trace is not None:
        if _MARK in trace.tb_frame.f_globals:
            found = trace
        trace = trace.tb_next
    if found is None:
        return place(name, function)
    file, line = found.tb_frame.f_code.co_filename, found.tb_lineno
    text = linecache.getline(file, line).strip()
    return f"formula {name}: {file}, line {line}: {text}"


def place(name: str, function: FunctionType) -> str:
    """The location of a function, for a message."""
    return f"formula {name}: {function.__code__.co_filename}, line {function.__code__.co_firstlineno}"


def require_text(name: str, function: FunctionType) -> None:
    """Refuse a function whose source cannot be found.

    Raises:
        FormulaError: with the remedy.
    """
    try:
        inspect.getsource(function)
    except (OSError, TypeError):
        raise FormulaError(
            f"{place(name, function)}: its source cannot be found, and a formula must have one; save it to a file"
        ) from None
