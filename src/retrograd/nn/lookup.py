"""Members of a model by their path, as ``state_dict`` and ``named_modules`` write it: ``"features.0.weight"``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..engine.tensor import Tensor

if TYPE_CHECKING:
    from .module import Module
    from .parameter import Parameter


class Lookup:
    """The methods of Module that find members by path."""

    def get_submodule(self, target: str) -> Module:
        """The module at path ``target``; "" is this one.

        Raises:
            AttributeError: there is none.
        """
        module: Any = self
        for depth, name in enumerate(parts := target.split(".") if target else []):
            members = module.__dict__
            if members.get(name) is None or name not in members["_child_names"]:
                raise self._missing("module", target, ".".join(parts[:depth]), name, members["_child_names"])
            module = members[name]
        return module

    def set_submodule(self, target: str, module: Module) -> None:
        """Replace the module at path ``target``.

        Raises:
            ValueError: target is empty.
            AttributeError: there is no module at target.
            TypeError: module is not a Module.
        """
        if not target:
            raise ValueError("set_submodule: target is empty; a module cannot replace itself")
        self.get_submodule(target)
        path, _, name = target.rpartition(".")
        self.get_submodule(path).register_module(name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at path ``target``.

        Raises:
            AttributeError: there is no such parameter.
        """
        return self._member("parameter", "_parameter_names", target)

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at path ``target``.

        Raises:
            AttributeError: there is no such buffer.
        """
        return self._member("buffer", "_buffer_names", target)

    def _member(self, kind: str, registry: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        members = self.get_submodule(path).__dict__
        if name not in members[registry] or members[name] is None:
            raise self._missing(kind, target, path, name, members[registry])
        return members[name]

    def _missing(self, kind: str, target: str, path: str, name: str, names: Any) -> AttributeError:
        place = f"{type(self).__name__}{'.' if path else ''}{path}"
        known = ", ".join(names) or "none"
        return AttributeError(f"get_{kind}({target!r}): {place} has no {kind} {name!r}; it has {known}")
