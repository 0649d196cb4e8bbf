"""Formulas: every pointwise operator and its gradient, written once.

A formula is a plain function of its operands, made of arithmetic, comparisons, other formulas and primitives. The same
function object runs on Tensors, where it is recorded and can be differentiated again; on NumPy arrays, which is the
textbook set; and on the registers of a compiled kernel.
"""

from typing import Any

# imported to register their formulas in the table
from . import activation, arithmetic, optimizers, piecewise, quantization, transcendental
from .primitive import PRIMITIVES
from .registry import FORMULAS, UPDATES, Form, form, fused, stored

# formulas without a kernel: parts of other operators
_WITHOUT = {"absolute", "exp_negative", "full_like", "nearest", "normal_cdf"}
POINTWISE = {name: function for name, function in PRIMITIVES.items() if name not in _WITHOUT} | FORMULAS
FUSED = fused(POINTWISE)
# formulas of one operand that follow convolutions and products in many networks
ACTIVATIONS = (
    *("elu", "gelu", "gelu_tanh", "hardsigmoid", "hardswish", "leaky_relu", "mish", "sigmoid", "silu", "softplus"),
    "tanh",
)


def __getattr__(name: str) -> Any:
    """Return a primitive, formula or constant by name, for use in formulas."""
    from .tracing import NAMES

    if name in NAMES:
        return NAMES[name]
    if name in FORMULAS:
        return FORMULAS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["ACTIVATIONS", "FORMULAS", "FUSED", "POINTWISE", "PRIMITIVES", "UPDATES", "Form", "form", "stored"]
