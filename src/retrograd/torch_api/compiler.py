"""``torch.compiler``: recorded calls are replayed, see ``nn/replay.py``; kernels are compiled on first use."""

from __future__ import annotations

from typing import Any

from ..nn.compilation import compile
from .missing import attach_to_module

__all__ = ["allow_in_graph", "compile", "disable", "is_compiling", "reset"]


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
