"""Tensor, Function, the backward sweep, grad modes and the gradient checker."""

from .function import Function, Node, once_differentiable
from .grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .gradcheck import GradcheckError, GradcheckFault, GradcheckReport, gradcheck, gradgradcheck
from .source import backward_source
from .sweep import backward, grad
from .tensor import Tensor, wrap

__all__ = [
    "Function",
    "GradcheckError",
    "GradcheckFault",
    "GradcheckReport",
    "Node",
    "Tensor",
    "backward",
    "backward_source",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
    "set_grad_enabled",
    "wrap",
]
