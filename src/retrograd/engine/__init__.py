"""The autograd engine: Tensor, Function, the backward pass, grad modes and the gradient checker.

The files import each other in one direction: grad_mode.py, tensor.py, node.py, function.py and so on up to
backward_pass.py. An earlier file that needs a later one calls a method of Tensor, which methods.py attaches.
"""

from . import methods as _methods
from .backward_pass import backward, grad
from .function import Function, once_differentiable
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
