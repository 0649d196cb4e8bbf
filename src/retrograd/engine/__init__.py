"""Tensor, Function, the backward sweep and grad modes; the gradient checker is in gradcheck.py.

The files import each other one way, from grad_mode.py up over tensor.py, node.py and function.py to sweep.py. What has
to go the other way goes through one knot, methods.py: the methods of Tensor that are built on all of these.
"""

from . import methods as _methods  # noqa: F401  attaches them to Tensor
from .function import Function
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .hooks import RemovableHandle
from .inplace import modify
from .node import Node
from .once import once_differentiable
from .sweep import backward, grad
from .tensor import Tensor, wrap
from .views import View

__all__ = [
    "Function",
    "Node",
    "RemovableHandle",
    "Tensor",
    "View",
    "backward",
    "enable_grad",
    "grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "modify",
    "no_grad",
    "once_differentiable",
    "set_grad_enabled",
    "wrap",
]
