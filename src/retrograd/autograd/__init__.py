"""Gradients: custom Functions, backward and gradient checks, as in ``torch.autograd``."""

import importlib
from typing import TYPE_CHECKING, Any

from ..engine.anomaly import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from ..engine.backward_pass import backward, grad
from ..engine.function import Function, once_differentiable
from ..engine.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from ..engine.views import View
from ..torch_api.missing import find_module
from .variable import Variable

if TYPE_CHECKING:
    from ..engine.gradcheck import GradcheckError, gradcheck, gradgradcheck
    from ..explanation.backward_source import backward_source
    from . import functional

__all__ = [
    "Function",
    "GradcheckError",
    "Variable",
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

# Imported on first use, to keep "import retrograd" fast.
_LAZY_NAMES = {
    "GradcheckError": "..engine.gradcheck",
    "backward_source": "..explanation.backward_source",
    "gradcheck": "..engine.gradcheck",
    "gradgradcheck": "..engine.gradcheck",
}


def __getattr__(name: str) -> Any:
    if name == "functional":
        return importlib.import_module(".functional", __name__)
    if name in _LAZY_NAMES:
        return getattr(importlib.import_module(_LAZY_NAMES[name], __name__), name)
    return find_module(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
