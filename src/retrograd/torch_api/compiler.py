"""``torch.compile`` and ``torch.compiler``: only kernels are compiled, on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..engine.arguments import kind_name
from ..ops.argument_checks import as_truth
from .missing import attach_to_module

__all__ = ["allow_in_graph", "compile", "disable", "is_compiling", "reset"]


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return ``model``, a module or function, unchanged; without it, a decorator.

    The options control compilation in PyTorch and have no effect here.

    Raises:
        TypeError: model is not callable, or fullgraph, dynamic or disable is not a bool.
    """
    as_truth("compile", "fullgraph", fullgraph)
    as_truth("compile", "disable", disable)
    if dynamic is not None:
        as_truth("compile", "dynamic", dynamic)
    if model is None:
        return compile
    if not callable(model):
        raise TypeError(f"compile: model is {kind_name(model)}, needs a module or a function")
    return model


def disable(fn: Any = None, recursive: bool = True, reason: str | None = None) -> Any:
    """Return ``fn`` unchanged; without it, a decorator."""
    return allow_in_graph if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """Return ``fn`` unchanged."""
    return fn


def is_compiling() -> bool:
    """False."""
    return False


def reset() -> None:
    """Do nothing: there is no compilation cache."""


attach_to_module(__name__)
