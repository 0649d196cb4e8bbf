"""Gradients: write a Function, sweep backward, check what came out. PyTorch's ``torch.autograd``."""

from ..engine.anomaly import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from ..engine.function import Function
from ..engine.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from ..engine.gradcheck import GradcheckError, gradcheck, gradgradcheck
from ..engine.once import once_differentiable
from ..engine.source import backward_source
from ..engine.sweep import backward, grad
from ..engine.views import View
from . import functional

__all__ = [
    "Function",
    "GradcheckError",
    "View",
    "backward",
    "backward_source",
    "detect_anomaly",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
]
