"""PyTorch's ``torch.jit``: a script or trace is the function or module itself; kernels are compiled on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

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
    """``obj`` itself, a module, function or class: it computes the same.

    Raises:
        TypeError: obj cannot be called.
    """
    return _callable("jit.script", obj)


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """``func`` itself, a module or function: unlike a trace, it still depends on control flow.

    Raises:
        TypeError: func cannot be called.
    """
    return _callable("jit.trace", func)


def trace_module(mod: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """``mod`` itself.

    Raises:
        TypeError: mod cannot be called.
    """
    return _callable("jit.trace_module", mod)


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """``mod`` itself."""
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """``mod`` itself."""
    return mod


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` itself: a decorator of methods."""
    return fn


export = script_method = unused


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """A decorator of methods that returns them as they are, with or without arguments."""
    return drop if callable(drop) else unused


def is_scripting() -> bool:
    """False."""
    return False


def is_tracing() -> bool:
    """False."""
    return False


def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """A model is its Python code, which is not written to files.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "jit.save: a model is its Python code; save its weights: retrograd.save(model.state_dict(), path)"
    )


def load(f: Any, map_location: Any = None, _extra_files: Any = None) -> NoReturn:
    """Files of code are not run.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "jit.load: a file that holds code is not run; build the model in Python and load its weights: "
        "model.load_state_dict(retrograd.load(path))"
    )


def _callable(name: str, value: Any) -> Any:
    if not callable(value):
        raise TypeError(f"{name}: got {type(value).__name__}, needs a module or a function")
    return value


attach_to_module(__name__)
