"""Attaches to Tensor the methods that are built on Functions, hooks and the backward sweep.

This breaks the only import cycle of the engine: node.py and function.py call these methods without importing the files
that define them, so the engine's files import each other in one direction. attached.pyi declares the methods for type
checkers.
"""

from __future__ import annotations

from typing import Any

from .backward_pass import backward_of_one
from .function import as_intermediate, as_saved
from .hooks import register_hook, register_post_accumulate_grad_hook
from .tensor import Tensor
from .views import rebase

backward_of_one.__name__, backward_of_one.__qualname__ = "backward", "Tensor.backward"  # as help and tracebacks show it

METHODS: dict[str, Any] = {
    "backward": backward_of_one,
    "register_hook": register_hook,
    "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook,
    "_as_intermediate": as_intermediate,
    "_as_saved": as_saved,
    "_rebase": rebase,
}

for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)
