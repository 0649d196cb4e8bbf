"""Gradients: write a Function, sweep backward, check what came out. PyTorch's ``torch.autograd``."""

from .engine.function import Function
from .engine.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .engine.gradcheck import GradcheckError, gradcheck, gradgradcheck
from .engine.once import once_differentiable
from .engine.source import backward_source
from .engine.sweep import backward, grad

__all__ = [
    "Function",
    "GradcheckError",
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
]
