"""The public names of the package, and the entry of the reference that describes each."""

from __future__ import annotations

import functools
import importlib
import inspect
import types
from collections import defaultdict
from typing import Any

import retrograd
from retrograd.torch_api.missing import Absent

# public modules that no ``__all__`` lists, because they are imported by their path
_BY_PATH = """
    distributed.algorithms.ddp_comm_hooks distributed.checkpoint distributed.optim explanation.explanation
    interop.sklearn nn.parallel onnx.vectors studies utils.tensorboard
"""
# An object with several names is described under the first of these that has it.
_FIRST = ("retrograd", "retrograd.nn", "retrograd.nn.functional", "retrograd.optim", "retrograd.data")


@functools.cache
def namespaces() -> dict[str, types.ModuleType]:
    """Return the public modules of the package by their public paths."""
    found: dict[str, types.ModuleType] = {}
    waiting = [
        (path, importlib.import_module(path)) for path in ("retrograd", *(f"retrograd.{at}" for at in _BY_PATH.split()))
    ]
    while waiting:
        path, module = waiting.pop(0)
        if path not in found and module.__name__.startswith("retrograd"):
            found[path] = module
            members = [(f"{path}.{name}", getattr(module, name)) for name in names_of(module)]
            waiting += [(name, member) for name, member in members if isinstance(member, types.ModuleType)]
    return dict(sorted(found.items(), key=lambda each: (_FIRST.index(each[0]) if each[0] in _FIRST else 9, each[0])))


def names_of(module: types.ModuleType) -> list[str]:
    """Return the public names of a module; without ``__all__``, those that it defines itself."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    return list(getattr(module, "__all__", [name for name in own if not name.startswith("_")]))


@functools.cache
def public() -> dict[str, Any]:
    """Return every public name, with its path, and what it names: members of modules, and attributes of Tensor."""
    found = {}
    for path, module in namespaces().items():
        for name in names_of(module):
            thing = getattr(module, name)
            # Python's own names under PyTorch's path
            foreign = path == "retrograd.multiprocessing" and not str(getattr(thing, "__module__", "")).startswith(
                "retrograd"
            )
            if not isinstance(thing, types.ModuleType) and not foreign:
                found[f"{path}.{name}"] = thing
    for name in dir(retrograd.Tensor):
        thing = inspect.getattr_static(retrograd.Tensor, name)
        if not name.startswith("_") and not isinstance(thing, Absent) and "Absent" not in type(thing).__name__:
            found[f"retrograd.Tensor.{name}"] = getattr(thing, "__func__", thing)
    return found


def _identity(name: str, thing: Any) -> Any:
    if callable(thing):
        return id(inspect.unwrap(thing))
    return name if thing is None or isinstance(thing, (int, float, str, tuple, property)) else id(thing)


def _preference(name: str) -> tuple[bool, bool, int, bool, str]:
    path, _, last = name.rpartition(".")
    thing = public()[name]
    own = getattr(inspect.unwrap(thing), "__name__", last) if callable(thing) else last
    order = [*namespaces()].index(path) if path in namespaces() else 99
    # functions that only nn.functional defines are also at the top level, as in PyTorch
    borrowed = path == "retrograd" and last not in retrograd.ops.__all__ and hasattr(retrograd.nn.functional, last)
    return path == "retrograd.Tensor", borrowed, order, own != last, name


@functools.cache
def entries() -> dict[str, list[str]]:
    """Return the name under which each public object is described, with its other names."""
    groups: dict[Any, list[str]] = defaultdict(list)
    for name, thing in public().items():
        groups[_identity(name, thing)].append(name)
    ordered = [sorted(names, key=_preference) for names in groups.values()]
    return {first: others for first, *others in ordered}


def file_of(name: str) -> str:
    """Return the path of the module that defines what a public name names."""
    thing = public()[name]
    thing = inspect.unwrap(thing) if callable(thing) else thing
    module = getattr(thing, "__module__", "") if callable(thing) else ""
    return module if str(module).startswith("retrograd") else name.rpartition(".")[0]
