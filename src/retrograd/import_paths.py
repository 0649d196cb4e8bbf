"""Import paths of earlier versions: each is another name of the module that stands elsewhere now."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["MOVED", "install"]

# the earlier path below the package -> the present one; what is below the one is below the other
MOVED = {
    "atomic": "_files.atomic",
    "codes": "specs.low_bit",
    "entries": "_files.state",
    "geometry": "specs.geometry",
    "options": "specs.convolution_options",
    "outside": "_files.untrusted",
    "printable": "_files.terminal",
    "recurrence": "specs.recurrence",
    "textbook": "kernels.textbook",
}
_PACKAGE = __name__.partition(".")[0]


def present(name: str) -> str | None:
    """The present path of a module of this package by its earlier one; None if it has not moved."""
    package, _, rest = name.partition(".")
    first, dot, below = rest.partition(".")
    return f"{_PACKAGE}.{MOVED[first]}{dot}{below}" if package == _PACKAGE and first in MOVED else None


class _Loader(Loader):
    """Gives the module of another path, which stays what it is."""

    def __init__(self, path: str) -> None:
        self.path = path

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.path)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # importlib has put that of the earlier path there


class _Finder:
    """Python asks it first: a module below a moved package would else be found again, as another one."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        found = present(name)
        return None if found is None else ModuleSpec(name, _Loader(found))


def install() -> None:
    """Let Python find modules by their earlier paths."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
