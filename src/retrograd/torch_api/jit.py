"""``torch.jit``: ``script`` and ``trace`` return their argument; kernels are compiled on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from ..engine.arguments import kind_name
from ..nn.module import Module as ScriptModule
from .missing import attach_to_module

__all__ = [
    "Final",
    "ScriptModule",
    "export",
    "freeze",
    "ignore",
    "is_scripting",
    "is_tracing",
    "load",
    "optimize_for_inference",
    "save",
    "script",
    "script_method",
    "trace",
    "trace_module",
    "unused",
]


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Return ``obj``, a module, function or class, unchanged.

    Raises:
        TypeError: obj is not callable.
    """
    return _callable("jit.script", obj)


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return ``func``, a module or function, unchanged; unlike a trace, it keeps data-dependent control flow.

    Raises:
        TypeError: func is not callable.
    """
    return _callable("jit.trace", func)


def trace_module(mod: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Return ``mod`` unchanged.

    Raises:
        TypeError: mod is not callable.
    """
    return _callable("jit.trace_module", mod)


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """Return ``mod`` unchanged."""
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """Return ``mod`` unchanged."""
    return mod


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method: return ``fn`` unchanged."""
    return fn


export: Final = unused
script_method: Final = unused


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Decorate a method: return it unchanged; may be used with or without arguments."""
    return drop if callable(drop) else unused


def is_scripting() -> bool:
    """False."""
    return False


def is_tracing() -> bool:
    """False."""
    return False


def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """Raise: a model is its Python code, which is not written to files.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "jit.save: a model is its Python code; save its weights: retrograd.save(model.state_dict(), path)"
    )


def load(f: Any, map_location: Any = None, _extra_files: Any = None) -> NoReturn:
    """Raise: code from files is not run.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "jit.load: code from a file is not run; build the model in Python and load its weights: "
        "model.load_state_dict(retrograd.load(path))"
    )


def _callable(name: str, value: Any) -> Any:
    if not callable(value):
        raise TypeError(f"{name}: got {kind_name(value)}, needs a module or a function")
    return value


attach_to_module(__name__)
