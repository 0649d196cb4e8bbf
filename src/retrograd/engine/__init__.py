"""Tensor, Function, the backward sweep, grad modes and the gradient checker."""

from .function import Function
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .gradcheck import GradcheckError, GradcheckFault, GradcheckReport, gradcheck, gradgradcheck
from .hooks import RemovableHandle
from .inplace import modify
from .node import Node
from .once import once_differentiable
from .source import backward_source
from .sweep import backward, grad
from .tensor import Tensor, wrap
from .views import View

__all__ = [
    "Function",
    "GradcheckError",
    "GradcheckFault",
    "GradcheckReport",
    "Node",
    "RemovableHandle",
    "Tensor",
    "View",
    "backward",
    "backward_source",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "modify",
    "no_grad",
    "once_differentiable",
    "set_grad_enabled",
    "wrap",
]
