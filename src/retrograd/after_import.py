"""Runs a function once another package has been imported, for packages that ask which libraries are there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

__all__ = ["after_import"]

_ACTIONS: dict[str, Callable[[], Any]] = {}


def after_import(module: str, action: Callable[[], Any]) -> None:
    """Call ``action`` now if ``module`` is imported already, otherwise as soon as it is."""
    if module in sys.modules:
        action()
    else:
        _ACTIONS[module] = action


class _Watcher:
    """Finds a watched module as Python does, and runs its action after it."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in _ACTIONS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        action, execute = _ACTIONS.pop(name), spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            action()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Watcher)
