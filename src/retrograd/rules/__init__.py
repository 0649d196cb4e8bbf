"""Predefined backward rules for `override_backward` and ``layer.backward_rule``, passed as objects or by name.

    with retrograd.override_backward(retrograd.sign, "clipped"):
        y = x.sign()                                    # the gradient of hardtanh
    layer.backward_rule = rules.FeedbackAlignment(seed=1)

Each rule is a few lines of code to copy and change; its docstring gives the formula and the source.
"""

import sys

from ..ops.signatures import explain_wrong_arguments as _explain_wrong_arguments
from .feedback_alignment import *
from .gradient_transforms import *
from .surrogate import *

_MODULES = ("feedback_alignment", "gradient_transforms", "surrogate")
__all__ = [name for module in _MODULES for name in sys.modules[f"{__name__}.{module}"].__all__]

_explain_wrong_arguments(globals()[name] for name in __all__)
