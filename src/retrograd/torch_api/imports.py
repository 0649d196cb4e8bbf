"""Import machinery: PyTorch's and earlier import paths, and actions after the import of other packages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from .earlier_paths import EARLIER

__all__ = ["PATHS", "after_import", "is_path", "path_of"]

_PACKAGE = __name__.partition(".")[0]

# PyTorch's import path below the package -> the module it names; modules below it are mapped as well
PATHS = {
    **{
        name: f"torch_api.{name}"
        for name in (
            *("accelerator", "amp", "backends", "compiler", "cuda", "fft", "hub", "jit", "linalg", "serialization"),
            *("sparse", "special", "version"),
        )
    },
    "multiprocessing": "torch_api.processes",
    "random": "ops.random.random",
    "signal": "ops.signal",
    **{
        f"autograd.{name}": "torch_api.autograd"
        for name in ("anomaly_mode", "function", "grad_mode", "gradcheck", "profiler")
    },
    "nn.modules": "torch_api.nn_modules",
    **{
        f"nn.modules.{name}": "torch_api.nn_modules"
        for name in (
            *("activation", "adaptive", "batchnorm", "channelshuffle", "container", "conv", "distance", "dropout"),
            *("flatten", "fold", "instancenorm", "lazy", "linear", "loss", "module", "normalization", "padding"),
            *("pixelshuffle", "pooling", "rnn", "sparse", "transformer", "upsampling", "utils"),
        )
    },
    "nn.parallel.distributed": "nn.parallel",
    "nn.utils.init": "nn.init",
    "distributed.distributed_c10d": "distributed",
    **{
        f"distributed.algorithms.{name}": "distributed.algorithms"
        for name in ("join", "default_hooks", "ddp_comm_hooks", "ddp_comm_hooks.default_hooks")
    },
    "distributed.elastic": "torch_api.elastic",
    "distributed.elastic.multiprocessing": "torch_api.elastic",
    "distributed.elastic.multiprocessing.errors": "torch_api.elastic",
    **{f"utils.data.{name}": "utils.data" for name in ("dataloader", "dataset", "distributed", "sampler")},
    "utils.tensorboard.writer": "utils.tensorboard",
}
# names of modules that have import paths below them
_WITH_PATHS_BELOW = {path.rpartition(".")[0] for path in (*EARLIER, *PATHS)}


def path_of(name: str) -> str | None:
    """Return the path of the module that an alternative import path names; None if ``name`` is not such a path."""
    package, _, rest = name.partition(".")
    if package != _PACKAGE:
        return None
    known, below = rest, ""
    while known:
        target = PATHS.get(known) or EARLIER.get(known)
        if target is not None:
            return f"{_PACKAGE}.{target}{below}"
        known, _, last = known.rpartition(".")
        below = f".{last}{below}"
    return None


def is_path(module: str, name: str) -> bool:
    """Return whether PyTorch's or an earlier import path leads from ``module`` to ``name``."""
    path = f"{module}.{name}".partition(".")[2]
    return path in PATHS or path in EARLIER


class _Loader(Loader):
    """Loads the module of another path, unchanged."""

    def __init__(self, path: str) -> None:
        self.path = path

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        try:
            module = import_module(self.path)
        except ModuleNotFoundError as error:
            if error.name != self.path:
                raise
            raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name) from None
        self._spec = module.__spec__
        if spec.name.partition(".")[2] in _WITH_PATHS_BELOW:
            _let_import_below(module)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # importlib has overwritten it with the spec of the other path


def _let_import_below(module: ModuleType) -> None:
    """Let Python look for modules below a module that is not a package."""
    if not hasattr(module, "__path__"):
        module.__path__ = []


def _with_action(spec: ModuleSpec | None, action: Callable[[ModuleType], Any]) -> ModuleSpec | None:
    """Return the spec with a loader that also calls ``action``, after executing the module."""
    if spec is not None and spec.loader is not None:
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            action(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
    return spec


class _Finder:
    """A finder that runs first: otherwise a module below an alternative path would be imported a second time."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        found = path_of(name)
        if found is not None:
            return ModuleSpec(name, _Loader(found))
        if path is not None and name.partition(".")[2] in _WITH_PATHS_BELOW and name.startswith(f"{_PACKAGE}."):
            return _with_action(PathFinder.find_spec(name, path, target), _let_import_below)
        return None


# ---- Actions after the import of another package -----------------------------------------------------------------

_ACTIONS: dict[str, Callable[[], Any]] = {}


def after_import(module: str, action: Callable[[], Any]) -> None:
    """Call ``action`` now if ``module`` is already imported, otherwise as soon as it is.

    This serves packages that check which libraries are imported.
    """
    if module in sys.modules:
        action()
    else:
        _ACTIONS[module] = action


class _Watcher:
    """Finds a watched module as Python does, and runs its action after the import."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in _ACTIONS:
            return None
        action = _ACTIONS.pop(name)
        return _with_action(PathFinder.find_spec(name, path, target), lambda module: action())


sys.meta_path[:0] = [_Finder, _Watcher]
