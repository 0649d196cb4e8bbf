"""Attaches to Tensor the methods that are built on Functions, hooks and the backward sweep.

This breaks the only import cycle of the engine: node.py and function.py call these methods without importing the files
that define them, so the engine's files import each other in one direction. attached.pyi declares the methods for type
checkers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .backward_pass import backward
from .function import as_intermediate, as_saved
from .hooks import register_hook, register_post_accumulate_grad_hook
from .tensor import Tensor
from .views import rebase


def _backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Deliver the gradient of this tensor to the leaves of its graph; see `engine.backward_pass.backward`."""
    backward((self,), None if gradient is None else (gradient,), retain_graph, create_graph, inputs)


_backward.__name__, _backward.__qualname__ = "backward", "Tensor.backward"  # the names that help and tracebacks show

METHODS: dict[str, Any] = {
    "backward": _backward,
    "register_hook": register_hook,
    "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook,
    "_as_intermediate": as_intermediate,
    "_as_saved": as_saved,
    "_rebase": rebase,
}

for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)
